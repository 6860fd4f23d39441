"""Replicas of one bank on several machines: pull, push, divergence and merge."""

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from machines_kit import forge
from transfer_kit import imported

from satchel.bank.banks import admit_writer, create_bank
from satchel.bank.connections import configured_store, open_ledger, witness_of, writer_key
from satchel.bank.machine_keys import signing_key
from satchel.bank.open_bank import open_bank
from satchel.config.settings import Settings, load_settings
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import (
    AdoptedError,
    ReadOnlyStoreError,
    RolledBackError,
    SatchelError,
    UnknownBankError,
    UsageError,
    VerificationError,
)
from satchel.ledger.decisions import Decider
from satchel.ledger.examination import examine
from satchel.ledger.ledger import Ledger
from satchel.ledger.transaction import closing_receipt, finish_erasure
from satchel.model.records import Erasure, FileVersion, Semantic, Source, Status
from satchel.model.values import Origin, now
from satchel.ports.rows import Filter
from satchel.replication import merge
from satchel.replication.copies import Relation
from satchel.replication.merge import MergeConflictPolicy
from satchel.replication.operations import Exchange, ExchangeOptions, pull, push
from satchel.stores.sqlite import SqliteStore
from satchel.transfer.comparison import diff


@dataclass(frozen=True)
class Machine:
    """One machine with its own store, keys and witness."""

    settings: Settings
    bank: str

    @property
    def store(self) -> str:
        """The address of the store."""
        return self.settings.store

    def call(self, what: Callable[[Ledger], Any]) -> Any:
        """Call a function with the ledger of the bank."""
        with configured_store(self.settings) as store:
            return what(open_ledger(self.settings, store, self.bank, writes=True))

    def add(self, *records: Sealed) -> None:
        """Append records."""
        self.call(lambda ledger: ledger.append(records))

    def set_status(self, state: Any, target: Sealed, by: Sealed | None = None) -> None:
        """Append a status."""
        self.add(seal(Status(target=target.id, state=state, by=by.id if by else None)))

    def texts(self) -> list[str]:
        """Return the current texts, sorted; everything is verified, and columns are compared."""
        with open_bank(self.settings, self.bank) as bank:
            with bank.ledger.reading() as view:
                found = [one.model for one in view.scan(Filter())]
            assert examine(bank.store, self.bank).shown == []
        return sorted(str(one.text) for one in found if isinstance(one, Semantic))

    def logged(self) -> list[tuple[str, str]]:
        """Return the IDs and times of the whole log, from the tables."""
        with configured_store(self.settings) as store, store.reading() as reader:
            size = sum(reader.counts(self.bank).values())
            rows = sorted(reader.at(self.bank, range(size)), key=lambda row: row.seq)
        return [(row.id, row.at) for row in rows]

    def pull(self, other: "Machine", **options: Any) -> Exchange:
        """Pull from another machine."""
        return pull(self.settings, other.store, ExchangeOptions(**options))

    def push(self, other: "Machine", **options: Any) -> Exchange:
        """Push to another machine."""
        return push(self.settings, other.store, ExchangeOptions(**options))


@pytest.fixture
def machines(tmp_path: Path) -> tuple[Machine, Machine]:
    """Two machines of one owner; the first has the bank, the second may write to it."""
    return two_machines(tmp_path)


def two_machines(folder: Path) -> tuple[Machine, Machine]:
    """See ``machines``."""
    first, second = (
        load_settings(
            home=folder / name, environment={"SATCHEL_WITNESS": str(folder / f"{name}-saw")}
        )
        for name in ("first", "second")
    )
    key, _ = signing_key(first, None)
    shutil.copytree(first.home, second.home)  # the same person: her owner's key is on both
    bank = create_bank(first, "assistant", key).id
    admit_writer(first, bank, (key,), writer_key(second).did)
    return Machine(first, bank), Machine(second, bank)


def note(text: str, number: int | None = None) -> Sealed:
    """Return a memory; with a number, it has an origin of that number."""
    origin = None if number is None else Origin(provider="test", id=str(number))
    return seal(Semantic(text=text, origin=origin))


