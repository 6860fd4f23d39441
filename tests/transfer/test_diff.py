"""Diffs of two memories in any format, and the pairing of their records."""

import json
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from transfer_kit import append, import_into, new_bank

from satchel.bank.open_bank import open_bank
from satchel.config.settings import load_settings
from satchel.crypto.canonical import fingerprint
from satchel.crypto.sealed_records import Sealed, derive, seal
from satchel.errors import EmptyInputError, UnknownBankError, UsageError, VerificationError
from satchel.model.records import Semantic, Status
from satchel.model.values import Origin
from satchel.receipts.comparison import Pairing, RecordIdentity
from satchel.transfer.comparison import Comparison, EntryMatcher, diff
from satchel.transfer.export_records import ExportOptions
from satchel.transfer.exports import export


def with_origin(number: int, text: str, **more: object) -> Sealed:
    """Return an entry with an origin of that number."""
    origin = Origin(provider="test", id=str(number))
    return seal(Semantic(text=text, origin=origin, **more))  # type: ignore[arg-type]


def compare_lists(a: list[Sealed], b: list[Sealed], limit: int = 20) -> Comparison:
    """Compare two lists."""
    with EntryMatcher() as comparing:
        comparing.add("a", a)
        comparing.add("b", b)
        return comparing.compare("a", "b", limit=limit)


def counts(found: Comparison) -> tuple[int, int, int, int]:
    """Return the counts: same, only in one, only in the other, changed."""
    return found.same, found.only_a, found.only_b, found.changed


def test_memories_that_differ_only_in_id_and_nonce_are_the_same() -> None:
    """ID and nonce are not content; duplicates are matched one to one."""
    texts = ["a", "b", "b"]
    one = [seal(Semantic(text=text)) for text in texts]
    other = [seal(Semantic(text=text)) for text in texts]
    assert counts(compare_lists(one, other)) == (3, 0, 0, 0)
    assert counts(compare_lists(one, other[:2])) == (2, 1, 0, 0)
    assert counts(compare_lists(one, one)) == (3, 0, 0, 0)


def test_a_memory_with_another_text_is_changed_and_its_fields_are_named() -> None:
    """Matched by its origin ID."""
    one = [
        with_origin(1, "likes tea", tags=("x",)),
        with_origin(2, "same"),
        with_origin(3, "only here"),
    ]
    other = [
        with_origin(1, "likes milk", salience=0.5),
        with_origin(2, "same"),
        with_origin(4, "only there"),
    ]
    found = compare_lists(one, other)
    assert counts(found) == (1, 1, 1, 1)
    (pair,) = found.first_changed
    assert pair.fields == ["salience", "tags", "text"]
    assert (pair.a.text, pair.b.text, pair.a.origin) == ("likes tea", "likes milk", "1")
    assert [only.text for only in found.first_only_a] == ["only here"]
    assert [only.text for only in found.first_only_b] == ["only there"]


def test_a_link_to_the_same_parent_under_another_id_is_not_a_change() -> None:
    """A file may get new IDs with each reading; another parent is a change."""
    draft = {"type": "semantic", "text": "child", "created_at": "2026-01-01T00:00:00.000000Z"}
    draft_of = {**draft, "origin": {"provider": "test", "id": "2"}}
    sides, other_parent = list[list[Sealed]](), with_origin(9, "other")
    for _ in range(2):
        parent = with_origin(1, "parent")
        sides.append([parent, derive([parent], draft_of)])
    assert counts(compare_lists(sides[0], sides[1])) == (2, 0, 0, 0)
    moved = derive([other_parent], draft_of)
    found = compare_lists(sides[0], [*sides[1][:1], other_parent, moved])
    assert counts(found) == (1, 0, 1, 1)
    assert found.first_changed[0].fields == ["parent_ids"]


def test_a_replacement_of_an_entry_is_its_change() -> None:
    """A bank's own memory has no origin ID; the log has its replacement."""
    versions = [seal(Semantic(text=f"version {n}")) for n in range(3)]
    steps = [
        seal(Status(target=old.id, state="superseded", by=new.id))
        for old, new in pairwise(versions)
    ]
    for one, other in (
        ([versions[0]], [versions[2], *steps]),
        ([versions[2], *steps], versions[:1]),
    ):
        found = compare_lists(one, other)
        assert counts(found) == (0, 0, 0, 1)
        assert found.first_changed[0].fields == ["text"]


def test_counts_cover_all_records_and_names_the_first() -> None:
    """However many there are."""
    one = [with_origin(n, "a") for n in range(50)] + [
        with_origin(n, "only a") for n in range(50, 90)
    ]
    other = [with_origin(n, "b") for n in range(50)] + [
        with_origin(n, "only b") for n in range(100, 130)
    ]
    found = compare_lists(one, other, limit=3)
    assert counts(found) == (0, 40, 30, 50)
    shown = (found.first_only_a, found.first_only_b, found.first_changed)
    assert [len(part) for part in shown] == [3, 3, 3]


