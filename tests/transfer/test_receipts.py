"""Receipts: a signed account of what each transfer read, wrote, read back and lost."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from import_kit import A, B, C, KilledError, bring, killing, opened, owner, rows, size, write
from msgspec import to_builtins

from satchel.config.settings import load_settings
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import open_record, seal
from satchel.errors import (
    LossError,
    MalformedError,
    ShortInputError,
    StoreDamagedError,
    TargetExistsError,
    UnknownReceiptError,
    UsageError,
)
from satchel.formats import mem0
from satchel.formats.mem0 import row_of
from satchel.ledger.view import View
from satchel.model.records import Edge, Episodic, Receipt, Semantic
from satchel.model.values import Scope
from satchel.ports.record_set import Report
from satchel.ports.rows import Filter
from satchel.receipts.archive import find_receipts, recent_receipts
from satchel.receipts.comparison import GONE, Differences
from satchel.receipts.page import page_of
from satchel.receipts.receipt import (
    VERSION,
    ReceiptBody,
    TransferEnd,
    account_in,
    is_accepted,
    lost_in,
    receipt_of,
    receipt_text,
    signatures_of,
    write_receipts,
)
from satchel.runtime.output import Outlet
from satchel.transfer import import_stage
from satchel.transfer.conversion import ConvertOptions, convert
from satchel.transfer.export_records import ExportOptions
from satchel.transfer.exports import export


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """A file of three memories."""
    return write(tmp_path / "a.json", rows(A, B, C))


def _logged_receipts() -> list[Any]:
    with opened() as there, there.ledger.reading() as view:
        found = view.scan(Filter(types=frozenset({"receipt"})))
        return [one.record for one in found if account_in(one.record) is not None]


def _export(output: Path, **options: Any) -> Any:
    with opened() as there:
        return export(there, output, ExportOptions(**options))


def test_an_import_is_completed_by_its_signed_receipt(first: Path) -> None:
    """The record that makes it visible is the receipt: counts, fields, input, and a signature."""
    done = bring(first)
    (record,) = _logged_receipts()
    account = account_in(record)
    assert account == done.accounts[0]
    assert [record.id] == done.receipts == [done.banks[0].receipt]
    assert [one.valid for one in signatures_of(record)] == [True]
    counts = account.counts["semantic"]
    assert (counts.read, counts.planned, counts.written, counts.read_back) == (3, 3, 3, 3)
    assert (account.input.digest, account.input.records) == (done.input_digest, 3)
    assert (account.source, account.read_back) == (done.banks[0].source, "equal")
    assert account.kept["text"] == account.kept["scope"] == 3
    assert account.lost == []


def test_the_receipt_of_a_repeated_import_reports_no_changes(first: Path) -> None:
    """The log is unchanged; the receipt is stored on the machine, not in the bank."""
    bring(first)
    before = size()
    done = bring(first)
    assert size() == before
    (account,) = done.accounts
    assert (account.unchanged, account.done, done.changed) == (True, {"known": 3}, False)
    assert "Nothing changed" in page_of(account)
    assert [line.unchanged for line in recent_receipts(load_settings(), "b")] == [True, False]


def test_the_receipts_of_a_bank_and_of_a_machine_are_listed_newest_first(
    first: Path, tmp_path: Path
) -> None:
    """A bank has those of its imports in the log, from any machine."""
    bring(first)
    _export(tmp_path / "o.json", format="mem0")
    bring(first, "other")
    settings = load_settings()
    assert [one.kind for one in recent_receipts(settings)] == ["import", "export", "import"]
    assert [one.kind for one in recent_receipts(settings, "b")] == ["export", "import"]
    for path in (settings.home / "receipts").iterdir():
        path.unlink()
    assert recent_receipts(settings) == []
    (line,) = recent_receipts(settings, "b")
    assert find_receipts(settings, line.id[:20])[0].outcome == "good"


def test_a_missing_or_damaged_receipt_is_reported(first: Path, tmp_path: Path) -> None:
    """A damaged file does not hide the others."""
    bring(first)
    settings = load_settings()
    (settings.home / "receipts" / "99990101T000000Z-x.json").write_bytes(b"\xff\n{}")
    assert len(recent_receipts(settings)) == 1
    for wanted in ("blake3:000000", "abc", "", str(tmp_path / "missing.json"), "x" * 5000):
        with pytest.raises(UnknownReceiptError):
            find_receipts(settings, wanted)
    for limit in (0, 10_001):
        with pytest.raises(UsageError):
            recent_receipts(settings, limit=limit)


@pytest.mark.parametrize(
    "content", [b"", b"{}\n", b"null\n", b"[]", b"x" * 2_000_000, b"\xff\xfe\n", b'{"type":"bank"}']
)
def test_attack_a_file_that_is_not_a_receipt_is_refused(tmp_path: Path, content: bytes) -> None:
    """Attack: anything in place of a receipt."""
    path = tmp_path / "r.json"
    path.write_bytes(content)
    with pytest.raises(MalformedError) if len(content) < 10**6 else pytest.raises(Exception):  # noqa: PT011
        find_receipts(load_settings(), str(path))


def _forged(record: Any, change: Any) -> bytes:
    value = record.value
    change(value)
    value.pop("id")
    value.pop("nonce")
    signatures = value.pop("signatures")
    draft = Receipt(
        action=value["action"],
        result=value["result"],
        at=value["at"],
        signatures=tuple(signatures),
    )
    return seal(draft).body


def test_attack_a_changed_receipt_does_not_verify(first: Path, tmp_path: Path) -> None:
    """Attack: a loss is removed from a receipt, with and without a new ID."""
    bring(first, receipt=tmp_path / "r.json")
    (record,) = _logged_receipts()
    assert find_receipts(load_settings(), str(tmp_path / "r.json"))[0].exit_status == 0
    forged = tmp_path / "forged.json"
    forged.write_bytes(_forged(record, lambda value: value["result"]["done"].update(added=9)))
    changed = tmp_path / "changed.json"
    changed.write_bytes(record.body.replace(b'"added":3', b'"added":4'))
    for path in (forged, changed):
        (found,) = find_receipts(load_settings(), str(path))
        assert (found.outcome, found.exit_status) == ("tampered", 3)


@pytest.mark.parametrize(
    ("key", "standing"), [(None, "unsigned"), (SigningKey.generate(), "untrusted")]
)
def test_unsigned_and_untrusted_receipts_are_reported_as_such(
    tmp_path: Path, key: SigningKey | None, standing: str
) -> None:
    """An unsigned receipt is unsigned, and an unknown key is untrusted."""
    end = TransferEnd(name="x")
    account = ReceiptBody(
        version=VERSION,
        kind="convert",
        tool="t",
        began="2026-01-01T00:00:00.000000Z",
        ended="2026-01-01T00:00:00.000000Z",
        input=end,
        output=end,
        counts={},
    )
    with Outlet.named(tmp_path / "r.json") as outlet:
        write_receipts(outlet, [receipt_of(account, key)])
    (found,) = find_receipts(load_settings(), str(tmp_path / "r.json"))
    assert (found.outcome, found.exit_status) == (standing, 3)


def test_an_existing_receipt_file_is_refused_before_any_work(first: Path, tmp_path: Path) -> None:
    """And so is one that is the input or the output."""
    (tmp_path / "r.json").write_text("mine")
    with pytest.raises(TargetExistsError):
        bring(first, receipt=tmp_path / "r.json")
    with pytest.raises((TargetExistsError, UsageError)):
        bring(first, receipt=first)
    assert (tmp_path / "r.json").read_text() == "mine"
    assert recent_receipts(load_settings()) == []


def test_an_import_completes_if_its_receipt_cannot_be_stored(first: Path, own_home: Path) -> None:
    """A file is in place of the receipts folder; the import reports it."""
    bring(first)
    folder = own_home / "receipts"
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.write_text("in the way")
    done = bring(first, "c")
    assert done.banks[0].done.added == 3
    assert any("was not stored" in note for note in done.notes)


def test_fields_dropped_by_a_writer_are_found_by_reading_back(
    first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken on purpose: a writer that omits the owner and changes a text."""
    bring(first)
    plain = row_of

    def dropping(entry: Any) -> dict[str, Any]:
        row = plain(entry)
        row.pop("user_id")
        return {**row, "memory": row["memory"].replace("tea", "gin")}

    monkeypatch.setattr(mem0, "row_of", dropping)
    done = _export(tmp_path / "o.json", format="mem0")
    lost = {one.field: one.count for one in done.account.lost}
    assert lost == {"scope/user": 3, "text": 1}
    assert (done.unaccepted, done.account.read_back) == (4, "differs")
    assert done.account.kept["text"] == 2
    assert "INCOMPLETE: " in page_of(done.account)
    with pytest.raises(LossError):
        _export(tmp_path / "p.json", format="mem0", fail_on_loss=True)
    assert not (tmp_path / "p.json").exists()
    (tmp_path / "q.json").write_text("what was there before")
    with pytest.raises(LossError):
        _export(tmp_path / "q.json", format="mem0", fail_on_loss=True, overwrite=True)
    assert (tmp_path / "q.json").read_text() == "what was there before"
    assert sorted(one.name for one in tmp_path.iterdir() if "tmp" in one.name) == []


