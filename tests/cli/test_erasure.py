"""Erasure on the command line: erase, redact, recover, prune and everything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from escapes_kit import RAW

from satchel.bank.open_bank import OpenBank, open_bank
from satchel.config.settings import load_settings
from satchel.crypto.sealed_records import Sealed, seal
from satchel.erasure import prune as pruning
from satchel.erasure.prune import moment_of, prune
from satchel.errors import UsageError
from satchel.ledger.repair import DAMAGED
from satchel.ledger.transaction import closing_receipt, is_unfinished
from satchel.model.records import (
    Edge,
    Episodic,
    Erasure,
    GraphNode,
    Model,
    Semantic,
    SessionEvent,
    Source,
    State,
    Status,
)
from satchel.model.values import Entity, Origin, Scope, now
from satchel.ports.rows import Filter
from satchel.transfer.import_stage import KnownRecords, key_of

if TYPE_CHECKING:
    from tests.cli.conftest import Run


ADA = "Dr. Ada Lovelace, ada@analytical.example, of Marylebone"


def remember(satchel: Run, text: str = ADA, user: str = "ada") -> str:
    """Store a memory and return its ID."""
    assert satchel("init").status == 0
    return satchel("remember", text, "--user", user).out.strip()


def test_erase_requires_yes_without_a_terminal(satchel: Run) -> None:
    """Also with ``--json``; a dry run needs no confirmation."""
    remember(satchel)
    for more in ((), ("--json",)):
        ran = satchel("erase", "--where", "user=ada", *more)
        assert ran.status == 2
        assert "--yes" in ran.err
    plan = satchel("erase", "--where", "user=ada", "--dry-run")
    assert plan.status == 0
    assert plan.out.startswith("1 record would be erased")
    assert satchel("list").out.count("Lovelace") == 1


def test_erase_without_memories_asks_for_them_before_any_confirmation(satchel: Run) -> None:
    """The hint is ``--where`` rather than ``--yes``."""
    remember(satchel)
    ran = satchel("erase")
    assert (ran.status, "--where" in ran.err, "--yes" in ran.err) == (2, True, False)


def test_erase_prints_and_stores_a_report(satchel: Run, tmp_path: Path) -> None:
    """It is listed and verified, and a copy is written."""
    remember(satchel)
    copy = tmp_path / "report.json"
    ran = satchel("erase", "--where", "user=ada", "--yes", "--receipt", copy)
    assert ran.status == 0
    assert "1 record erased" in ran.out
    assert "no remnants" in ran.out
    assert "not searched: backups" in ran.err
    assert "Lovelace" not in ran.out + ran.err
    assert satchel("receipt", "verify", copy).status == 0
    page = satchel("receipt", "show", copy).out
    assert page.startswith("REPORT OF AN ERASURE")
    assert "nothing found" in page
    assert satchel("doctor", "--deep").status == 0
    assert satchel("erase", "--where", "user=ada", "--yes", "--no-scan").status == 0


def test_a_remnant_after_erase_sets_exit_status_1(satchel: Run, tmp_path: Path) -> None:
    """The report names the file that contains it."""
    remember(satchel)
    home = next(tmp_path.rglob("satchel.db")).parent
    (home / "notes.txt").write_text(f"she said: {ADA}")
    ran = satchel("erase", "--where", "user=ada", "--yes", "--json")
    assert ran.status == 1
    assert [one["name"] for one in ran.json["scanned"] if one.get("found")] == [
        str(home / "notes.txt")
    ]


def test_invalid_arguments_of_erase_and_redact_get_a_hint(satchel: Run) -> None:
    """An unknown field, memory or kind of data."""
    identity = remember(satchel)
    for words, hint in (
        (("erase", "--where", "color=red", "--yes"), "user"),
        (("erase", "blake3:" + "0" * 64, "--yes"), "satchel list"),
        (("redact", identity, "--data-kind", "nose"), "email"),
        (("redact", identity, "--field", "text"), "/text"),
        (("redact",), "--where"),
    ):
        ran = satchel(*words)
        assert ran.status == 2, words
        assert hint in ran.err


def test_a_memory_is_redacted_shown_and_recovered(satchel: Run, tmp_path: Path) -> None:
    """The removed words are printed only by ``recover``, to its recipient."""
    identity = remember(satchel)
    plan = satchel("redact", identity, "--dry-run")
    assert "1 memory would be redacted" in plan.out
    ran = satchel("redact", "--where", "user=ada", "--recover-for", "default")
    assert ran.status == 0
    assert "1 email" in ran.out
    assert "Lovelace" not in plan.out + ran.out + ran.err
    assert "[REDACTED:email:1]" in satchel("list").out
    assert satchel("recover", identity).json["text"] == ADA
    output = tmp_path / "original.json"
    assert satchel("recover", identity, "-o", output).status == 0
    assert json.loads(output.read_bytes())["id"] == identity
    assert output.stat().st_mode & 0o777 == 0o600
    other = remember(satchel, "nothing personal", "bob")
    assert satchel("recover", other).status == 3


def test_a_redacted_memory_stays_redacted_in_another_bank(satchel: Run, tmp_path: Path) -> None:
    """With the same ID, and it verifies there."""
    remember(satchel)
    assert satchel("redact", "--where", "user=ada").status == 0
    file, again = tmp_path / "all.pam.jsonl", tmp_path / "again.pam.jsonl"
    assert satchel("export", "--output", file).status == 0
    assert satchel("verify", file, "--deep").status == 0
    assert satchel("bank", "create", "second").status == 0
    assert satchel("import", file, "--bank", "second").status == 0
    for command in (("list",), ("recall", "ada")):
        ran = [satchel(*command, "--bank", bank, "--json") for bank in ("default", "second")]
        ids = [[one["id"] for one in json.loads(each.out)["memories"]] for each in ran]
        assert ids[0] == ids[1]
    assert satchel("export", "--bank", "second", "--output", again).status == 0
    assert satchel("verify", again, "--deep").status == 0
    assert b"REDACTED" in again.read_bytes()


LATER = "2999-01-01"


@pytest.fixture
def bank(satchel: Run) -> Iterator[OpenBank]:
    """A bank that this machine owns."""
    assert satchel("bank", "create", "assistant").status == 0
    with open_bank(load_settings(), writes=True) as found:
        yield found


def status(target: Sealed, state: State) -> Sealed:
    """Return a status record of another record."""
    return seal(Status(target=target.id, state=state))


def append_versions(bank: OpenBank, number: int, key: str = "home") -> list[Sealed]:
    """Log a memory and its later versions, each superseding the one before."""
    made = [
        seal(Semantic(text=f"version {at} of {key}", origin=Origin(provider="x", id=key)))
        for at in range(number)
    ]
    for at, record in enumerate(made):
        before = [status(made[at - 1], "superseded")] if at else []
        bank.ledger.append([*before, record])
    return made


def stored_ids(bank: OpenBank) -> set[str]:
    """Return the IDs of all records that still have their bytes."""
    with bank.ledger.reading() as view:
        return {logged.record.id for logged in view.scan()}


# -- prune -----------------------------------------------------------------------------------


def test_prune_erases_superseded_records_only(satchel: Run, bank: OpenBank) -> None:
    """Current and deleted memories stay; the log records what was erased, why, and by which key."""
    made = append_versions(bank, 4)
    gone, kept = (seal(Semantic(text=text)) for text in ("deleted", "kept"))
    bank.ledger.append([gone, kept, status(gone, "deleted")])
    before = stored_ids(bank)

    planned = satchel("prune", "--superseded-before", LATER, "--dry-run", "--json").json
    assert (planned["erased"], planned["dry_run"]) == (3, True)
    assert planned["bytes"] == sum(len(record.body) for record in made[:3])
    assert stored_ids(bank) == before

    ran = satchel("prune", "--superseded-before", LATER, "--reason", "policy 7")
    assert (ran.status, ran.out.splitlines()[0][:17]) == (0, "3 records erased,")
    assert before - stored_ids(bank) == {record.id for record in made[:3]}
    with bank.ledger.reading() as view:
        erasures = [one.model for one in view.scan(Filter(types=frozenset({"erasure"})))]
        found = [one for one in erasures if isinstance(one, Erasure)]
        assert [one.entry for one in found] == [record.id for record in made[:3]]
        assert {one.reason for one in found} == {"policy 7"}
        assert all(one.by and one.by.startswith("did:key:") for one in found)
    assert not is_unfinished(bank.store, bank.id)
    assert b"version 1 of home" not in Path(bank.store.name).read_bytes()
    again = satchel("prune", "--superseded-before", LATER, "--json").json
    assert again["erased"] == 0
    assert satchel("doctor", "--deep").status == 0


def test_prune_with_include_deleted_erases_deleted_memories(satchel: Run, bank: OpenBank) -> None:
    """Deleted, expired and rejected ones, but neither restored nor quarantined ones."""
    states: list[list[State]] = [
        ["deleted"],
        ["expired"],
        ["rejected"],
        ["deleted", "restored"],
        ["quarantined"],
        ["superseded", "restored", "promoted"],
    ]
    records = [seal(Semantic(text=f"number {at}")) for at in range(len(states))]
    bank.ledger.append(records)
    for record, some in zip(records, states, strict=True):
        for state in some:
            bank.ledger.append([status(record, state)])
    assert satchel("prune", "--superseded-before", LATER, "--json").json["erased"] == 0
    done = satchel("prune", "--superseded-before", LATER, "--include-deleted", "--json").json
    assert (done["erased"], done["types"]) == (3, {"semantic": 3})
    assert {record.id for record in records} & stored_ids(bank) == {r.id for r in records[3:]}


def test_prune_keeps_records_that_ended_after_the_given_time(bank: OpenBank) -> None:
    """By the time of the status in the log, not of the memory."""
    made = append_versions(bank, 3)
    with bank.ledger.reading() as view:
        ends = [view.statuses_of(record.id)[0].row.at for record in made[:2]]
    assert prune(bank, ends[0]).erased == 0
    assert prune(bank, ends[1]).erased == 1
    assert made[0].id not in stored_ids(bank)
    assert made[1].id in stored_ids(bank)


def test_prune_with_include_deleted_erases_an_undone_import(bank: OpenBank) -> None:
    """One record deleted all of it; what an import superseded counts from its completion."""
    source, old = seal(Source(provider="x", format="x")), seal(Semantic(text="old"))
    records = [seal(Semantic(text=f"imported {at}")) for at in range(5)]
    bank.ledger.append([old, source])
    bank.ledger.append([*records, status(old, "superseded")], batch=source.id)
    assert prune(bank, "2999", deleted=True).erased == 0
    bank.ledger.append([closing_receipt(source.id, now())])
    assert prune(bank, "2999").erased == 1
    bank.ledger.append([status(source, "deleted")])
    assert prune(bank, "2999").erased == 0
    assert prune(bank, "2999", deleted=True).erased == 5


def test_an_interrupted_prune_keeps_whole_groups_and_is_resumed(
    bank: OpenBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: it fails in the middle; finished groups stay erased."""
    monkeypatch.setattr(pruning, "GROUP", 4)
    made = append_versions(bank, 12)
    appended = bank.ledger.append
    calls: list[int] = []

    def failing(records: Any, **more: Any) -> list[int]:
        calls.append(len(records))
        if len(calls) > 2:
            raise KeyboardInterrupt
        return appended(records, **more)

    monkeypatch.setattr(bank.ledger, "append", failing)
    with pytest.raises(KeyboardInterrupt):
        prune(bank, "2999")
    assert calls == [4, 4, 3]
    monkeypatch.undo()
    assert is_unfinished(bank.store, bank.id)
    assert len(stored_ids(bank) & {record.id for record in made}) == 4
    told: list[tuple[int, int]] = []
    assert prune(bank, "2999", progress=lambda *both: told.append(both)).erased == 3
    assert told[-1][0] == told[-1][1]
    assert not is_unfinished(bank.store, bank.id)