def are_equal(one: Machine, other: Machine) -> bool:
    """Return whether both have the same current memories."""
    with configured_store(other.settings):
        pass
    copy = one.settings.home / "copy.pam.jsonl"
    from satchel.transfer.export_records import ExportOptions
    from satchel.transfer.exports import export

    with open_bank(other.settings, other.bank) as bank:
        export(bank, copy, ExportOptions(overwrite=True))
    return diff(one.settings, one.bank, str(copy)).is_same and one.texts() == other.texts()


# -- carrying ------------------------------------------------------------------------------


def test_a_missing_bank_is_copied_with_its_log(
    machines: tuple[Machine, Machine],
) -> None:
    """By pull and by push: positions, times, IDs and the signed head are the same."""
    one, two = machines
    one.add(*[note(f"note {n}") for n in range(300)])
    found = two.pull(one)
    assert (found.relation, found.carried, found.trust) == (Relation.NEW, 303, "own")
    assert two.logged() == one.logged()
    assert two.texts() == one.texts()
    assert two.pull(one).relation is Relation.SAME
    Path(two.store).unlink()
    again = one.push(two)
    assert (again.relation, again.carried) == (Relation.NEW, 303)
    assert two.logged() == one.logged()
    two.add(note("goes on there"))
    assert len(two.texts()) == 301


def test_records_that_one_replica_lacks_are_copied_unchanged(
    machines: tuple[Machine, Machine],
) -> None:
    """In both directions, with changes of existing records: the logs stay one."""
    one, two = machines
    kept, gone, moved = note("kept"), note("gone"), note("moved", 1)
    one.add(kept, gone, moved)
    two.pull(one)
    two.set_status("deleted", gone)
    two.set_status("superseded", moved, by=kept)
    two.add(note("moved on", 1))
    back = one.pull(two)
    assert (back.relation, back.common, back.carried) == (Relation.AHEAD, 6, 3)
    assert one.logged() == two.logged()
    assert one.texts() == ["kept", "moved on"]
    one.set_status("restored", gone)
    assert one.push(two).carried == 1
    assert two.texts() == ["gone", "kept", "moved on"]
    assert two.push(one).relation is Relation.SAME
    one.add(note("more"))
    assert two.push(one).relation is Relation.BEHIND
    assert two.texts() == ["gone", "kept", "moved on"]


def test_an_import_completed_concurrently_is_copied_complete(
    machines: tuple[Machine, Machine],
) -> None:
    """Records invisible in the older replica appear, and those they replace disappear."""
    one, two = machines
    old, new = note("old", 1), note("new", 1)
    source = seal(Source(provider="test", format="test"))
    one.add(old, source)
    replaced = seal(Status(target=old.id, state="superseded", by=new.id))
    one.call(lambda ledger: ledger.append([replaced, new], batch=source.id))
    two.pull(one)
    assert two.texts() == ["old"]
    one.call(lambda ledger: ledger.append([note("rest")], batch=source.id))
    one.add(closing_receipt(source.id, now()))
    two.pull(one)
    assert two.texts() == one.texts() == ["new", "rest"]
    one.set_status("deleted", source)
    two.pull(one)
    assert (
        two.texts() == one.texts() == ["old"]
    )  # and the record that it had replaced is current again
    one.set_status("restored", source)
    one.set_status("deleted", new)
    two.pull(one)
    assert two.texts() == one.texts() == ["rest"]


def scrub(machine: Machine) -> None:
    """Remove erased data from the files of a store, if that is not done yet."""
    with configured_store(machine.settings) as store:
        finish_erasure(store, machine.bank)


def test_a_pull_removes_texts_that_were_erased_elsewhere(machines: tuple[Machine, Machine]) -> None:
    """However the text got into the replica that pulls."""
    one, two = machines
    first, second = note("first secret"), note("second secret")
    one.add(first)
    two.pull(one)
    one.add(second, note("kept"))
    for record in (first, second):
        one.set_status("deleted", record)
        one.add(seal(Erasure(entry=record.id)))
    found = two.pull(one)
    assert found.emptied == 1
    assert two.texts() == ["kept"]
    with configured_store(two.settings) as store, store.reading() as reader:
        rows = reader.get(two.bank, [first.id, second.id])
        assert [row.body for row in rows] == [None, None]
        assert reader.side(two.bank, "erasing") == {}
    for machine in machines:
        scrub(machine)
        assert b"secret" not in Path(machine.settings.store).read_bytes()
    assert two.pull(one).relation is Relation.SAME


