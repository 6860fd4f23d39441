"""Commands on memories: remember, list, show, update, correct, forget, history, links and path."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from bank_kit import filled
from blake3 import blake3
from escapes_kit import NASTY, RAW
from ledger_kit import created, memories

import satchel as library
from satchel import aio
from satchel.bank.connections import configured_store
from satchel.config.settings import load_settings
from satchel.crypto.sealed_records import seal
from satchel.model.records import Edge, Status
from satchel.model.values import now

if TYPE_CHECKING:
    from tests.cli.conftest import Run


Start = Callable[..., "subprocess.Popen[bytes]"]


def remember(satchel: Run, *words: str | Path) -> str:
    """Store a memory and return its ID."""
    ran = satchel("remember", *words)
    assert ran.status == 0, ran.err
    return str(ran.out.strip())


def listed(satchel: Run, *words: str) -> list[Any]:
    """Return the memories of a listing."""
    found: list[Any] = satchel("list", *words, "--json").json["memories"]
    return found


def test_the_first_remember_needs_no_setup(satchel: Run) -> None:
    """Stderr names what was created; stdout is the ID alone."""
    ran = satchel("remember", "Ada takes her tea without sugar", "--tag", "tea")
    assert ran.status == 0
    assert ran.out.startswith("blake3:")
    assert len(ran.out.split()) == 1
    assert "created the signing key" in ran.err
    assert "created the bank 'default'" in ran.err
    again = satchel("remember", "Bob drinks coffee")
    assert again.err == ""
    shown = satchel("list").out
    assert shown.index("Bob drinks coffee") < shown.index("Ada takes her tea without sugar  #tea")


def test_init_reports_what_exists_and_the_next_step(
    satchel: Run, own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second run changes nothing."""
    ran = satchel("init", "assistant")
    assert ran.status == 0
    assert str(own_home) in ran.out
    assert "assistant" in ran.out
    advice = next(line for line in ran.err.splitlines() if "key export" in line)
    monkeypatch.chdir(tmp_path)
    assert satchel(*shlex.split(advice.partition(": satchel ")[2])).status == 0
    assert (tmp_path / "default.key.json").exists()
    again = satchel("init", "assistant")
    assert (again.status, again.out) == (0, ran.out)
    assert "everything exists" in again.err
    assert satchel("init", "--json").json["made"] == []
    remember(satchel, "x")
    assert satchel("init", "second", "--json").json["made"] == ["bank"]
    assert satchel("remember", "x", "--bank", "second").status == 0
    assert satchel("init").out == ran.out  # the first bank is still the default


def test_reading_without_a_store_creates_nothing(satchel: Run, own_home: Path) -> None:
    """The errors name ``satchel init``."""
    for words in (["list"], ["stats"], ["show", "0" * 9], ["forget", "0" * 9]):
        ran = satchel(*words)
        assert (ran.status, "satchel init" in ran.err) == (2, True)
    assert not own_home.exists()


def test_every_option_of_remember_sets_its_field(satchel: Run) -> None:
    """The record has the given values."""
    parent = remember(satchel, "parent")
    words = "--type procedural --tag a --tag b --key k --kind note --user u --agent g --run r"
    more = "--app p --salience 0.5 --metadata a=1=2 --occurred-at 2026-01-01"
    times = "--valid-from 2026-01-02 --valid-until 2026-01-03T04:05+01:00 --expires-at 9999-01-01"
    last = ["--metadata", '{"b": {"c": null}}', "--data", '[1, "x"]', "--parent", parent[:20]]
    made = remember(satchel, "text", *words.split(), *more.split(), *times.split(), *last)
    found = satchel("show", made, "--json").json["record"]
    del found["id"], found["nonce"], found["created_at"]
    assert found == {
        "type": "procedural",
        "text": "text",
        "data": [1, "x"],
        "tags": ["a", "b"],
        "parent_ids": [parent],
        "origin": {"provider": "satchel", "id": "k"},
        "kind": "note",
        "scope": {"user": "u", "agent": "g", "run": "r", "app": "p"},
        "salience": 0.5,
        "metadata": {"a": "1=2", "b": {"c": None}},
        "occurred_at": "2026-01-01T00:00:00.000000Z",
        "valid_from": "2026-01-02T00:00:00.000000Z",
        "valid_until": "2026-01-03T03:05:00.000000Z",
        "expires_at": "9999-01-01T00:00:00.000000Z",
    }