def test_bytes_left_in_the_file_are_reported_and_removed_by_the_next_prune(
    satchel: Run, bank: OpenBank
) -> None:
    """Fault: the process ended after the erasure and before the file was rewritten."""
    made = append_versions(bank, 2)
    bank.ledger.append([seal(Erasure(entry=made[0].id))])
    (noted,) = _health(satchel, bank)
    assert noted["state"] == "note"
    assert "contain erased bytes" in noted["detail"]
    assert satchel("prune", "--superseded-before", "1y").status == 0
    assert [one["state"] for one in _health(satchel, bank)] == ["ok"]


def _health(satchel: Run, bank: OpenBank) -> list[Any]:
    return [one for one in satchel("doctor", "--json").json["checks"] if one["name"] == bank.id]


def test_prune_removes_damaged_copies_of_erased_records(bank: OpenBank) -> None:
    """They are stored beside the log."""
    made = append_versions(bank, 3)
    with bank.ledger.reading() as view:
        places = view.places([record.id for record in made])
    bank.ledger.append([seal(Erasure(entry=record.id)) for record in made[:2]])
    kept = {f"{DAMAGED}{places[made[at].id]}": b"damaged" for at in (0, 2)}
    with bank.store.writing() as writing:
        writing.put_side(bank.id, kept)
    prune(bank, "2999")
    with bank.store.reading() as reader:
        assert list(reader.side(bank.id)) == [f"{DAMAGED}{places[made[2].id]}"]