def test_a_pull_includes_the_blobs_of_records(machines: tuple[Machine, Machine]) -> None:
    """Unreferenced ones are not; a missing one is reported."""
    one, two = machines
    with configured_store(one.settings) as store, store.writing() as writing:
        digest, other = (writing.blobs.put(one.bank, [text]) for text in (b"named", b"not"))
    lost = "blake3:" + "0" * 64
    one.add(*[seal(FileVersion(path=name, blob=name)) for name in (digest, lost)])
    found = two.pull(one)
    assert (found.blobs, found.blobs_missing, len(found.notes)) == (1, 1, 1)
    with configured_store(two.settings) as store, store.reading() as reader:
        assert list(reader.blobs.get(two.bank, digest)) == [b"named"]
        assert not reader.blobs.has(two.bank, other)


def test_a_pulled_head_is_witnessed(
    machines: tuple[Machine, Machine],
) -> None:
    """Attack: yesterday's file is put back after a pull."""
    one, two = machines
    one.add(note("a"))
    two.pull(one)
    old = Path(two.store).read_bytes()
    one.add(note("b"))
    two.pull(one)
    Path(two.store).write_bytes(old)
    with pytest.raises(RolledBackError):
        two.texts()
    assert two.pull(one).relation is Relation.AHEAD  # a newer copy is the cure
    assert two.texts() == ["a", "b"]


def test_a_replica_older_than_the_witness_does_not_repair_a_rollback(
    machines: tuple[Machine, Machine],
) -> None:
    """Attack: both stores are rolled back, one further than the other."""
    one, two = machines
    two.pull(one)
    oldest = Path(two.store).read_bytes()
    one.add(note("a"))
    between = Path(one.store).read_bytes()
    one.add(note("b"))
    two.pull(one)
    Path(one.store).write_bytes(between)
    Path(two.store).write_bytes(oldest)
    with pytest.raises(RolledBackError):
        two.pull(one)
    with pytest.raises(RolledBackError):
        two.pull(one, dry_run=True)
    assert len(two.logged()) == 3


def test_a_pulled_untrusted_bank_stays_untrusted(machines: tuple[Machine, Machine]) -> None:
    """Attack: witnessing its head would make it trusted."""
    one, _ = machines
    one.add(note("a"))
    folder = one.settings.home.parent
    third = Machine(
        load_settings(
            home=folder / "third", environment={"SATCHEL_WITNESS": str(folder / "third-saw")}
        ),
        one.bank,
    )
    assert third.pull(one).trust == "untrusted"
    assert witness_of(third.settings).last(one.bank) is None
    with pytest.raises(ReadOnlyStoreError):
        third.add(note("b"))
    one.add(note("b"))
    assert third.pull(one).carried == 1
    assert third.texts() == ["a", "b"]


def test_dry_runs_change_nothing(machines: tuple[Machine, Machine]) -> None:
    """Not even a store is created."""
    one, two = machines
    one.add(note("a"))
    assert two.pull(one, dry_run=True).relation is Relation.NEW
    assert one.push(two, dry_run=True).relation is Relation.NEW
    assert not Path(two.store).exists()
    two.pull(one)
    one.add(note("b"))
    assert two.pull(one, dry_run=True).carried == 0
    assert two.texts() == ["a"]


def test_a_pull_from_the_same_store_or_from_another_bank_of_the_name_is_refused(
    machines: tuple[Machine, Machine],
) -> None:
    """Two banks of one name are not replicas."""
    one, two = machines
    with pytest.raises(UsageError):
        one.pull(one)
    with pytest.raises(UnknownBankError):
        one.pull(two)
    key, _ = signing_key(two.settings, None)
    create_bank(two.settings, "assistant", key)
    for options in ({}, {"bank": "assistant"}):
        with pytest.raises(UsageError, match="a different bank"):
            two.pull(one, **options)
    assert two.pull(one, bank=one.bank).relation is Relation.NEW


# -- attacks -------------------------------------------------------------------------------


def tamper(machine: Machine, sql: str, *values: Any) -> None:
    """Edit a store with SQL."""
    with configured_store(machine.settings) as store, store.writing() as writing:
        writing._connection.execute(sql, values)  # type: ignore[attr-defined]


