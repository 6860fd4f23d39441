"""Power loss at any write or sync: nothing acknowledged is lost, and the store is sound."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest
from at_rest_kit import at_rest  # noqa: F401 - a fixture
from heads_kit import BANK, signed
from ledger_kit import created, listed, memories, noting, opened, require_not_ahead
from power_kit import Disk, disk_in, let_go, until_the_power_goes

from satchel.crypto.sealed_records import seal
from satchel.errors import SatchelError, StoreFullError, TargetError
from satchel.ledger.witness import Witness
from satchel.model.records import Status
from satchel.stores.sqlite import SqliteStore

APPENDS = 12


pytestmark = pytest.mark.usefixtures("at_rest")


class Acknowledged(NamedTuple):
    """What a program had acknowledged before the power loss."""

    banks: list[str]
    records: list[str]


def write_until_power_loss(disk: Disk, chance: random.Random, *, synchronous: str) -> Acknowledged:
    """Make a store and append until the power fails; return what was acknowledged."""
    told, number, ledger = Acknowledged([], []), 0, None
    (disk.folder / "store").mkdir(exist_ok=True)
    connections: list[apsw.Connection] = []
    store = None
    # Pages between checkpoints. Each forces the log, which would hide that nothing else does.
    every = 1000 if synchronous == "normal" else chance.choice([4, 20, 1000])
    try:
        with until_the_power_goes(disk):
            for turn in range(APPENDS):
                if store is None:
                    store = SqliteStore(disk.folder / "store" / "satchel.db", vfs=disk.name)
                    connections += store._open
                    store._connection().pragma("wal_autocheckpoint", every)
                    store._connection().pragma("synchronous", synchronous)
                    if told.banks:
                        ledger = opened(store, told.banks[0], disk.folder / "witness")
                if ledger is None:
                    ledger = created(store, Witness(disk.folder / "witness"))
                    told.banks.append(ledger.bank)
                records = memories(chance.choice([1, 1, 2, 9]), number)
                number += len(records)
                if turn % 4 == 3:
                    records.append(seal(Status(target=records[0].id, state="deleted")))
                ledger.append(records)
                told.records.extend(record.id for record in records)
                if chance.random() < 0.2:
                    store.close()  # with a checkpoint, and the log file removed
                    store = None
    finally:
        let_go(connections)
    return told


def run_to_power_loss(
    root: Path, seed: int, cut_at: int | None, *, synchronous: str = "full"
) -> tuple[Acknowledged, int]:
    """Write until the power fails; what survives is in a folder of that name."""
    chance = random.Random(seed)  # noqa: S311 - the same disk each time
    root.mkdir()
    with disk_in(root / "before", chance) as disk, pytest.MonkeyPatch.context() as patch:
        disk.patch(patch)
        disk.cut_at = cut_at
        told = write_until_power_loss(disk, random.Random(seed), synchronous=synchronous)  # noqa: S311 - idem
        assert disk.off == (cut_at is not None), "there were fewer writes than that"
        (root / "survived" / "store").mkdir(parents=True)
        disk.survive(root / "survived")
        return told, disk.steps


def reopen(root: Path) -> SqliteStore:
    """Open what survived with the ordinary file system."""
    return SqliteStore(root / "survived" / "store" / "satchel.db")


def require_sound(root: Path, told: Acknowledged) -> None:
    """Require what a program that starts after the power loss can rely on."""
    witness = root / "survived" / "witness"
    store = reopen(root)
    try:
        with store.reading() as reader:
            banks = reader.banks()
        if told.banks:
            assert banks == told.banks
        for bank in banks:
            assert len(banks) == 1
            ledger = opened(store, bank, witness)
            require_not_ahead(witness, ledger)
            there = listed(ledger)
            assert there[2 : 2 + len(told.records)] == told.records
            (seq,) = ledger.append(memories(1, 10_000))
            assert seq == len(there)
            assert len(listed(ledger)) == len(there) + 1
        if not banks:
            assert Witness(witness).banks() == []
            assert len(listed(created(store, Witness(witness)))) == 2
        assert store._connection().pragma("integrity_check") == "ok"
    finally:
        store.close()


def lose_power(root: Path, seeds: range) -> None:
    """Cut the power once for each seed, anywhere between the first write and the last."""
    for seed in seeds:
        _, steps = run_to_power_loss(root / f"whole-{seed}", seed, None)
        cut_at = random.Random(f"{seed}").randrange(1, steps + 1)  # noqa: S311 - the same each time
        with noting(f"seed {seed}, cut at step {cut_at} of {steps}"):
            told, _ = run_to_power_loss(root / f"cut-{seed}", seed, cut_at)
            require_sound(root / f"cut-{seed}", told)


def test_a_power_loss_loses_no_acknowledged_append(tmp_path: Path) -> None:
    """Fault: the power fails at twenty moments, from the creation of the store on."""
    lose_power(tmp_path, range(20))


@pytest.mark.in_check(2)
@pytest.mark.parametrize("synchronous", ["off", "normal"])
def test_the_simulated_disk_loses_writes_that_were_not_synced(
    tmp_path: Path, synchronous: str
) -> None:
    """Fault: a store that does not wait for the disk loses acknowledged records.

    Otherwise the other tests could not fail. A reader with the witness gets an error.
    """
    lost = 0
    for seed in range(20):
        _, steps = run_to_power_loss(
            tmp_path / f"whole-{seed}", seed, None, synchronous=synchronous
        )
        root = tmp_path / f"cut-{seed}"
        told, _ = run_to_power_loss(root, seed, steps * 3 // 4, synchronous=synchronous)
        assert told.records
        try:
            require_sound(root, told)
        except (AssertionError, SatchelError):
            lost += 1
            with noting(f"seed {seed}"), pytest.raises(SatchelError):
                open_with_witness(root, told)
    assert lost >= 5


def open_with_witness(root: Path, told: Acknowledged) -> None:
    """Open and list what survived, with the witness from before the power loss."""
    store = reopen(root)
    try:
        listed(opened(store, told.banks[0], root / "survived" / "witness"))
    finally:
        store.close()


def test_a_full_disk_loses_nothing_and_writes_continue_with_space(tmp_path: Path) -> None:
    """Fault: the store or the witness runs out of space, and gets some again."""
    refused = 0
    chance = random.Random(5)  # noqa: S311 - the same disk each time
    with disk_in(tmp_path / "disk", chance) as disk, pytest.MonkeyPatch.context() as patch:
        disk.patch(patch)
        (disk.folder / "store").mkdir()
        store = SqliteStore(disk.folder / "store" / "satchel.db", vfs=disk.name)
        witness = disk.folder / "witness"
        ledger = created(store, Witness(witness))
        for turn in range(60):
            before = listed(ledger)
            disk.room = chance.randrange(60_000)
            record = memories(1, turn)
            with noting(f"turn {turn}, room for {disk.room} bytes"):
                try:
                    ledger.append(record)
                except (StoreFullError, TargetError) as error:
                    refused += 1
                    disk.room = None
                    there = listed(opened(store, ledger.bank, witness))
                    # The store has it where only the witness had no room: never the reverse.
                    kept = isinstance(error, TargetError)
                    assert there == [*before, *([record[0].id] if kept else [])]
                    require_not_ahead(witness, ledger)
                    assert ledger.append(memories(1, 1000 + turn)) == [len(there)]
                disk.room = None
        store.close()
    assert 5 < refused < 60


@pytest.fixture
def small_disk(mount_small: Callable[[str], Path]) -> Path:
    """A file system of 2 MB; making one needs root."""
    return mount_small("2m")


@pytest.mark.parametrize("witnessed_there", [True, False])
def test_a_full_file_system_keeps_acknowledged_appends(
    small_disk: Path, tmp_path: Path, witnessed_there: object
) -> None:
    """Fault: a real file system that is full, and then has space again."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(400_000))
    witness = (small_disk if witnessed_there else tmp_path) / "witness"
    store = SqliteStore(small_disk / "satchel.db")
    ledger = created(store, Witness(witness))
    acknowledged, number = list[str](), 0

    def fill(size: int) -> None:
        nonlocal number
        while number < 10_000:
            records = memories(size, number)
            number += size
            ledger.append(records)
            acknowledged.extend(record.id for record in records)

    for _ in range(3):
        with pytest.raises((StoreFullError, TargetError)):
            fill(5)
        # What had no room in the witness alone is there without having been acknowledged.
        there = listed(opened(store, ledger.bank, witness))
        assert [identity for identity in there if identity in set(acknowledged)] == acknowledged
    assert acknowledged
    ballast.unlink()
    again = opened(store, ledger.bank, witness)
    (seq,) = again.append(memories(1, 20_000))
    assert seq == len(listed(again)) - 1
    store.close()
    store = SqliteStore(small_disk / "satchel.db")
    assert set(listed(opened(store, ledger.bank, witness))) >= set(acknowledged)
    store.close()