def test_attack_erased_text_is_guessed_from_import_fingerprints(
    satchel: Run, bank: OpenBank, mem0: Path
) -> None:
    """Fingerprints have no nonce; those of erased records are deleted, others stay."""
    assert satchel("import", "--bank", "assistant", "--input", mem0).status == 0

    def prints() -> list[bytes]:
        with bank.ledger.reading() as view:
            records = view.scan(Filter(types=frozenset({"semantic"}), retired=True))
            made = [key_of(one.record.id, one.record.body) for one in records]
            known = KnownRecords(view)
        return [one for one in made if one in known]

    before = prints()
    with bank.ledger.reading() as view:
        records = view.scan(Filter(types=frozenset({"semantic"})))
        (tea,) = (one.record for one in records if b"tea" in one.record.body)
    assert len(before) == 2
    bank.ledger.append([status(tea, "deleted")])
    assert prune(bank, "2999", deleted=True).erased == 1
    with bank.store.reading() as reader:
        assert reader.side(bank.id, "known/") == {}
    assert prints() == [one for one in before if one != key_of(tea.id, tea.body)]
    with bank.ledger.reading() as view:
        assert key_of(tea.id, tea.body) not in KnownRecords(view)
    again = satchel("import", "--bank", "assistant", "--input", mem0)
    assert again.status == 0
    with bank.ledger.reading() as view:
        found = [one.row.text for one in view.scan(Filter(types=frozenset({"semantic"})))]
    assert sorted(map(str, found)) == ["likes tea", "lives in 東京"]