_ATTACKS = {
    "a body is swapped": "UPDATE record SET body = (SELECT body FROM record WHERE place & 4095"
    " = 20) WHERE place & 4095 = 30",
    "a body is emptied": "UPDATE record SET body = NULL WHERE place & 4095 = 30",
    "a row is missing": "DELETE FROM record WHERE place & 4095 = 30",
    "the last row is missing": "DELETE FROM record WHERE place & 4095 = 52",
    "a row is missing and counted elsewhere": "UPDATE record SET type = 'status' WHERE place & 4095"
    " = 30",
    "a time is changed": "UPDATE record SET at = '2020-01-01T00:00:00.000000Z' WHERE place & 4095"
    " = 30",
    "an id is changed": "UPDATE record SET id = zeroblob(32) WHERE place & 4095 = 30",
    "the head is an older one's peaks": "UPDATE bank SET peaks = zeroblob(length(peaks))",
    "the head is not signed": "UPDATE bank SET head = CAST(replace(CAST(head AS TEXT),"
    " '\"size\":53', '\"size\":52') AS BLOB)",
    "a node is changed": "UPDATE node SET hash = zeroblob(32)",
    "a body is not text": "UPDATE record SET body = randomblob(100) WHERE place & 4095 = 30",
    "a body is longer than any record": "UPDATE record SET body = zeroblob(3000000)"
    " WHERE place & 4095 = 30",
}


@pytest.mark.in_check(8)
@pytest.mark.parametrize("here", ["an older copy", "nothing"])
@pytest.mark.parametrize("attack", _ATTACKS, ids=str)
def test_attack_a_pull_from_a_tampered_store_changes_nothing(
    attack: str, here: str, machines: tuple[Machine, Machine]
) -> None:
    """Attack: the other store is hostile; the error is typed, and this store stays as before."""
    (one, two), have = machines, here != "nothing"
    if have:
        one.add(*[note(f"{n}") for n in range(7)])
        two.pull(one)
    one.add(*[note(f"{n}") for n in range(43 if have else 50)])
    before = two.logged() if have else []
    tamper(one, _ATTACKS[attack])
    with pytest.raises(SatchelError) as caught:
        two.pull(one)
    assert caught.value.exit_status in (3, 4, 5)
    if have:
        assert two.logged() == before
    else:
        with configured_store(two.settings) as store, store.reading() as reader:
            assert reader.banks() == []
    if "node" not in attack:
        with pytest.raises(SatchelError):
            one.push(Machine(two.settings, two.bank), bank=one.bank)


def test_attack_a_changed_blob_stops_the_pull(machines: tuple[Machine, Machine]) -> None:
    """Attack: the stored bytes are not those that a record refers to."""
    one, two = machines
    with configured_store(one.settings) as store, store.writing() as writing:
        digest = writing.blobs.put(one.bank, [b"as it was"])
    one.add(seal(FileVersion(path="a", blob=digest)))
    tamper(one, "UPDATE piece SET data = CAST('otherwise' AS BLOB)")
    with pytest.raises(VerificationError):
        two.pull(one)
    with configured_store(two.settings) as store, store.reading() as reader:
        assert reader.banks() == []


def test_attack_columns_of_the_other_store_are_not_trusted(
    machines: tuple[Machine, Machine],
) -> None:
    """Attack: rows marked as deleted, held, or another user's, without a record in the log."""
    one, two = machines
    one.add(*[note(f"{n}", n) for n in range(5)])
    expected = one.texts()
    tamper(one, "UPDATE record SET retired = 2, hold = 1, user = 'eve', slot = CAST(place AS BLOB)")
    two.pull(one)
    assert two.texts() == expected


def test_attack_a_pulled_head_by_an_unadmitted_key_is_refused(
    machines: tuple[Machine, Machine],
) -> None:
    """Attack: somebody continues a copy with another key."""
    one, two = machines
    two.pull(one)
    with configured_store(one.settings) as store:
        forge(store, one.bank, [note("forged")], SigningKey.generate())  # type: ignore[arg-type]
    with pytest.raises(VerificationError):
        two.pull(one)
    assert two.texts() == []