def test_records_dropped_by_a_writer_are_found_by_reading_back(
    first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken on purpose: a writer that omits one memory and duplicates another."""
    bring(first)
    plain = mem0._rows

    def dropping(*arguments: Any) -> Any:
        found = list(plain(*arguments))
        return iter([found[0], found[0], found[2]])

    monkeypatch.setattr(mem0, "_rows", dropping)
    done = _export(tmp_path / "o.json", format="mem0")
    assert done.unaccepted > 0
    assert done.account.counts["semantic"].read_back == 3


def test_a_loss_reported_by_a_format_is_not_counted_again_by_reading_back(tmp_path: Path) -> None:
    """The missing field is one loss."""
    bring(write(tmp_path / "a.json", rows(A)))
    with opened() as there:
        day = "2026-01-01T00:00:00.000000Z"
        fact = seal(Semantic(text="x", scope=Scope(user="ada", namespace=("n",)), valid_from=day))
        event = seal(Episodic(text="met", occurred_at=day))
        edge = Edge(source=fact.id, target=event.id, kind="similar_to")
        there.ledger.append([fact, event, seal(edge)])
    done = _export(tmp_path / "o.json", format="mem0")
    lost = {one.field: one.count for one in done.account.lost}
    assert lost == {"scope/namespace": 1, "valid_from": 1, "episodic": 1, "edge": 1}
    assert done.account.counts["edge"].written == 0
    assert done.account.counts["semantic"].read_back == 2


@pytest.mark.parametrize(
    ("accepted", "left"), [((), 2), (("scope",), 1), (("scope/namespace", "valid_from"), 0)]
)
def test_an_accepted_loss_is_reported_and_not_a_failure(
    tmp_path: Path, accepted: tuple[str, ...], left: int
) -> None:
    """A member covers what is in it; ``all`` covers everything."""
    bring(write(tmp_path / "a.json", rows(A)))
    with opened() as there:
        day = "2026-01-01T00:00:00.000000Z"
        scope = Scope(user="ada", namespace=("n",))
        there.ledger.append([seal(Semantic(text="x", scope=scope, valid_from=day))])
    done = _export(tmp_path / "o.json", format="mem0", accept_loss=accepted)
    assert (done.lost, done.unaccepted) == (2, left)
    again = _export(
        tmp_path / "p.json", format="mem0", accept_loss=("all",), fail_on_loss=True, dry_run=True
    )
    assert again.unaccepted == again.plan.unaccepted == 0


def test_a_loss_is_accepted_by_full_name_not_by_prefix() -> None:
    """``scope`` is not ``scoped``."""
    assert is_accepted("scope/user", ["scope"])
    assert not is_accepted("scoped", ["scope"])
    assert not is_accepted("scope", ["scope/user"])


def test_a_sealed_output_is_verified_and_not_compared_twice(first: Path, tmp_path: Path) -> None:
    """Its seal covers every record, so its receipt says ``verified``."""
    settings, output = load_settings(), tmp_path / "o.pam.jsonl"
    done = convert(first, output, settings, ConvertOptions(key=owner()))
    assert done.account is not None
    assert done.account.read_back == "verified"
    assert done.account.counts["semantic"].read_back == 3
    back = convert(output, tmp_path / "p.json", settings, ConvertOptions(target_format="mem0"))
    assert back.account is not None
    assert (back.account.read_back, back.account.verdict) == ("equal", "good")


def test_an_import_whose_log_reads_back_differently_is_rolled_back(
    first: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: the disk returns other bytes than a killed attempt had written."""
    plain = View.pending_rows

    def damaged(self: View, source: str) -> Any:
        for number, row in enumerate(plain(self, source)):
            yield row.erased() if number == 1 else row

    with monkeypatch.context() as patched:
        patched.setattr(import_stage, "GROUP", 2)
        patched.setattr(import_stage, "COMMIT_BYTES", 1)
        with pytest.raises(KilledError):
            bring(first, on_logging=killing(0))
        patched.setattr(View, "pending_rows", damaged)
        with pytest.raises(StoreDamagedError):
            bring(first)
    with opened() as there, there.ledger.reading() as view:
        assert [one.undone for one in view.imports()] == [True]
    assert bring(first).banks[0].done.added == 3


def test_a_partial_page_of_results_is_refused_unless_accepted(tmp_path: Path) -> None:
    """The source itself says that it has more records."""
    path, output = tmp_path / "a.json", tmp_path / "o.pam"
    path.write_text(json.dumps({"count": 9, "results": rows(A), "next": "https://x/2"}))
    with pytest.raises(ShortInputError):
        bring(path)
    with pytest.raises(ShortInputError):
        convert(path, output, load_settings(), ConvertOptions())
    assert not output.exists()
    done = bring(path, accept_loss=("record",))
    assert [(one.field, one.count, one.accepted) for one in done.accounts[0].lost] == [
        ("record", 8, True)
    ]
    assert done.unaccepted == 0


def test_each_bank_of_an_import_has_its_own_receipt(tmp_path: Path) -> None:
    """With the records of that bank; a file of receipts has one per line."""
    path = write(tmp_path / "a.json", rows(A, B), rows(C, user="bob"))
    done = bring(path, None, receipt=tmp_path / "r.json")
    assert [one.counts["semantic"].read for one in done.accounts] == [2, 1]
    assert [one.input.records for one in done.accounts] == [3, 3]
    found = find_receipts(load_settings(), str(tmp_path / "r.json"))
    assert [one.id for one in found] == done.receipts
    assert {one.outcome for one in found} == {"good"}


def _comparable(account: ReceiptBody) -> dict[str, Any]:
    value = dict(to_builtins(account))
    for name in ("began", "ended", "source", "resumed"):
        value.pop(name, None)
    value["output"] = {**value["output"], "bank": None, "name": None}
    return value


@pytest.mark.parametrize("at", range(6))
def test_a_resumed_import_gives_the_same_receipt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Except for the times, and the number of records logged before."""
    monkeypatch.setattr(import_stage, "GROUP", 7)
    monkeypatch.setattr(import_stage, "COMMIT_BYTES", 1)
    path = write(tmp_path / "a.json", rows(*((str(n), f"memory {n}") for n in range(40))))
    whole = bring(path, "whole")
    with pytest.raises(KilledError):
        bring(path, "b", on_logging=killing(at))
    done = bring(path, "b")
    assert done.accounts[0].resumed == min(7 * (at + 1), 40)
    assert _comparable(done.accounts[0]) == _comparable(whole.accounts[0])


@given(st.lists(st.tuples(st.text(), st.text(), st.integers(1, 9)), max_size=300), st.text())
def test_attack_a_receipt_of_any_loss_can_be_made_shown_and_parsed(
    losses: list[tuple[str, str, int]], name: str
) -> None:
    """Attack: field names of a hostile file with lone surrogates and terminal escapes."""
    report = Report()
    for field, reason, count in losses:
        report.lost(field + "\ud800\x1b[2J", reason, count=count, example=field * 500)
    account = ReceiptBody(
        version=VERSION,
        kind="import",
        tool="t",
        began="2026-01-01T00:00:00.000000Z",
        ended="2026-01-01T00:00:00.000000Z",
        input=TransferEnd(name=receipt_text(name + "\udcff")),
        output=TransferEnd(name="x"),
        counts={},
        lost=lost_in(report, ()),
    )
    record = receipt_of(account, SigningKey.from_seed(bytes(32)))
    assert account_in(open_record(record.body)[0]) == account
    assert account.losses == report.total
    page = page_of(account)
    assert "\x1b" not in page
    assert len(page.splitlines()) < 60


@pytest.mark.parametrize(
    ("said", "found", "told_then"),
    [
        ({"scope": 1}, {"scope/user": 1, "scope/agent": 1}, {"scope": 1}),
        ({"scope": 1}, {"scope/user": 2}, {"scope": 1, "scope/user": 1}),
        ({"scope/namespace": 1}, {"scope/namespace": 1}, {"scope/namespace": 1}),
        ({"metadata/a": 1}, {"metadata": 1}, {"metadata/a": 1}),
        ({"origin": 2}, {"origin": 2, "origin/id": 1}, {"origin": 2, "origin/id": 1}),
        ({}, {"scope/user": 1, "text": 2}, {"scope/user": 1, "text": 2}),
    ],
)
def test_a_loss_reported_by_a_writer_counts_once(
    said: dict[str, int], found: dict[str, int], told_then: dict[str, int]
) -> None:
    """A missing object includes its parts; further losses are counted."""
    report, differences = Report(), Differences()
    for name, count in said.items():
        report.lost(name, "it has no such field", count=count)
    for name, count in found.items():
        for _ in range(count):
            differences.add(name, GONE, "x")
    differences.into(report)

    names = Counter[str]()
    for loss in report.losses.values():
        names[loss.name] += loss.count
    assert names == told_then