@pytest.mark.parametrize("text", ["", "soon", "90", "-1d", "1m", "2026-13-01", "9" * 6 + "y"])
@pytest.mark.usefixtures("bank")
def test_an_invalid_time_is_refused(satchel: Run, text: str) -> None:
    """The error names the accepted forms."""
    ran = satchel("prune", f"--superseded-before={text}", "--json")
    assert (ran.status, ran.error["field"]) == (2, "superseded-before")
    with pytest.raises(UsageError):
        moment_of(text)


def test_a_time_is_a_date_a_timestamp_or_an_age() -> None:
    """Ages are counted back from now."""
    assert moment_of("2026-01-31") == "2026-01-31T00:00:00.000000Z"
    assert moment_of("2026-01-31T12:00:00+02:00") == "2026-01-31T10:00:00.000000Z"
    ages = [moment_of(age) for age in ("0h", "12h", "1d", "8d", "1w", "2y")]
    assert ages[0] <= now()
    assert sorted(ages, reverse=True) == [*ages[:3], ages[4], ages[3], ages[5]]


# -- everything --------------------------------------------------------------------------------


def _report(satchel: Run, *about: str) -> Any:
    named = [word for name in about for word in ("--about", name)]
    ran = satchel("everything", *named, "--to", "json")
    assert ran.status == 0
    return ran.json


def _texts(found: Any) -> list[str]:
    return [one["record"].get("text", one["type"]) for one in found["records"]]


def test_everything_finds_each_record_that_names_a_person(satchel: Run, bank: OpenBank) -> None:
    """Owner, entities, aliases, facts, actors, tags, metadata and its keys, text, nodes, turns."""
    naming: list[Model] = [
        Semantic(text="1", scope=Scope(user="ada")),
        Semantic(text="2", entities=(Entity(name="Ada"),)),
        Semantic(text="3", entities=(Entity(name="x", aliases=("Countess Ada",)),)),
        Semantic(text="4", subject="Ada", predicate="likes", object="tea"),
        Semantic(text="5", subject="tea", object="ADA"),
        Episodic(text="6", actor="user:ada"),
        Semantic(text="7", tags=("about-ada",)),
        Semantic(text="8", metadata={"deep": [{"who": "Ada"}]}),
        Semantic(text="9", metadata={"ada": True}),
        Semantic(text="10 (Ada)"),
        Semantic(text="11 \u200bA\u0301da\u0300"),
        SessionEvent(event="message", session="s", text="12 \uff21\uff24\uff21 said"),
        SessionEvent(event="message", session="s", text="13", content=[{"by": "Ada"}]),
        GraphNode(name="Ada", summary="14"),
    ]
    others: list[Model] = [
        Semantic(text="Adam, Adalbert, canada"),
        GraphNode(name="Bob"),
        Episodic(text="Ad a"),
    ]
    bank.ledger.append([seal(draft) for draft in (*naming, *others)])
    found = _report(satchel, "ada")
    assert len(found["records"]) == len(naming)
    assert [one["place"] for one in found["records"]] == list(range(2, 2 + len(naming)))
    assert found["records"][8]["named_in"] == ["/metadata/ada"]
    assert found["in_all"]["records"] == len(naming)