def test_attack_an_adopted_copy_is_neither_copied_nor_merged(
    machines: tuple[Machine, Machine],
) -> None:
    """Attack: somebody adopts a copy, and lets it be pulled or pushes it."""
    one, two = machines
    two.pull(one)
    thief = SigningKey.generate()
    with configured_store(one.settings) as store:
        Decider(
            store=store,
            bank=one.bank,
            owner=thief,
            writer=writer_key(one.settings),
            witness=witness_of(one.settings),
        ).adopt()
    before = two.logged()
    with pytest.raises(AdoptedError):
        two.pull(one)
    with pytest.raises(AdoptedError):
        one.push(two)
    two.add(note("here"))
    for options in ({}, {"merge": True}):
        with pytest.raises(AdoptedError):
            two.pull(one, **options)
    assert two.logged()[: len(before)] == before
    assert two.texts() == ["here"]


# -- merging -------------------------------------------------------------------------------


@pytest.fixture
def diverge(machines: tuple[Machine, Machine]) -> tuple[Machine, Machine, Sealed]:
    """Return two replicas that diverged."""
    one, two = machines
    both = note("both", 1)
    one.add(both, note("also both"))
    two.pull(one)
    one.add(note("only one"))
    two.add(note("only two"), note("only two again"))
    return one, two, both


def test_diverged_replicas_are_reported_and_not_changed(
    diverge: tuple[Machine, Machine, Sealed],
) -> None:
    """Until a merge is requested."""
    one, two, _ = diverge
    logs = one.logged(), two.logged()
    for found in (one.pull(two), one.pull(two, dry_run=True, merge=True)):
        sizes = (found.common, found.source_size, found.target_size, found.new)
        assert (found.relation, *sizes) == (Relation.DIVERGED, 5, 7, 6, 2)
        assert found.is_open
    assert one.push(two).new == 1
    assert (one.logged(), two.logged()) == logs


def test_a_merge_adds_the_records_of_the_other_replica_until_both_are_equal(
    diverge: tuple[Machine, Machine, Sealed],
) -> None:
    """IDs stay; another merge adds nothing, however often and from either side."""
    one, two, _ = diverge
    before = one.logged()
    done = one.pull(two, merge=True)
    assert done.merged is not None
    assert (done.merged.taken, done.is_open) == ({"semantic": 2}, False)
    assert one.logged()[: len(before)] == before
    assert one.texts() == ["also both", "both", "only one", "only two", "only two again"]
    assert not are_equal(one, two)
    back = two.pull(one, merge=True)
    assert back.merged is not None
    assert (back.merged.taken, back.merged.known) == ({"semantic": 1}, 2)
    assert are_equal(one, two)
    logs = one.logged(), two.logged()
    for _ in range(2):
        for there, here in ((one, two), (two, one)):
            for found in (here.pull(there, merge=True), here.push(there, merge=True)):
                assert not found.is_open
                assert found.new == 0
    assert (one.logged(), two.logged()) == logs


def test_a_merge_can_be_pushed(diverge: tuple[Machine, Machine, Sealed]) -> None:
    """The other machine continues from it, and its witness agrees."""
    one, two, _ = diverge
    assert one.push(two, merge=True).merged is not None
    assert two.texts() == ["also both", "both", "only one", "only two", "only two again"]
    two.add(note("more"))
    assert one.pull(two, merge=True).merged is not None
    assert are_equal(one, two)


def test_later_merges_start_where_the_last_one_ended(
    diverge: tuple[Machine, Machine, Sealed],
) -> None:
    """Merged records are not read again."""
    one, two, _ = diverge
    one.pull(two, merge=True)
    two.add(note("even later"))
    again = one.pull(two, merge=True)
    assert again.merged is not None
    assert (again.merged.taken, again.merged.known) == ({"semantic": 1}, 0)


def test_a_merge_applies_the_statuses_of_the_other_replica(
    diverge: tuple[Machine, Machine, Sealed],
) -> None:
    """Deletions, quarantine, promotions and restores; erased text is not copied, or is removed."""
    one, two, both = diverge
    secret, erased = note("secret"), note("erased")
    two.set_status("deleted", both)
    two.add(secret, erased)
    two.set_status("deleted", erased)
    two.add(seal(Erasure(entry=erased.id)))
    two.set_status("quarantined", secret)
    done = one.pull(two, merge=True)
    assert done.merged is not None
    assert done.merged.erased == 1
    assert one.texts() == ["also both", "only one", "only two", "only two again"]
    two.set_status("released", secret)
    two.set_status("restored", both)
    one.pull(two, merge=True)
    assert {"secret", "both"} <= set(one.texts())
    two.set_status("deleted", both)
    two.add(seal(Erasure(entry=both.id)))
    assert one.pull(two, merge=True).emptied == 1
    assert "both" not in one.texts()