def test_remember_reads_text_from_a_file_or_a_pipe(
    satchel: Run, process: Start, tmp_path: Path
) -> None:
    """Only the final line break is removed."""
    file = tmp_path / "note.txt"
    file.write_bytes(b"two\nlines \r\n")
    remember(satchel, "--file", file)
    for words in (["-"], ["--file", "-"]):
        ran = process("remember", *words)
        assert ran.communicate(b"a\0b\n\n", timeout=60)[0].startswith(b"blake3:")
    assert [each["text"] for each in listed(satchel)] == ["a\0b\n", "a\0b\n", "two\nlines "]


def test_remember_reads_a_record_from_a_file_or_a_pipe(
    satchel: Run, process: Start, tmp_path: Path
) -> None:
    """Options override its fields; unknown fields are stored."""
    members = {"type": "episodic", "observation": "seen", "scope": {"user": "ada"}, "novel": 1}
    file = tmp_path / "memory.json"
    file.write_text(json.dumps(members | {"metadata": {"a": 1, "b": 2}, "kind": "k"}))
    words = ["--run", "r", "--metadata", "b=x", "--kind", "other"]
    made = remember(satchel, "--record", file, *words)
    found = satchel("show", made, "--json").json["record"]
    assert found["scope"] == {"user": "ada", "run": "r"}
    assert found["metadata"] == {"a": 1, "b": "x"}
    assert (found["kind"], found["novel"], found["observation"]) == ("other", 1, "seen")
    ran = process("remember", "--record", "-", "--json")
    out, _ = ran.communicate(json.dumps({"text": "piped"}).encode(), timeout=60)
    assert json.loads(out)["is_new"] is True


BAD: list[tuple[list[str], int, str, str | None]] = [
    (["remember"], 2, "usage", "TEXT"),
    (["remember", ""], 4, "input.empty", "text"),
    (["remember", "x", "--file", "y"], 2, "usage", "TEXT"),
    (["remember", "-", "--record", "-"], 2, "usage", "TEXT"),
    (["remember", "--file", "missing"], 4, "input.unreadable", None),
    (["remember", "--file", "{tmp}"], 4, "input.unreadable", None),
    (["remember", "--file", "{tmp}/latin"], 4, "input.malformed", None),
    (["remember", "--file", "{tmp}/big"], 4, "input.limit", None),
    (["remember", "--record", "{tmp}/latin"], 4, "input.malformed", None),
    (["remember", "--record", "{tmp}/list"], 4, "input.malformed", None),
    (["remember", "--record", "{tmp}/deep"], 4, "input.malformed", None),
    (["remember", "--record", "{tmp}/twice"], 4, "input.malformed", "text"),
    (["remember", "--record", "{tmp}/id"], 2, "usage", "id"),
    (["remember", "x", "--type", "dream"], 2, "usage", "type"),
    (["remember", "x", "--tag", ""], 2, "usage", "tags"),
    (["remember", "x", "--key", ""], 2, "usage", "key"),
    (["remember", "x", "--metadata", "novalue"], 2, "usage", "--metadata"),
    (["remember", "x", "--metadata", "{"], 4, "input.malformed", None),
    (["remember", "x", "--data", "{"], 4, "input.malformed", None),
    (["remember", "x", "--occurred-at", "soon"], 2, "usage", "occurred_at"),
    (["remember", "x", "--salience", "2"], 2, "usage", "salience"),
    (["remember", "x", "--salience", "nan"], 2, "usage", "salience"),
    (["remember", "x", "--parent", "0" * 9], 2, "memory.unknown", "parent_ids"),
    (["remember", "x", "--bank", "nobody"], 2, "bank.unknown", None),
    (["remember", "x\udcff"], 4, "value.refused", "text"),
    (["update", "{id}", "--clear", "text"], 4, "input.empty", "text"),
    (["update", "{id}", "--clear", "origin"], 2, "usage", "origin"),
    (["update", "0" * 9, "x"], 2, "memory.unknown", "id"),
    (["update", "x", "x"], 2, "usage", "id"),
    (["correct", "{old}", "x"], 2, "memory.retired", "id"),
    (["forget", "{bank}"], 2, "memory.unknown", "id"),
    (["forget", "{old}"], 2, "memory.retired", "id"),
    (["restore", "{old}"], 2, "memory.retired", "id"),
    (["forget"], 2, "usage", "memories"),
    (["list", "--since", "soon"], 2, "usage", "since"),
    (["list", "--limit", "0"], 2, "usage", "limit"),
    (["list", "--type", "dream"], 2, "usage", "type"),
    (["history", "{bank}"], 2, "memory.unknown", "id"),
    (["history", "{id}", "--limit", "0"], 2, "usage", "limit"),
    (["show", "12345"], 2, "usage", "id"),
]