def test_attack_a_nonce_in_the_content_hides_no_difference() -> None:
    """Attack: metadata that looks like the member that the comparison ignores."""
    nonce = "0" * 32
    plain = seal(Semantic(text="x", nonce=nonce))
    crafted = seal(Semantic(text="x", metadata={"nonce": nonce, "z": 1}, nonce=nonce))
    again = seal(Semantic(text="x", metadata={"nonce": nonce, "z": 1}, nonce="1" * 32))
    plain_print, crafted_print, again_print = (
        fingerprint(one.id, one.body) for one in (plain, crafted, again)
    )
    assert plain_print != crafted_print == again_print


@pytest.fixture
def mem0(tmp_path: Path) -> Path:
    """A Mem0 file."""
    path = tmp_path / "mem0.json"
    rows = [{"id": str(n), "memory": f"memory {n}", "user_id": "ada"} for n in range(5)]
    path.write_text(json.dumps(rows))
    return path


def test_a_bank_its_export_and_its_source_file_are_the_same(mem0: Path, tmp_path: Path) -> None:
    """IDs differ in each; later changes of the bank show."""
    bank, settings = new_bank(), load_settings()
    import_into(bank, mem0)
    with open_bank(settings) as found:
        for name in ("a.pam", "a.mem0.json"):
            export(found, tmp_path / name, ExportOptions())
        with found.ledger.reading() as view:
            first = next(one for one in view.scan() if one.record.type == "semantic").record
    sides = ["assistant", str(mem0), str(tmp_path / "a.pam"), str(tmp_path / "a.mem0.json")]
    for side in sides[1:]:
        assert counts(diff(settings, "assistant", side)) == (5, 0, 0, 0)
    assert diff(settings, sides[2], sides[0]).notes == [
        f"{sides[2]}: unsigned: the file is not signed"
    ]
    append(bank, [seal(Status(target=first.id, state="deleted"))])
    assert counts(diff(settings, "assistant", sides[2])) == (4, 0, 1, 0)


def test_a_tampered_file_is_not_compared(mem0: Path, tmp_path: Path) -> None:
    """Its content cannot be trusted."""
    import_into(new_bank(), mem0)
    settings, path = load_settings(), tmp_path / "a.pam.jsonl"
    with open_bank(settings) as found:
        export(found, path, ExportOptions())
    path.write_bytes(path.read_bytes().replace(b"memory 3", b"memory 8"))
    with pytest.raises(VerificationError):
        diff(settings, "assistant", str(path))


def test_an_unknown_or_ambiguous_name_is_refused(
    mem0: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is guessed."""
    settings = load_settings()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownBankError):
        diff(settings, "nobody", str(mem0))
    import_into(new_bank("both"), mem0)
    Path("both").write_bytes(mem0.read_bytes())
    with pytest.raises(UsageError, match="and a file"):
        diff(settings, "both", str(mem0))
    assert diff(settings, f".{os.sep}both", str(mem0)).is_same
    with pytest.raises(UsageError):
        diff(settings, str(mem0), str(mem0), limit=-1)


def test_comparing_two_empty_memories_is_an_error() -> None:
    """Nothing was compared."""
    new_bank("one")
    new_bank("two")
    with pytest.raises(EmptyInputError):
        diff(load_settings(), "one", "two")


_FEW, _TIMES = 500, 8
_STEP = 1_000


def _records(number: int, *, column: str) -> Iterator[RecordIdentity]:
    for at in range(number):
        mark = (at * 7 % number).to_bytes(16)
        key, words = (mark if column == name else None for name in ("key", "words"))
        print_ = mark if column == "print" else at.to_bytes(16)
        yield RecordIdentity("semantic", print_, None, key, words, b"{}", None)


def _steps(number: int, column: str) -> int:
    """Return how many thousand instructions SQLite needs to pair the records of two sides."""
    taken = 0

    def count() -> None:
        nonlocal taken
        taken += 1

    with Pairing() as pairing:
        for side in (0, 1):
            pairing.add(side, _records(number, column=column))
        pairing._db.set_progress_handler(count, _STEP)
        if column == "type":
            pairing.pair_by_turn()
        else:
            pairing.pair([column])
        pairing._db.set_progress_handler(None, 0)
        assert len([*pairing.pairs()]) == number
    return taken


@pytest.mark.parametrize("column", ["print", "key", "words", "type"])
def test_pairing_takes_linear_time(column: str) -> None:
    """Eight times as many records; comparing all pairs would take 64 times the steps."""
    assert _steps(_FEW * _TIMES, column) < 2 * _TIMES * _steps(_FEW, column)


def test_repeated_texts_are_paired_as_often_as_both_sides_have_one() -> None:
    """The others are paired in order by type, and the rest stays unpaired."""

    def said(text: bytes, kind: str = "semantic") -> RecordIdentity:
        return RecordIdentity(kind, text * 16, None, None, None, text, None)

    with Pairing() as pairing:
        pairing.add(0, [said(b"a"), said(b"a"), said(b"b"), said(b"c", "episodic")])
        pairing.add(1, [said(b"d"), said(b"a"), said(b"a"), said(b"a")])
        pairing.pair(["print"])
        assert [(pair.first, pair.second) for pair in pairing.pairs()] == [(0, 1), (1, 2)]
        pairing.pair_by_turn()
        assert [(pair.first, pair.second) for pair in pairing.pairs()] == [(0, 1), (1, 2), (2, 0)]
        assert [number for number, *_ in pairing.alone(0)] == [3]
        assert [number for number, *_ in pairing.alone(1)] == [3]
