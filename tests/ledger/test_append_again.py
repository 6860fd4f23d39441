"""One append after another: what the last one saw is looked at again before it is believed.

An append remembers as little as it can of the one before. Each test changes something between two
appends of one program that it must not overlook.
"""

import os
from pathlib import Path
from typing import Any

import pytest
from heads_kit import BANK, KEY, signed
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_kit import created, listed, memories, opened

from satchel.crypto.canonical import canonical
from satchel.crypto.log import Head, check_head, parse_head, sign_head, signed_head
from satchel.errors import RolledBackError, WitnessError
from satchel.ledger.ledger import Ledger
from satchel.ledger.witness import Witness, WitnessOutcome
from satchel.ledger.witness_file import WitnessedHead, format_line, frame_line, parse_line
from satchel.stores.sqlite import SqliteStore


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    """The witness of a program that goes on."""
    return Witness(tmp_path / "witness")


@pytest.fixture
def ledger(tmp_path: Path, witness: Witness) -> Ledger:
    """A bank in a program that goes on."""
    return created(SqliteStore(tmp_path / "satchel.db"), witness)


def believed(value: dict[str, Any]) -> WitnessedHead:
    """Return a head as a program has it that signed it."""
    return WitnessedHead(head=parse_head(value).signed, signed=canonical(value))


def file_of(witness: Witness, bank: str = BANK) -> Path:
    """Return where the heads are."""
    return witness.folder / f"{bank.removeprefix('blake3:')}.heads"


def test_heads_witnessed_by_another_process_count(witness: Witness) -> None:
    """It is newer, or it is another history; a memory of our own last head says neither."""
    witness.record_verified(believed(signed(1)))
    Witness(witness.folder).record(signed(5))
    assert witness.record_verified(believed(signed(3))) is WitnessOutcome.COVERED
    assert witness.record_verified(believed(signed(6))) is WitnessOutcome.WRITTEN
    Witness(witness.folder).record(signed(9, branch="theirs"))
    with pytest.raises(WitnessError, match="forked"):
        witness.record_verified(believed(signed(9)))


@pytest.mark.parametrize("place", [0, 10, 30, 300, -2])
def test_a_line_changed_concurrently_is_not_the_one_that_was_written(
    witness: Witness, place: int
) -> None:
    """Attack: our own last line, in place, between two appends of one program."""
    witness.record_verified(believed(signed(1)))
    data = bytearray(file_of(witness).read_bytes())
    data[place] ^= 1
    file_of(witness).write_bytes(data)
    with pytest.raises(WitnessError, match="changed after it was recorded"):
        witness.record_verified(believed(signed(2)))
    assert file_of(witness).read_bytes() == data


def test_a_head_that_was_put_in_place_of_ours_has_to_be_signed(witness: Witness) -> None:
    """Attack: a whole line, its length and checksum in order, that nobody signed."""
    witness.record_verified(believed(signed(1)))
    forged = signed(2)
    forged["signed"] = forged["signed"] | {"root": BANK}
    file_of(witness).write_bytes(frame_line(canonical(forged)))
    with pytest.raises(WitnessError, match="signature"):
        witness.record_verified(believed(signed(3)))


def test_a_file_that_was_replaced_or_removed_concurrently_is_read(witness: Witness) -> None:
    """By another that is as long: no descriptor of the old one is kept."""
    witness.record_verified(believed(signed(1)))
    other = file_of(witness).with_suffix(".new")
    other.write_bytes(format_line(signed(8)))
    other.chmod(0o600)
    other.replace(file_of(witness))
    assert witness.record_verified(believed(signed(7))) is WitnessOutcome.COVERED
    assert Witness(witness.folder).forget(BANK)
    assert witness.record_verified(believed(signed(2))) is WitnessOutcome.WRITTEN
    assert file_of(witness).read_bytes() == format_line(signed(2))


