"""What differs between two memories, whatever they are kept in."""

import json
import os
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
from satchel.transfer.comparison import Comparison, EntryMatcher, diff
from satchel.transfer.export_records import ExportOptions
from satchel.transfer.exports import export


def about(number: int, text: str, **more: object) -> Sealed:
    """Return an entry about a thing that has a number."""
    origin = Origin(provider="test", id=str(number))
    return seal(Semantic(text=text, origin=origin, **more))  # type: ignore[arg-type]


def between(a: list[Sealed], b: list[Sealed], limit: int = 20) -> Comparison:
    """Compare two lists."""
    with EntryMatcher() as comparing:
        comparing.add("a", a)
        comparing.add("b", b)
        return comparing.compare("a", "b", limit=limit)


def numbers(found: Comparison) -> tuple[int, int, int, int]:
    """Return how many are the same, only in one or the other, and changed."""
    return found.same, found.only_a, found.only_b, found.changed


def test_the_same_memory_sealed_twice_is_the_same() -> None:
    """Id and nonce are no content; doubles are matched one to one."""
    texts = ["a", "b", "b"]
    one = [seal(Semantic(text=text)) for text in texts]
    other = [seal(Semantic(text=text)) for text in texts]
    assert numbers(between(one, other)) == (3, 0, 0, 0)
    assert numbers(between(one, other[:2])) == (2, 1, 0, 0)
    assert numbers(between(one, one)) == (3, 0, 0, 0)


def test_a_thing_that_says_something_else_is_changed_and_its_fields_named() -> None:
    """By its id at its source."""
    one = [about(1, "likes tea", tags=("x",)), about(2, "same"), about(3, "only here")]
    other = [about(1, "likes milk", salience=0.5), about(2, "same"), about(4, "only there")]
    found = between(one, other)
    assert numbers(found) == (1, 1, 1, 1)
    (pair,) = found.first_changed
    assert pair.fields == ["salience", "tags", "text"]
    assert (pair.a.text, pair.b.text, pair.a.origin) == ("likes tea", "likes milk", "1")
    assert [only.text for only in found.first_only_a] == ["only here"]
    assert [only.text for only in found.first_only_b] == ["only there"]


def test_a_link_to_the_same_parent_under_another_id_is_no_change() -> None:
    """As a file has it whose records get new ids with each reading; another parent is one."""
    draft = {"type": "semantic", "text": "child", "created_at": "2026-01-01T00:00:00.000000Z"}
    draft_of = {**draft, "origin": {"provider": "test", "id": "2"}}
    sides, other_parent = list[list[Sealed]](), about(9, "other")
    for _ in range(2):
        parent = about(1, "parent")
        sides.append([parent, derive([parent], draft_of)])
    assert numbers(between(sides[0], sides[1])) == (2, 0, 0, 0)
    moved = derive([other_parent], draft_of)
    found = between(sides[0], [*sides[1][:1], other_parent, moved])
    assert numbers(found) == (1, 0, 1, 1)
    assert found.first_changed[0].fields == ["parent_ids"]


def test_what_took_the_place_of_an_entry_is_its_change() -> None:
    """A bank's own memory has no id at a source; its log says what replaced what."""
    versions = [seal(Semantic(text=f"version {n}")) for n in range(3)]
    steps = [
        seal(Status(target=old.id, state="superseded", by=new.id))
        for old, new in pairwise(versions)
    ]
    for one, other in (
        ([versions[0]], [versions[2], *steps]),
        ([versions[2], *steps], versions[:1]),
    ):
        found = between(one, other)
        assert numbers(found) == (0, 0, 0, 1)
        assert found.first_changed[0].fields == ["text"]


def test_the_numbers_are_of_all_and_the_names_of_the_first() -> None:
    """However many there are."""
    one = [about(n, "a") for n in range(50)] + [about(n, "only a") for n in range(50, 90)]
    other = [about(n, "b") for n in range(50)] + [about(n, "only b") for n in range(100, 130)]
    found = between(one, other, limit=3)
    assert numbers(found) == (0, 40, 30, 50)
    shown = (found.first_only_a, found.first_only_b, found.first_changed)
    assert [len(part) for part in shown] == [3, 3, 3]


def test_a_nonce_written_into_the_content_hides_no_difference() -> None:
    """Attack: metadata that look like the member that is left out of the comparison."""
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
    """A file of Mem0."""
    path = tmp_path / "mem0.json"
    rows = [{"id": str(n), "memory": f"memory {n}", "user_id": "ada"} for n in range(5)]
    path.write_text(json.dumps(rows))
    return path


def test_a_bank_its_export_and_the_file_it_came_from_are_the_same(
    mem0: Path, tmp_path: Path
) -> None:
    """Ids are others in each; what was changed in the bank since shows."""
    bank, settings = new_bank(), load_settings()
    import_into(bank, mem0)
    with open_bank(settings) as found:
        for name in ("a.pam", "a.mem0.json"):
            export(found, tmp_path / name, ExportOptions())
        with found.ledger.reading() as view:
            first = next(one for one in view.scan() if one.record.type == "semantic").record
    sides = ["assistant", str(mem0), str(tmp_path / "a.pam"), str(tmp_path / "a.mem0.json")]
    for side in sides[1:]:
        assert numbers(diff(settings, "assistant", side)) == (5, 0, 0, 0)
    assert diff(settings, sides[2], sides[0]).notes == [
        f"{sides[2]}: unsigned: the file is not signed"
    ]
    append(bank, [seal(Status(target=first.id, state="deleted"))])
    assert numbers(diff(settings, "assistant", sides[2])) == (4, 0, 1, 0)


def test_a_tampered_file_is_not_compared(mem0: Path, tmp_path: Path) -> None:
    """It says nothing about anybody's memory."""
    import_into(new_bank(), mem0)
    settings, path = load_settings(), tmp_path / "a.pam.jsonl"
    with open_bank(settings) as found:
        export(found, path, ExportOptions())
    path.write_bytes(path.read_bytes().replace(b"memory 3", b"memory 8"))
    with pytest.raises(VerificationError):
        diff(settings, "assistant", str(path))


def test_a_name_that_is_neither_or_both_is_refused(
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


def test_two_empty_memories_are_an_error_not_the_same() -> None:
    """Nothing was compared."""
    new_bank("one")
    new_bank("two")
    with pytest.raises(EmptyInputError):
        diff(load_settings(), "one", "two")
