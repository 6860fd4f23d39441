"""Disclosure: entries and their ancestors, each verified, without their descendants."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bank_kit import filled, keep, owner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from token_kit import HOLDER, NOW, SEMANTIC, may
from transfer_kit import document

from satchel.artifact.verification import Outcome
from satchel.bank.changes import MemoryEdit, forget, update
from satchel.bank.open_bank import OpenBank
from satchel.config.settings import load_settings
from satchel.crypto.sealed_records import seal
from satchel.errors import RetiredMemoryError, SigningKeyError, UnknownMemoryError, UsageError
from satchel.model.records import Status
from satchel.transfer.disclosure import disclose_to
from satchel.transfer.export_records import Export, ExportOptions
from satchel.transfer.verification import VerifyOptions, verify


@pytest.fixture
def bank() -> Any:
    """A bank to disclose from."""
    with filled() as there:
        yield there


def disclose_entries(bank: OpenBank, entries: list[str], path: Path, **more: Any) -> Export:
    """Disclose, signed by the owner."""
    return disclose_to(bank, entries, path, ExportOptions(key=owner(), overwrite=True), **more)


def ids_in(path: Path) -> set[str]:
    """Return the IDs of the entries of an artifact."""
    found = document(path)["components"]
    return {entry["id"] for part in found.values() for entry in part}


def test_ancestors_are_included_and_descendants_never(bank: OpenBank, tmp_path: Path) -> None:
    """D13: the published implementation discloses the reverse."""
    root = keep(bank, "seen in a log", type="episodic")
    beside = keep(bank, "seen elsewhere", type="episodic")
    middle = keep(bank, "so it is slow", parents=[root])
    chosen = keep(bank, "so buy a disk", parents=[middle])
    keep(bank, "what follows is private", parents=[chosen, beside])
    path = tmp_path / "out.pam"
    done = disclose_entries(bank, [chosen], path)
    assert ids_in(path) == {root, middle, chosen}
    assert done.entries == 3
    assert b"private" not in path.read_bytes()
    statement = document(path)["statement"]
    assert statement["scope"] == {"kind": "disclosure"}
    assert statement["counts"]["proofs"] == 3


def test_a_disclosure_is_verified_without_the_bank(bank: OpenBank, tmp_path: Path) -> None:
    """With only the discloser's key, against the original head."""
    root = keep(bank, "seen")
    chosen = keep(bank, "so it is", parents=[root])
    path = tmp_path / "out.pam.jsonl"
    assert disclose_entries(bank, [chosen], path).read_back == "good"
    elsewhere = replace_home(tmp_path / "elsewhere")
    untrusted = verify(path, elsewhere, VerifyOptions(deep=True))
    assert untrusted.outcome is Outcome.UNTRUSTED
    found = verify(path, elsewhere, VerifyOptions(deep=True, keys=(owner().did,)))
    assert found.outcome is Outcome.GOOD
    assert {step.number: step.state for step in found.steps}[8] == "passed"


def replace_home(home: Path) -> Any:
    """Return the settings of another machine."""
    from msgspec.structs import replace as changed

    return changed(load_settings(), home=home, state=home / "state")


def test_a_withheld_ancestor_reveals_only_its_existence(bank: OpenBank, tmp_path: Path) -> None:
    """Its ID, position and proof; the chain above it ends."""
    top = keep(bank, "the patient is Ada")
    root = keep(bank, "a private visit", parents=[top])
    chosen = keep(bank, "use the other drug", parents=[root])
    path = tmp_path / "out.pam"
    done = disclose_entries(bank, [chosen], path, withhold=[root])
    data = path.read_bytes()
    assert done.read_back == "good"
    assert ids_in(path) == {chosen}
    (item,) = document(path)["withheld"]
    assert item["id"] == root
    assert b"private" not in data
    assert b"patient" not in data
    assert top.encode() not in data


def test_a_retired_memory_can_be_disclosed(bank: OpenBank, tmp_path: Path) -> None:
    """A proof shows that it was recorded, not that it is current; its replacement is not shown."""
    root = keep(bank, "old root")
    chosen = keep(bank, "as it was", parents=[root])
    forget(bank, [root])
    update(bank, chosen, MemoryEdit(members={"text": "as it is"}))
    path = tmp_path / "out.pam"
    disclose_entries(bank, [chosen], path)
    assert ids_in(path) == {chosen, root}
    assert b"as it is" not in path.read_bytes()


def test_a_token_holder_discloses_the_memories_that_it_can_read(
    bank: OpenBank, tmp_path: Path
) -> None:
    """Signed by itself.

    Ancestors beyond the token are withheld; unreadable memories are unknown.
    """
    hidden = keep(bank, "seen while working", type="working")
    chosen = keep(bank, "a fact", parents=[hidden])
    path = tmp_path / "out.pam"
    holder = may(bank, SEMANTIC, allow=["read", "export"])
    done = disclose_to(holder, [chosen], path, ExportOptions(key=HOLDER))
    assert (done.entries, done.records["withheld"], done.signed_by) == (1, 1, HOLDER.did)
    assert b"seen while working" not in path.read_bytes()
    with pytest.raises(UnknownMemoryError):
        disclose_to(holder, [hidden], tmp_path / "x.pam", ExportOptions(key=HOLDER))


def test_invalid_disclosures_are_refused_and_nothing_is_written(
    bank: OpenBank, tmp_path: Path
) -> None:
    """No entry, an unsigned file, a format without proofs, a held memory, or both."""
    chosen = keep(bank, "a fact")
    held = keep(bank, "doubtful")
    bank.ledger.append([seal(Status(target=held, state="quarantined", at=NOW))])
    signed = ExportOptions(key=owner())
    path = tmp_path / "out.pam"
    for entries, output, options, withhold, error in (
        ([], path, signed, [], UsageError),
        ([chosen], path, replace(signed, key=None), [], SigningKeyError),
        ([chosen], tmp_path / "out.ama.jsonl", replace(signed, format="ama"), [], UsageError),
        ([held], path, signed, [], RetiredMemoryError),
        ([chosen], path, signed, [chosen], UsageError),
        (["blake3:" + "0" * 64], path, signed, [], UnknownMemoryError),
    ):
        with pytest.raises(error):
            disclose_to(bank, entries, output, options, withhold=withhold)
        assert list(tmp_path.glob("out*")) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
@given(data=st.data())
def test_a_disclosure_is_the_closure_of_ancestors_for_all_graphs(
    data: st.DataObject, bank: OpenBank, tmp_path: Path
) -> None:
    """Up to withheld entries: as a plain traversal computes it, and it verifies."""
    parents = dict[str, set[str]]()
    for number in range(data.draw(st.integers(1, 8))):
        drawn = (
            data.draw(st.sets(st.sampled_from(sorted(parents)), max_size=3)) if parents else set()
        )
        parents[keep(bank, f"entry {number}", parents=sorted(drawn))] = drawn
    names = list(parents)
    chosen = data.draw(st.sets(st.sampled_from(names), min_size=1))
    withheld = data.draw(st.sets(st.sampled_from(names))) - chosen
    shown, waiting = set[str](), list(chosen)
    hidden = set[str]()
    while waiting:
        one = waiting.pop()
        if one in shown:
            continue
        shown.add(one)
        hidden |= parents[one] & withheld
        waiting += parents[one] - withheld
    path = tmp_path / "out.pam"
    done = disclose_entries(bank, sorted(chosen), path, withhold=sorted(withheld))
    assert done.read_back == "good"
    assert ids_in(path) == shown
    assert {item["id"] for item in document(path).get("withheld", [])} == hidden