@pytest.mark.parametrize("how", list(MergeConflictPolicy))
def test_a_memory_changed_on_both_sides_has_one_current_version(
    how: MergeConflictPolicy, diverge: tuple[Machine, Machine, Sealed]
) -> None:
    """The later one by default; the other is in the history, and both sides agree."""
    one, two, both = diverge
    ours, theirs = note("changed by one", 1), note("changed by two", 1)
    for machine, new in ((one, ours), (two, theirs)):
        machine.set_status("superseded", both, by=new)
        machine.add(new)
    done = one.pull(two, merge=True, on_conflict=how)
    assert done.merged is not None
    kept, gone = (ours, theirs) if how is MergeConflictPolicy.HERE else (theirs, ours)
    assert done.merged.first_conflicts == [(kept.id, gone.id)]
    expected = ["also both", kept.model.text, "only one", "only two", "only two again"]  # type: ignore[union-attr]
    assert one.texts() == sorted(map(str, expected))
    two.pull(one, merge=True)
    assert are_equal(one, two)


def test_concurrent_merges_on_both_sides_agree(diverge: tuple[Machine, Machine, Sealed]) -> None:
    """Neither knows the decision of the other, and both decide the same."""
    one, two, both = diverge
    for machine, text in ((two, "changed by two"), (one, "changed by one")):
        new = note(text, 1)
        machine.set_status("superseded", both, by=new)
        machine.add(new)
    copy = one.settings.home / "copy.db"
    shutil.copy(one.store, copy)
    one.pull(two, merge=True)
    pull(two.settings, str(copy), ExchangeOptions(merge=True))
    assert are_equal(one, two)
    assert "changed by one" in one.texts()
    one.pull(two, merge=True)
    two.pull(one, merge=True)
    assert are_equal(one, two)


def test_imports_are_merged_as_imports(
    diverge: tuple[Machine, Machine, Sealed], tmp_path: Path
) -> None:
    """An undo applies on both sides; an incomplete import waits until it is complete."""
    one, two, _ = diverge
    path = tmp_path / "mem0.json"
    path.write_text('{"results": [{"id": "1", "memory": "tea"}], "count": 1}')
    source = two.call(lambda ledger: imported(ledger, path))
    late = seal(Source(provider="test", format="test"))
    two.add(late)
    two.call(lambda ledger: ledger.append([note("late")], batch=late.id))
    done = one.pull(two, merge=True)
    assert done.merged is not None
    assert done.merged.waiting == 1
    assert "tea" in one.texts()
    two.add(closing_receipt(late.id, now()))
    two.add(seal(Status(target=source, state="deleted")))
    one.pull(two, merge=True)
    assert {"late"} == {"late", "tea"} & set(one.texts())
    two.pull(one, merge=True)
    assert are_equal(one, two)
    one.set_status("deleted", late)
    two.pull(one, merge=True)
    assert are_equal(one, two)
    assert "late" not in two.texts()


def test_an_import_open_on_both_sides_is_completed_by_either(
    machines: tuple[Machine, Machine],
) -> None:
    """The bank was copied in the middle of it."""
    one, two = machines
    source = seal(Source(provider="test", format="test"))
    one.add(source)
    one.call(lambda ledger: ledger.append([note("first half")], batch=source.id))
    two.pull(one)
    one.call(lambda ledger: ledger.append([note("second half")], batch=source.id))
    one.add(closing_receipt(source.id, now()))
    two.add(note("beside it"))
    two.pull(one, merge=True)
    assert two.texts() == ["beside it", "first half", "second half"]
    one.pull(two, merge=True)
    assert are_equal(one, two)