@pytest.mark.in_check(14)
@pytest.mark.parametrize(
    ("words", "status", "code", "field"),
    BAD,
    ids=[f"{n}-{each[0][0]}" for n, each in enumerate(BAD)],
)
def test_errors_of_memory_commands_name_the_argument(
    satchel: Run, tmp_path: Path, words: list[str], status: int, code: str, field: str | None
) -> None:
    """Status, code and field; nothing is written, and stdout is empty."""
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    (tmp_path / "big").write_bytes(b"x" * (2**20 + 1))
    (tmp_path / "list").write_text("[]")
    (tmp_path / "deep").write_text('{"a":' + "[" * 100_000)
    (tmp_path / "twice").write_text('{"text": "a", "text": "b"}')
    (tmp_path / "id").write_text('{"text": "a", "id": "b"}')
    old = remember(satchel, "old")
    now_ = satchel("update", old, "new", "--json").json
    facts = {"tmp": str(tmp_path), "id": now_["id"], "old": old, "bank": now_["bank"]}
    size = satchel("stats", "--json").json["records"]
    ran = satchel(*(_filled(word, facts) for word in words), "--json")
    assert (ran.status, ran.error["code"], ran.error.get("field"), ran.out) == (
        status,
        code,
        field,
        "",
    )
    if code == "memory.retired":
        assert ran.error["current"] == now_["id"]
    assert satchel("stats", "--json").json["records"] == size


def _filled(word: str, facts: dict[str, str]) -> str:
    for name, value in facts.items():
        word = word.replace(f"{{{name}}}", value)
    return word


def test_remember_with_a_known_key_supersedes_the_memory(satchel: Run) -> None:
    """An identical memory is not written again."""
    old = remember(satchel, "slow", "--key", "wifi")
    ran = satchel("remember", "fast", "--key", "wifi")
    assert f"replaces {old[7:19]}" in ran.err
    again = satchel("remember", "fast", "--key", "wifi")
    assert (again.out, "has this memory already" in again.err) == (ran.out, True)
    assert [each["text"] for each in listed(satchel)] == ["fast"]


def test_a_memory_is_updated_corrected_forgotten_and_restored(satchel: Run) -> None:
    """The history lists each step."""
    first = remember(satchel, "Ada lives in Turin", "--tag", "home")
    ran = satchel("update", first[7:17], "Ada lives in Milan", "--reason", "she moved")
    assert (ran.status, "changed: text" in ran.err) == (0, True)
    second = ran.out.strip()
    third = satchel("correct", second, "Ada lives in Monza", "--actor", "person:bob").out.strip()
    same = satchel("update", third, "--tag", "home")
    assert (same.status, same.out.strip(), "nothing" in same.err) == (0, third, True)
    plan = satchel("forget", third[:20], "--dry-run")
    assert "would be forgotten" in plan.out
    assert len(listed(satchel)) == 1
    done = satchel("forget", third, "--reason", "asked to")
    assert (done.status, "forgotten  Ada lives in Monza" in done.out) == (0, True)
    again = satchel("forget", third)
    assert (again.status, "was forgotten already" in again.out) == (0, True)
    assert listed(satchel) == []
    assert "restored" in satchel("restore", third).out
    assert [each["id"] for each in listed(satchel)] == [third]
    told = satchel("history", first).out
    for part in (
        "remembered",
        "text: Ada lives in Turin -> Ada lives in Milan",
        "superseded: she moved",
        "superseded by person:bob: correction",
        "corrected",
        "deleted: asked to",
        "restored",
        "current",
    ):
        assert part in told
    found = satchel("history", first, "--json").json["versions"]
    assert [each["id"] for each in found] == [first, second, third]