def test_a_torn_witness_line_is_ignored(tmp_path: Path) -> None:
    """Fault: the power fails during a sync; any part of the line may survive."""
    torn = 0
    for seed in range(150):
        chance = random.Random(seed)  # noqa: S311 - the same disk each time
        before, after = chance.randrange(4), tmp_path / f"after-{seed}"
        with disk_in(tmp_path / f"{seed}", chance) as disk, pytest.MonkeyPatch.context() as patch:
            disk.patch(patch)
            witness = Witness(disk.folder / "witness")
            for size in range(1, before + 1):
                witness.record(signed(size))
            # Its write is done, and of the first line the folder.
            disk.cut_at = disk.steps + (1 if before else 3)
            with pytest.raises(TargetError):
                witness.record(signed(before + 1))
            after.mkdir()
            disk.survive(after)
        witness = Witness(after / "witness")
        with noting(f"seed {seed}"):
            found = witness.last(BANK)
            size = found.head.size if found else 0
            assert size in {before, before + 1}
            torn += size == before
            witness.record(signed(before + 1))
            witness.record(signed(before + 2))
            assert [kept.head.size for kept in witness.heads(BANK)] == list(range(1, before + 3))
    assert torn > 30


@pytest.mark.prove
@pytest.mark.parametrize("part", range(8))
def test_repeated_power_loss_loses_no_acknowledged_append(tmp_path: Path, part: int) -> None:
    """Fault: the same, four hundred times."""
    lose_power(tmp_path, range(1000 + part * 50, 1050 + part * 50))