def test_everything_finds_names_of_several_words_and_of_any_script(
    satchel: Run, bank: OpenBank
) -> None:
    """Words in order; runs of characters in scripts without spaces; addresses by their parts."""
    texts = {
        "Ada Lovelace came": "Ada Lovelace",
        "Lovelace, Ada": "",
        "山田太郎さんは来ますか": "山田",
        "山口": "",
        "write to ada@example.com!": "ada@example.com",
        "ada at example dot com": "",
        "茶を飲む 緑茶": "茶",
        "id 4711": "4711",
        "김철수는 회의에": "김철수",
    }
    bank.ledger.append([seal(Semantic(text=text)) for text in texts])
    bank.ledger.append([seal(Semantic(text="number", metadata={"user": 4711}))])
    for text, name in texts.items():
        if name:
            expected = [text, "number"] if name == "4711" else [text]
            assert _texts(_report(satchel, name)) == expected
    assert len(_report(satchel, "山田", "Ada Lovelace")["records"]) == 2
    for nothing in ("", "!!!", "\x1b"):
        assert satchel("everything", "--about", nothing).status == 2


def test_everything_includes_retired_quarantined_linked_and_incomplete_records(
    satchel: Run, bank: OpenBank
) -> None:
    """With their statuses, origin, and the edges of a named node."""
    old, new = append_versions(bank, 2, "ada")
    node, other = seal(GraphNode(name="Ada")), seal(GraphNode(name="Bob"))
    edge = seal(Edge(source=other.id, target=node.id, kind="knows"))
    apart = seal(Edge(source=other.id, target="elsewhere", kind="knows"))
    held = seal(Semantic(text="Ada, held"))
    bank.ledger.append([edge, apart, node, other, held, status(held, "quarantined")])
    done, still = (seal(Source(provider="mem0", format="mem0", at=now())) for _ in range(2))
    bank.ledger.append([done, still])
    bank.ledger.append([seal(Semantic(text="Ada, imported"))], batch=done.id)
    bank.ledger.append([seal(Semantic(text="Ada, arriving"))], batch=still.id)
    bank.ledger.append([closing_receipt(done.id, now())])
    reason = seal(Status(target=old.id, state="promoted", reason="asked by eve", actor="eve"))
    bank.ledger.append([reason])

    found = {one["id"]: one for one in _report(satchel, "ada")["records"]}
    assert found[old.id]["state"] == "superseded"
    assert [one["state"] for one in found[old.id]["said_of_it"]] == ["superseded", "promoted"]
    assert found[old.id]["said_of_it"][1]["actor"] == "eve"
    assert found[new.id]["state"] == "current"
    assert found[held.id]["held"] is True
    assert found[edge.id]["ends"] == {"source": "Bob", "target": "Ada"}
    assert "named_in" not in found[edge.id]
    assert apart.id not in found
    states = {one["record"].get("text"): one for one in found.values()}
    assert states["Ada, imported"]["came_with"]["provider"] == "mem0"
    assert states["Ada, arriving"]["state"] == "arriving"
    assert [one["type"] for one in _report(satchel, "eve")["records"]] == ["status"]


def test_everything_lists_erased_records_with_position_and_reason(
    satchel: Run, bank: OpenBank
) -> None:
    """For any name, because their content is gone; also records erased elsewhere."""
    made = append_versions(bank, 2)
    elsewhere = "blake3:" + "7" * 64
    prune(bank, "2999", reason="policy")
    bank.ledger.append([seal(Erasure(entry=elsewhere, reason="asked"))])
    erased = _report(satchel, "nobody")["erased"]
    assert [(one["id"], one.get("place"), one.get("type")) for one in erased] == [
        (made[0].id, 2, "semantic"),
        (elsewhere, None, None),
    ]
    assert [one["reason"] for one in erased] == ["policy", "asked"]
    text = satchel("everything", "--about", "nobody").out
    assert "policy" in text
    assert "None." in text