def test_update_adds_changes_and_clears_fields(satchel: Run) -> None:
    """Other fields stay."""
    made = remember(satchel, "x", "--tag", "a", "--metadata", "m=1", "--kind", "k", "--user", "ada")
    words = ["--add-tag", "b", "--remove-tag", "a", "--metadata", "n=2", "--clear", "kind"]
    ran = satchel("update", made, *words, "--agent", "g", "--json")
    assert ran.json["fields"] == ["kind", "metadata", "scope", "tags"]
    (found,) = listed(satchel)
    assert (found["tags"], found["metadata"], "kind" in found) == (
        ["b"],
        {"m": "1", "n": "2"},
        False,
    )
    assert found["scope"] == {"user": "ada", "agent": "g"}


def test_a_listing_is_paged_with_after(satchel: Run) -> None:
    """The message and the JSON give the value."""
    for number in range(5):
        remember(satchel, f"number {number}")
    first = satchel("list", "--limit", "2")
    after = first.err.strip().rpartition(" ")[2]
    assert "--after" in first.err
    second = satchel("list", "--limit", "9", "--after", after)
    assert (second.err, "number 2" in second.out, "number 3" in second.out) == ("", True, False)
    assert len(second.out.splitlines()) == 1 + 3
    assert str(satchel("list", "--limit", "2", "--json").json["next"]) == after
    oldest = satchel("list", "--oldest-first", "--limit", "1").out
    assert "number 0" in oldest
    assert "No memories found" in satchel("list", "--tag", "x").err
    assert "superseded" not in satchel("list", "--all").out


def test_show_reports_that_a_memory_is_not_valid_now(satchel: Run) -> None:
    """Recall omits it, although it is current."""
    later = remember(satchel, "Ada will live in Paris", "--valid-from", "2999-01-01")
    earlier = remember(satchel, "Ada lives in London", "--valid-until", "2001-01-01")
    always = remember(satchel, "Ada drinks tea", "--valid-from", "2001-01-01")
    for name, state in (
        (later, "current, not valid now"),
        (earlier, "current, not valid now"),
        (always, "current"),
    ):
        (shown,) = [each for each in satchel("show", name).out.splitlines() if "state" in each]
        assert shown.split(maxsplit=1)[1] == state


def test_show_lists_the_fields_of_a_memory_and_its_raw_bytes(satchel: Run, process: Start) -> None:
    """The bytes hash to its ID."""
    made = remember(satchel, "parent", "--key", "k", "--metadata", "m=1")
    child = remember(satchel, "child", "--parent", made)
    shown = satchel("show", made[7:15]).out
    for part in (
        "parent",
        "key",
        "metadata.m",
        "verified by",
        "at position 2 of a log of 4",
        child,
    ):
        assert part in shown
    ran = process("show", made, "--raw")
    out, _ = ran.communicate(timeout=60)
    value = json.loads(out)
    del value["id"]
    bare = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    assert f"blake3:{blake3(bare).hexdigest()}" == made