@pytest.mark.in_check(2)
@pytest.mark.parametrize("after", range(6))
def test_an_interrupted_merge_is_invisible_and_resumed(
    after: int, diverge: tuple[Machine, Machine, Sealed], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after any of its commits."""
    one, two, both = diverge
    new = note("changed by two", 1)
    two.set_status("superseded", both, by=new)
    two.add(new)
    one.set_status("superseded", both, by=note("x"))
    one.add(note("changed by one", 1))
    two.call(lambda ledger: _log_import(ledger, ["imported"]))
    monkeypatch.setattr(merge, "TOGETHER", 2)
    before, left = one.texts(), [after]
    append = Ledger.append

    def dies(self: Ledger, records: Any, **options: Any) -> Any:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return append(self, records, **options)

    monkeypatch.setattr(Ledger, "append", dies)
    with pytest.raises(KeyboardInterrupt):
        one.pull(two, merge=True)
    assert one.texts() == before
    monkeypatch.setattr(Ledger, "append", append)
    two.add(note("meanwhile"))
    one.pull(two, merge=True)
    two.pull(one, merge=True)
    assert are_equal(one, two)
    assert {"imported", "meanwhile", "only two", "only one"} <= set(one.texts())
    assert max(Counter(one.texts()).values()) == 1


def _log_import(ledger: Ledger, texts: Sequence[str]) -> None:
    source = seal(Source(provider="test", format="test"))
    ledger.append([source])
    ledger.append([note(text) for text in texts], batch=source.id)
    ledger.append([closing_receipt(source.id, now())])


def test_attack_a_tampered_replica_is_not_merged(diverge: tuple[Machine, Machine, Sealed]) -> None:
    """Attack: all of it is verified before any record is merged."""
    one, two, _ = diverge
    before = one.logged()
    tamper(two, "UPDATE record SET body = randomblob(50) WHERE place & 4095 = 6")
    with pytest.raises(VerificationError):
        one.pull(two, merge=True)
    assert one.logged() == before


def test_merging_requires_permission_to_write(diverge: tuple[Machine, Machine, Sealed]) -> None:
    """The key was not admitted by an owner."""
    one, two, _ = diverge
    (one.settings.home / "keys" / "writer.key").unlink()
    with pytest.raises(ReadOnlyStoreError):
        one.pull(two, merge=True)


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 1), st.integers(0, 3)),
        st.tuples(
            st.just("status"),
            st.integers(0, 1),
            st.integers(0, 20),
            st.sampled_from(["deleted", "restored", "quarantined", "released"]),
        ),
        st.tuples(st.just("import"), st.integers(0, 1), st.integers(1, 3)),
        st.tuples(st.just("merge"), st.integers(0, 1)),
    ),
    max_size=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(steps=_STEPS)
def test_two_replicas_are_equal_after_merging_in_both_directions(
    steps: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """For all histories in which no memory was changed on both sides."""
    one, two = two_machines(tmp_path_factory.mktemp("copies"))
    two.pull(one)
    both = (one, two)
    mine: tuple[list[Sealed], list[Sealed]] = ([], [])
    for number, step in enumerate(steps):
        machine, known = both[step[1]], mine[step[1]]
        if step[0] == "add":
            known.append(note(f"{number}", 10 * step[2] + step[1] if step[2] else None))
            held = [one for one in known[:-1] if _slot(one) and _slot(one) == _slot(known[-1])]
            for old in held:
                machine.set_status("superseded", old, by=known[-1])
            machine.add(known[-1])
        elif step[0] == "import":
            machine.call(partial(_log_import, texts=[f"{number}"] * step[2]))
        elif step[0] == "merge":
            machine.pull(both[1 - step[1]], merge=True)
        elif known:
            target = known[step[2] % len(known)]
            if step[3] != "restored" or not _slot(target):
                machine.set_status(step[3], target)
    for _ in range(2):
        one.pull(two, merge=True)
        two.pull(one, merge=True)
    assert one.texts() == two.texts()
    sizes = len(one.logged()), len(two.logged())
    one.pull(two, merge=True)
    two.pull(one, merge=True)
    assert (len(one.logged()), len(two.logged())) == sizes


def _slot(record: Sealed) -> str | None:
    origin = record.value.get("origin")
    return origin and str(origin["id"])


def test_replication_is_tested_with_the_default_store(machines: tuple[Machine, Machine]) -> None:
    """The tests cover the default store."""
    with configured_store(machines[0].settings) as store:
        assert isinstance(store, SqliteStore)