def test_attack_a_memory_forges_the_report_or_controls_the_terminal(
    satchel: Run, bank: OpenBank, tmp_path: Path
) -> None:
    """Headings, fences, links, HTML, line separators and escapes, in values and names."""
    nasty = (
        "ada\n# Forged\n## Erased\n```\n<script>\r\n### 9. semantic, current\x1b[2J\x9b31m"
        "\u202e\u2028# Forged\u2029\x0b# Forged\x85# Forged\n\n---\nAda: [x](http://x)"
    )
    drafts: list[Model] = [
        Semantic(text=nasty, kind=nasty, tags=(nasty,), metadata={nasty: [nasty, {nasty: 1}]}),
        GraphNode(name=nasty),
        SessionEvent(event="message", session=nasty, role=nasty, content=nasty),
    ]
    records = [seal(draft) for draft in drafts]
    bank.ledger.append([*records, seal(Edge(source=records[1].id, target=nasty, kind=nasty))])
    bank.ledger.append([seal(Status(target=records[0].id, state="deleted", reason=nasty))])
    bank.ledger.append([seal(Erasure(entry=records[0].id, reason=nasty))])
    bank.ledger.append([status(records[1], "quarantined"), seal(Semantic(text=nasty))])
    out = tmp_path / "ada.md"
    printed = satchel("everything", "--about", "ada", "--about", f"Ada {nasty}").out
    assert satchel("everything", "--about", "ada", "--output", out).status == 0
    for text in (printed, out.read_text()):
        assert not RAW.search(text)
        ours = [line for line in text.split("\n") if line and not line.startswith("    ")]
        assert [line for line in ours if line.startswith("#")] == [
            "# Everything that a memory bank holds about a person",
            "## Records",
            *(f"### {at}. {what}" for at, what in enumerate(_KINDS, 1)),
            "## Erased",
            "## In all",
        ]
        assert len([line for line in ours if not line.startswith("#")]) == 1
    written = satchel("everything", "--about", "ada", "--to", "json").out
    assert not RAW.search(written)
    assert nasty in [one["record"].get("text") for one in json.loads(written)["records"]]


_KINDS = (
    "graph_node, current, in quarantine",
    "session_event, current",
    "edge, current",
    "status, current",
    "erasure, current",
    "semantic, current",
)


def test_the_output_of_everything_is_private_and_overwrites_only_on_request(
    satchel: Run, bank: OpenBank, tmp_path: Path
) -> None:
    """Mode 0600; a failure leaves no file."""
    bank.ledger.append([seal(Semantic(text="Ada"))])
    out = tmp_path / "ada.md"
    done = satchel("everything", "--about", "ada", "--output", out, "--to", "json", "--json").json
    assert (done["records"], done["output"]) == (1, str(out))
    assert out.stat().st_mode & 0o777 == 0o600
    assert json.loads(out.read_text())["in_all"]["records"] == 1
    before = out.read_bytes()
    again = satchel("everything", "--about", "bob", "--output", out)
    assert (again.status, "--overwrite" in again.err, out.read_bytes()) == (5, True, before)
    ran = satchel("everything", "--about", "bob", "--output", out, "--overwrite")
    assert (ran.status, ran.out) == (0, f"0 records in {out}\n")
    assert satchel("everything", "--about", "!", "--output", tmp_path / "no").status == 2
    assert not (tmp_path / "no").exists()


def test_everything_counts_blobs_that_were_not_searched(satchel: Run, bank: OpenBank) -> None:
    """File contents are stored apart."""
    with bank.store.writing() as writing:
        writing.blobs.put(bank.id, [b"Ada"])
    assert _report(satchel, "ada")["in_all"]["blobs not searched"] == 1


@pytest.mark.parametrize("command", ["show", "history", "list"])
def test_show_history_and_list_mark_a_redacted_memory(command: str, satchel: Any) -> None:
    """With signer and time, as text and as JSON."""
    name = satchel("remember", "write to ada@example.com", "--json").json["id"]
    assert satchel("redact", name).status == 0
    arguments = [command, *([] if command == "list" else [name])]
    said = satchel(*arguments).out
    assert "redacted" in said
    redacted = next(_redactions(satchel(*arguments, "--json").json))
    assert redacted["fields"] == ["/text"]
    assert redacted["by"].startswith("did:key:")
    assert command == "list" or redacted["by"] in said.replace("\n", "").replace(" ", "")


def _redactions(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        if "redacted" in value:
            yield value["redacted"]
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _redactions(part)


def test_the_json_of_an_unredacted_memory_has_no_such_member(satchel: Any) -> None:
    """Only redacted memories have it."""
    name = satchel("remember", "whole", "--json").json["id"]
    assert "redacted" not in json.dumps(satchel("show", name, "--json").json)