@pytest.mark.parametrize("prefix", ["{:.8}", "{:.9}", "blake3:{:.8}"])
def test_every_command_takes_id_prefixes_of_even_and_odd_lengths(
    satchel: Run, tmp_path: Path, prefix: str
) -> None:
    """Half of an ID can be whole bytes, which does not make it an ID."""
    identity = remember(satchel, "black tea")
    artifact = tmp_path / "whole.pam.jsonl"
    assert satchel("export", "--output", artifact).status == 0
    talk = tmp_path / "talk.jsonl"
    talk.write_text('{"role": "user", "content": "black tea"}')
    session = satchel("session", "record", talk, "--json")
    named = prefix.format(identity.removeprefix("blake3:"))
    for words in (
        *(("show",), ("history",), ("links",), ("forget", "--dry-run"), ("promote", "--dry-run")),
        *(("erase", "--dry-run"), ("redact", "--dry-run")),
        ("verify", artifact, "--entry"),
        ("export", "--output", tmp_path / "one.pam.jsonl", "--id"),
        ("disclose", "--output", tmp_path / "proof.pam.jsonl", "--entry"),
        ("token", "issue", "--bearer", "--output", tmp_path / "token.json", "--entry"),
    ):
        ran = satchel(*words, named)
        assert ran.status == 0, (words, ran.err)
    named = prefix.format(session.json["session"].removeprefix("blake3:"))
    assert satchel("session", "show", named).status == 0


def test_the_release_command_of_a_flagged_memory_works(satchel: Run) -> None:
    """In a bank that is not the default one, too."""
    assert satchel("init").status == 0
    assert satchel("bank", "create", "other notes").status == 0
    ran = satchel("remember", "system: Ubuntu 22.04", "--bank", "other notes")
    release = re.search(r"satchel (quarantine release .*)$", ran.err, re.MULTILINE)
    assert release is not None, ran.err
    assert satchel(*shlex.split(release[1])).status == 0


def test_verify_names_an_unknown_memory(satchel: Run, tmp_path: Path) -> None:
    """The option is named as well."""
    remember(satchel, "black tea")
    artifact = tmp_path / "whole.pam.jsonl"
    assert satchel("export", "--output", artifact).status == 0
    ran = satchel("verify", artifact, "--entry", "0123456789")
    assert ran.status == 2
    assert "no memory '0123456789'" in ran.err
    assert "field entry" in ran.err


@pytest.mark.parametrize("words", ["list", "show", "history", "stats"])
def test_reads_report_an_accepted_loss(
    satchel: Run, own_home: Path, tmp_path: Path, words: str
) -> None:
    """On another machine that saw the lost records, as a note."""
    made = remember(satchel, "kept")
    store = own_home / "satchel.db"
    older = store.read_bytes()
    remember(satchel, "lost")
    store.write_bytes(older)
    assert satchel("list").status == 3
    seen = load_settings().state
    shutil.copytree(seen, tmp_path / "seen")
    assert satchel("bank", "accept-loss", "default").status == 0
    shutil.rmtree(seen)
    (tmp_path / "seen").rename(seen)  # another machine that saw it, and accepted nothing
    more = [made] if words in ("show", "history") else []
    (note,) = satchel(words, *more, "--json").json["notes"]
    assert "this machine saw 4 records" in note
    assert note in satchel(words, *more).err


@pytest.mark.parametrize("words", ["list", "show", "history", "stats"])
def test_reads_report_that_a_bank_is_untrusted(satchel: Run, words: str) -> None:
    """Writes are refused."""
    with configured_store(load_settings()) as store:
        ledger = created(store)
        ledger.append(memories(1))
    made = satchel("list", "--json").json["memories"][0]["id"]
    more = [made] if words in ("show", "history") else []
    assert "untrusted" in satchel(words, *more).err
    assert "untrusted" in satchel(words, *more, "--json").json["notes"][0]
    for verb in (["remember", "x"], ["forget", made], ["update", made, "x"]):
        assert satchel(*verb).status == 3