def test_a_lock_file_that_was_replaced_concurrently_is_the_one_that_is_taken(
    witness: Witness, tmp_path: Path
) -> None:
    """Else who holds the new file and who holds the old one would both write."""
    witness.record_verified(believed(signed(1)))
    lock = file_of(witness).with_suffix(".lock")
    lock.rename(tmp_path / "old")
    lock.symlink_to(tmp_path / "old")
    with pytest.raises(WitnessError, match="did not create"):
        witness.record_verified(believed(signed(2)))
    lock.unlink()
    assert witness.record_verified(believed(signed(2))) is WitnessOutcome.WRITTEN
    assert lock.stat().st_ino != (tmp_path / "old").stat().st_ino


def test_a_folder_that_was_opened_to_others_is_made_private_again(ledger: Ledger) -> None:
    """Each append makes sure that the witness is its owner's alone."""
    witness = ledger._witness
    assert witness is not None
    witness.folder.chmod(0o777)
    ledger.append(memories(1))
    assert witness.folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_was_replaced_is_refused_or_created_again(
    ledger: Ledger, tmp_path: Path
) -> None:
    """Attack: a link to a folder of older heads; and that it is gone is not overlooked."""
    witness = ledger._witness
    assert witness is not None
    witness.folder.rename(tmp_path / "theirs")
    witness.folder.symlink_to(tmp_path / "theirs")
    with pytest.raises(WitnessError, match="did not create"):
        ledger.append(memories(1))
    witness.folder.unlink()
    ledger.append(memories(1, start=1))
    assert witness.folder.stat().st_mode & 0o777 == 0o700
    assert [found.head.size for found in Witness(witness.folder).heads(ledger.bank)] == [3]


def test_every_head_that_an_append_witnessed_is_signed(ledger: Ledger) -> None:
    """It is not checked again as it is written, so a program that starts anew checks each."""
    for number in range(5):
        ledger.append(memories(1, start=number))
    parse_line.cache_clear()
    witness = ledger._witness
    assert witness is not None
    found = Witness(witness.folder).heads(ledger.bank)
    assert [one.head.size for one in found] == list(range(2, 8))
    with ledger.reading() as view:
        assert found[-1].head == view.head


def test_appends_of_another_program_are_continued(ledger: Ledger, tmp_path: Path) -> None:
    """Its records and its head, which this one has not seen."""
    other = opened(SqliteStore(tmp_path / "satchel.db"), ledger.bank, tmp_path / "witness")
    for number in range(0, 6, 2):
        assert ledger.append(memories(1, start=number)) == [2 + number]
        assert other.append(memories(1, start=number + 1)) == [3 + number]
    assert len(listed(ledger)) == 8


def test_a_store_that_was_rolled_back_concurrently_is_refused(tmp_path: Path) -> None:
    """Also by the very next append, of a program that starts and of one that goes on."""
    path, folder = tmp_path / "store.db", tmp_path / "witness"
    store = SqliteStore(path)
    ledger = created(store, Witness(folder))
    store.copy_to(tmp_path / "older.db")
    ledger.append(memories(1))
    store.close()
    os.replace(tmp_path / "older.db", path)  # noqa: PTH105 - as somebody else would
    store = SqliteStore(path)
    with pytest.raises(RolledBackError):
        opened(store, ledger.bank, folder).append(memories(1, start=1))
    with pytest.raises(RolledBackError):
        Ledger(store, ledger.bank, writer=ledger._writer, witness=ledger._witness).append(
            memories(1, start=1)
        )


counts = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8), st.integers(0, 2**48), max_size=5
)


@settings(deadline=None)
@given(counts, st.integers(0, 2**53 - 1))
def test_the_bytes_of_a_signed_head_are_the_canonical_ones(
    counted: dict[str, int], epoch: int
) -> None:
    """Whatever it counts: keys that JCS sorts in another way, and numbers of sixteen digits."""
    size = sum(counted.values())
    head = Head(
        v=1,
        bank=BANK,
        epoch=epoch,
        size=size,
        root=BANK,
        counts=counted,
        at="2025-03-04T05:06:07.000000Z",
        key=KEY.did,
    )
    value = sign_head(head, KEY)
    assert signed_head(head, KEY) == canonical(value)
    assert parse_head(value).signed == head
    assert check_head(value, parse_head(value)).valid