def test_stats_prints_the_counts_of_a_bank(satchel: Run) -> None:
    """By state, user and tag."""
    remember(satchel, "x", "--user", "ada", "--tag", "t")
    shown = satchel("stats").out
    for part in ("1 current", "ada 1", "t 1", "3 records", "default"):
        assert part in shown


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["plain", "json"])
def test_escapes_in_a_memory_do_not_reach_the_terminal(satchel: Run, more: list[str]) -> None:
    """Attack: escape sequences in a memory that is listed, shown, changed or forgotten."""
    words = ["--tag", NASTY, "--kind", NASTY, "--user", NASTY, "--metadata", f"{NASTY}={NASTY}"]
    made = remember(satchel, NASTY, *words, "--key", NASTY)
    with filled() as bank:
        held = Status(target=made, state="quarantined", reason=NASTY, actor=NASTY, at=now())
        bank.ledger.append([seal(held)])
        bank.ledger.append([seal(Status(target=made, state="released", at=now()))])
    newer = satchel("update", made, NASTY + "2", "--reason", NASTY, "--json").json["id"]
    runs = [
        satchel("list", *more),
        satchel("list", "--all", *more),
        satchel("show", newer, *more),
        satchel("history", newer, *more),
        satchel("stats", *more),
        satchel("correct", newer, NASTY + "3", *more),
        satchel("init", NASTY, *more),
        satchel("show", NASTY, *more),
        satchel("remember", "x", "--bank", NASTY + "x", *more),
        satchel("remember", "x", "--bank", NASTY, "--metadata", NASTY, *more),
        satchel("remember", "x", "--bank", NASTY, "--occurred-at", NASTY, *more),
    ]
    assert [ran.status for ran in runs] == [0] * 7 + [2] * 4
    assert [ran for ran in runs if RAW.search(ran.out + ran.err)] == []
    newest = satchel("list", "--bank", "default", "--json").json["memories"][0]["id"]
    gone = satchel("forget", newest, "--bank", "default", *more)
    assert (gone.status, RAW.search(gone.out + gone.err)) == (0, None)


def test_long_memories_stay_on_one_line_of_a_listing(satchel: Run) -> None:
    """Regardless of length and line breaks."""
    remember(satchel, "word\n\n  " * 10_000, "--tag", "t" * 5_000)
    _, line = satchel("list").out.splitlines()
    assert len(line) < 300


def test_markup_in_a_memory_is_printed_as_text(satchel: Run) -> None:
    """Square brackets are text."""
    made = remember(satchel, "[red]x[/red]", "--tag", "[bold]")
    for words in (["list"], ["show", made], ["history", made]):
        assert "[red]x[/red]" in satchel(*words).out


def linked_memories(satchel: Run) -> tuple[str, str]:
    """Store two memories linked by an edge, and an edge to an unknown target."""
    first = satchel("remember", "likes tea").out.strip()
    second = satchel("remember", "drinks green tea", "--parent", first).out.strip()
    with filled() as bank:
        name = "\x1b[2Jelsewhere\u202e"
        bank.ledger.append([seal(Edge(source=second, target=name, kind="\x1b]0;owned\x07"))])
    return first, second


def test_links_and_paths_are_printed_with_escaped_text(satchel: Run) -> None:
    """Text, types and names with escape sequences are shown escaped."""
    first, second = linked_memories(satchel)
    ran = satchel("links", first, "--hops", "2")
    assert ran.status == 0
    assert "drinks green tea" in ran.out
    assert "derives_from" in ran.out
    assert "(placeholder)" in ran.out
    assert "\x1b" not in ran.out
    assert "\u202e" not in ran.out
    way = satchel("path", first, second)
    assert way.out.index("likes tea") < way.out.index("derives_from") < way.out.index("green")
    assert "no path found" in satchel("path", second, second).err
    assert "no links found" in satchel("links", first, "--type", "none").err
    assert "There may be more" in satchel("links", first, "--hops", "2", "--budget", "1").err
    found = satchel("links", first, "--json").json
    assert [each["id"] for each in found["things"]] == [second]


def test_python_returns_links_and_paths(satchel: Run) -> None:
    """Synchronous and asynchronous."""
    first, second = linked_memories(satchel)
    with library.Satchel.open() as store:
        bank = store.bank()
        near = bank.links(first, type="derives_from")
        assert [each.id for each in near.things] == [second]
        assert [len(way) for way in bank.path(first, second, type=["derives_from"]).ways] == [1]

    async def awaited() -> None:
        async with aio.open() as store:
            bank = await store.bank()
            assert await bank.links(first, type="derives_from") == near
            assert (await bank.path(first, second)).complete

    asyncio.run(awaited())
