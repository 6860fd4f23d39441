"""Whole stores copied to others: the same in every kind, gone on with, never half believed."""

from __future__ import annotations

import itertools
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from ledger_kit import memories
from msgspec.structs import replace
from postgres_kit import in_schema, run_sql, schema_of
from whole_store_kit import ONE, everything, filled

from satchel.admin.bank_copy import delete_bank
from satchel.admin.bank_health import check_banks
from satchel.bank.banks import create_bank
from satchel.bank.connections import configured_store, open_ledger, open_store, witness_of
from satchel.bank.machine_keys import signing_key
from satchel.bank.open_bank import open_bank_in
from satchel.config.settings import Settings, load_settings
from satchel.crypto.sealed_records import seal
from satchel.errors import (
    EmptyInputError,
    RolledBackError,
    StoreBusyError,
    TargetExistsError,
    UnfinishedCopyError,
    UnknownBankError,
    UsageError,
    VerificationError,
)
from satchel.ledger.examination import examine
from satchel.model.records import Erasure, FileVersion, Status
from satchel.model.values import now
from satchel.ports.rows import RowState
from satchel.ports.store import Commit, StoredHead, Writer
from satchel.receipts.archive import find_receipt
from satchel.replication import copies
from satchel.replication.copies import Relation
from satchel.replication.operations import ExchangeOptions, pull, push
from satchel.replication.store_copy import CopyOptions, StoreCopy, copy_store
from satchel.stores.sqlite import SqliteStore

KINDS = ("sqlite", "ladybug", "postgresql")


HOME, WITNESS = "satchel-home", "satchel-witness"
"""Where ``own_home`` puts them."""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store that has something of everything in it, its keys and its witness."""
    folder = tmp_path_factory.mktemp("kept")
    environment = {"SATCHEL_WITNESS": str(folder / WITNESS), "SATCHEL_CONFIG": ""}
    settings = load_settings(
        home=folder / HOME, store=str(folder / "here.db"), environment=environment
    )
    filled(settings, entries=60, edges=30)
    return folder


@pytest.fixture
def here(kept: Path, tmp_path: Path) -> Settings:
    """That store, on a machine of one's own."""
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    return load_settings(store=str(tmp_path / "here.db"))


@pytest.fixture(scope="module")
def places(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], str]]:
    """Give the address of a store of a kind that is not made yet."""
    schemas, folder = list[str](), tmp_path_factory.mktemp("places")

    def at(kind: str) -> str:
        if kind != "postgresql":
            return f"{kind}:///{folder / uuid.uuid4().hex}"
        schemas.append(in_schema(request.getfixturevalue("postgres"), f"c_{uuid.uuid4().hex}"))
        return schemas[-1]

    yield at
    for place in schemas:
        server = request.getfixturevalue("postgres")
        run_sql(server, f"DROP SCHEMA IF EXISTS {schema_of(place)} CASCADE")


def told(store: str) -> dict[str, Any]:
    """Return all that a store tells of its banks, but for what speaks of its place."""
    with closing(open_store(store, read_only=True)) as opened, opened.reading() as reader:
        found = everything(reader)
    for bank in found.values():
        bank["side"].pop("erasing", None)
    return found


def copied(settings: Settings, target: str, **asked: Any) -> StoreCopy:
    """Copy the configured store."""
    return copy_store(settings, settings.store, target, CopyOptions(**asked))


@pytest.fixture(scope="module")
def ring(kept: Path, places: Callable[[str], str]) -> dict[str, str]:
    """A store of each kind, each copied from the one before it, the first from SQLite's."""
    environment = {"SATCHEL_WITNESS": str(kept / WITNESS), "SATCHEL_CONFIG": ""}
    settings = load_settings(home=kept / HOME, environment=environment)
    found, before = dict[str, str](), str(kept / "here.db")
    for kind in ("postgresql", "ladybug", "sqlite"):
        found[kind] = places(kind)
        copy_store(settings, before, found[kind])
        before = found[kind]
    return found


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_a_store_of_any_kind_is_copied_to_any_kind(
    here: Settings,
    ring: dict[str, str],
    places: Callable[[str], str],
    source: str,
    target: str,
) -> None:
    """Ids, order, times, heads, standing, links, words, vectors, blobs, values: all the same."""
    other = places(target)
    found = copy_store(here, ring[source], other)
    expected = told(here.store)
    assert told(other) == expected
    sizes = {one.bank: (one.size, one.carried, one.earlier) for one in found.banks}
    assert sizes == {
        bank: (sum(there["counts"].values()), len(there["rows"]), 0)
        for bank, there in expected.items()
    }
    with closing(open_store(other, read_only=True)) as store:
        for bank in expected:
            assert examine(store, bank).is_sound
        with open_bank_in(here, store, "assistant").ledger.reading() as view:
            assert view.standing == "own"


def test_what_is_copied_in_a_ring_is_what_it_was(here: Settings, ring: dict[str, str]) -> None:
    """SQLite, PostgreSQL, LadybugDB, SQLite: the last is the first."""
    assert told(ring["sqlite"]) == told(here.store)


class Killed(BaseException):
    """Nobody catches it, as nobody catches a signal that kills."""


@contextmanager
def killed_at(monkeypatch: pytest.MonkeyPatch, target: str, number: int) -> Iterator[list[int]]:
    """End a program just before one of its commits to a store, and so just after the one before.

    Gives how many commits were begun, as the one item of a list.
    """
    writing, seen = SqliteStore.writing, [0]

    @contextmanager
    def counted(self: SqliteStore) -> Iterator[Writer]:
        with writing(self) as transaction:
            yield transaction
            if self.name == target:
                seen[0] += 1
                if seen[0] == number:
                    raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "writing", counted)
        yield seen


def test_a_copy_killed_at_any_commit_is_resumed(
    here: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two commits: nothing half is shown, and all arrives in the end."""
    monkeypatch.setattr(copies, "ROWS_IN_COMMIT", 40)
    monkeypatch.setattr(copies, "_NUMBERS_IN_COMMIT", 50)
    expected, resumed = told(here.store), 0
    with killed_at(monkeypatch, str(tmp_path / "whole.db"), -1) as commits:
        copied(here, str(tmp_path / "whole.db"))
    assert commits[0] > 9
    for number in range(1, commits[0] + 1):
        target = str(tmp_path / f"{number}.db")
        with killed_at(monkeypatch, target, number), pytest.raises(Killed):
            copied(here, target)
        half = told(target)
        assert half == {bank: expected[bank] for bank in half}
        done = copied(here, target)
        assert told(target) == expected
        resumed += any(0 < one.earlier < one.size and one.carried for one in done.banks)
    assert resumed >= 2


def _half(here: Settings, target: Path, monkeypatch: pytest.MonkeyPatch, number: int = 4) -> str:
    """Leave a copy of the first bank that is not complete, and return the bank's id."""
    monkeypatch.setattr(copies, "ROWS_IN_COMMIT", 50)
    with killed_at(monkeypatch, str(target), number), pytest.raises(Killed):
        copied(here, str(target), banks=("assistant",))
    with closing(open_store(str(target), read_only=True)) as store, store.reading() as reader:
        (bank,) = reader.begun()
    return bank


def test_a_bank_that_is_not_all_there_is_no_bank_yet(
    here: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in no list; whoever asks for it is told what to do, and doctor says so too."""
    bank = _half(here, tmp_path / "there.db", monkeypatch)
    there = load_settings(store=str(tmp_path / "there.db"))
    with configured_store(there) as store, store.reading() as reader:
        assert bank not in reader.banks()
        with pytest.raises(UnknownBankError, match="no bank"):
            open_bank_in(there, store, bank)
        with pytest.raises(UnfinishedCopyError), open_ledger(there, store, bank).reading():
            pass
    with configured_store(there) as store:
        ledger = open_ledger(there, store, bank, writes=True)
        with pytest.raises(UnfinishedCopyError):
            ledger.append(memories(1))
    (said,) = [one for one in check_banks(there) if one.name == bank]
    assert "incomplete" in said.detail
    with pytest.raises(UnfinishedCopyError):
        push(here, there.store, ExchangeOptions(bank=bank))
    assert delete_bank(there, bank).id == bank
    with configured_store(there) as store, store.reading() as reader:
        assert reader.begun() == []
    assert witness_of(here).last(bank) is not None


def test_the_source_may_be_written_while_a_copy_waits(
    here: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came of an older state is not mixed with the newer one: it begins anew, and says so."""
    bank = _half(here, tmp_path / "there.db", monkeypatch)
    with configured_store(here) as store:
        open_ledger(here, store, bank, writes=True).append(memories(2, start=900))
    done = copied(here, str(tmp_path / "there.db"))
    assert told(str(tmp_path / "there.db")) == told(here.store)
    (found,) = [one for one in done.banks if one.bank == bank]
    assert found.earlier == 0
    assert "started again" in found.notes[0]


@pytest.mark.parametrize("what", ["a row", "a head", "a node", "a journal"])
def test_imported_memories_changed_since_get_no_head(
    here: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Whoever can write the store between two runs cannot have anything else believed."""
    target = tmp_path / "there.db"
    bank = _half(here, target, monkeypatch)
    with closing(open_store(str(target), read_only=False)) as store, store.writing() as writing:
        left = writing.head(bank)
        assert left is not None
        if what == "a row":
            (row,) = writing.at(bank, [7])
            writing.rewrite(bank, [row.changed(RowState(3, hold=False))])
        elif what == "a head":
            head = StoredHead(b"", left.peaks[::-1])
            writing.append(bank, Commit(rows=(), nodes=(), head=head))
        elif what == "a node":
            writing.put_nodes(bank, 20, [b"\0" * 32])
        else:
            writing.put_side(bank, {copies.JOURNAL: b"{"})
    with pytest.raises(VerificationError):
        copied(here, str(target))
    with closing(open_store(str(target), read_only=True)) as store, store.reading() as reader:
        assert reader.begun() == [bank]
        assert bank not in reader.banks()


def test_two_that_copy_to_one_place_do_not_mix_their_rows(
    here: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one who finds that somebody else went on stops; what is there is whole all the same."""
    monkeypatch.setattr(copies, "ROWS_IN_COMMIT", 50)
    target, other = str(tmp_path / "there.db"), list[StoreCopy]()

    def meanwhile(done: int, _: int) -> None:
        if done >= 50 and not other:
            other.append(StoreCopy(source="", target="", banks=[]))  # while it is on its way
            other[0] = copied(here, target, banks=("assistant",))

    with pytest.raises(StoreBusyError, match="another process"):
        copied(here, target, progress=meanwhile, banks=("assistant",))
    assert told(target).items() <= told(here.store).items()
    assert other[0].banks[0].earlier == 50


def test_a_bank_with_another_log_is_refused_before_anything_is_written(
    here: Settings, tmp_path: Path
) -> None:
    """What only the other store has is not written over, and no other bank goes there either."""
    other = load_settings(store=str(tmp_path / "there.db"))
    copied(here, other.store, banks=("assistant",))
    with configured_store(other) as store:
        bank = open_bank_in(other, store, "assistant", writes=True)
        bank.ledger.append(memories(1, start=500))
    before = told(other.store)
    with configured_store(here) as store:  # this machine has seen the other one grow: it is behind
        shutil.rmtree(here.state / "banks")
        assert len(told(here.store)) == 2
    with pytest.raises(TargetExistsError, match="1 records that are missing here"):
        copied(here, other.store)
    with configured_store(here) as store:
        open_bank_in(here, store, "assistant", writes=True).ledger.append(memories(3, start=700))
    with pytest.raises(TargetExistsError):
        copied(here, other.store)
    assert told(other.store) == before


def test_a_copy_is_brought_up_to_date_by_copying_again(here: Settings, tmp_path: Path) -> None:
    """The same again changes nothing and is compared; what the source has more goes after it."""
    target = str(tmp_path / "there.db")
    copied(here, target)
    same = copied(here, target)
    assert {(one.relation, one.carried) for one in same.banks} == {(Relation.SAME, 0)}
    assert all(sum(one.compared.values()) == one.size for one in same.banks)
    with configured_store(here) as store:
        bank = open_bank_in(here, store, "assistant", writes=True)
        new = memories(3, start=300)
        bank.ledger.append(new)
        bank.ledger.append([seal(Status(target=new[0].id, state="deleted", at=now()))])
        with store.writing() as writing:
            writing.vectors.put(bank.id, ONE, {new[1].id: (1, 2, 3)})
            writing.blobs.put(bank.id, [b"new"])
            writing.put_side(bank.id, {"later": b"1"})
    done = {one.name: one for one in copied(here, target).banks}
    assert (done["assistant"].relation, done["assistant"].carried) == (Relation.AHEAD, 4)
    assert told(target) == told(here.store)


def test_the_source_may_be_written_to_while_it_is_copied(here: Settings, tmp_path: Path) -> None:
    """The copy is the bank at one moment; the next copy brings what came after that."""
    target = str(tmp_path / "there.db")
    with configured_store(here) as store:
        bank, number = open_bank_in(here, store, "assistant", writes=True), itertools.count(999)

        def meanwhile(*_: int) -> None:
            bank.ledger.append(memories(1, start=next(number)))

        meanwhile()  # somebody has the store open
        before = told(here.store)
        copied(here, target, banks=("assistant",), progress=meanwhile)
    assert told(target).items() <= before.items()
    (again,) = copied(here, target, banks=("assistant",)).banks
    assert again.carried > 0
    assert told(target).items() <= told(here.store).items()


def test_the_source_is_only_read(here: Settings, tmp_path: Path) -> None:
    """Not a byte of its file is another one afterwards."""
    before = Path(here.store).read_bytes()
    copied(here, str(tmp_path / "there.db"))
    assert Path(here.store).read_bytes() == before


def test_a_dry_run_reports_the_plan_and_creates_nothing(
    here: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a store that is not there, and of one that is there in part."""
    target = tmp_path / "there.db"
    found = copied(here, str(target), dry_run=True)
    assert {one.relation for one in found.banks} == {Relation.NEW}
    assert not target.exists()
    bank = _half(here, target, monkeypatch)
    before = target.read_bytes()
    found = copied(here, str(target), dry_run=True)
    assert {one.bank: one.earlier for one in found.banks}[bank] == 100
    assert target.read_bytes() == before


def test_the_witness_takes_neither_copy_for_a_rollback(here: Settings, tmp_path: Path) -> None:
    """Both are what it saw; when one goes on, the other is older, and a pull is the cure."""
    there = load_settings(store=str(tmp_path / "there.db"))
    shutil.rmtree(here.state / "banks")
    copied(here, there.store)
    bank = next(one for one in told(there.store))
    own = next(one.bank for one in copied(here, there.store).banks if one.trust == "own")
    seen = witness_of(here).last(own)
    assert seen is not None
    assert seen.signed == told(there.store)[own]["head"].signed
    assert bank in told(here.store)
    for settings in (here, there):
        with (
            configured_store(settings) as store,
            open_ledger(settings, store, own).reading() as view,
        ):
            assert view.standing == "own"
    with configured_store(there) as store:
        open_ledger(there, store, own, writes=True).append(memories(1, start=800))
    with (
        configured_store(here) as store,
        pytest.raises(RolledBackError),
        open_ledger(here, store, own).reading(),
    ):
        pass
    with pytest.raises(RolledBackError):
        copied(here, str(tmp_path / "third.db"))
    assert not (tmp_path / "third.db").exists()
    pull(here, there.store, ExchangeOptions(bank=own))
    copied(here, str(tmp_path / "third.db"))
    assert told(str(tmp_path / "third.db"))[own] == told(here.store)[own]


def test_an_untrusted_bank_stays_untrusted(here: Settings, tmp_path: Path) -> None:
    """It is copied, and nothing of it is witnessed: that would make it one's own."""
    found = copied(here, str(tmp_path / "there.db"), banks=("foreign",))
    (one,) = found.banks
    assert one.trust == "untrusted"
    assert witness_of(here).last(one.bank) is None


def test_a_damaged_record_is_not_copied(here: Settings, tmp_path: Path) -> None:
    """The bank gets no head in the other store; the other banks are not begun."""
    bank = next(one for one in told(here.store) if len(told(here.store)[one]["rows"]) > 100)
    with configured_store(here) as store, store.writing() as writing:
        (row,) = writing.at(bank, [30])
        writing.rewrite(bank, [replace(row, body=(row.body or b"").replace(b"memory", b"nemory"))])
    target = str(tmp_path / "there.db")
    with pytest.raises(VerificationError, match="record 30"):
        copied(here, target)
    assert bank not in told(target)


def test_a_blob_of_an_unfinished_erasure_is_not_copied(here: Settings, tmp_path: Path) -> None:
    """Nobody is given what was erased; the note that a store still holds it stays as well."""
    with configured_store(here) as store:
        bank = open_bank_in(here, store, "assistant", writes=True)
        with store.writing() as writing:
            gone = writing.blobs.put(bank.id, [b"secret"])
        file = seal(FileVersion(path="secret.md", blob=gone))
        bank.ledger.append([file])
        bank.ledger.append([seal(Status(target=file.id, state="deleted", at=now()))])
        bank.ledger.append([seal(Erasure(entry=file.id, at=now()))])
    target = str(tmp_path / "there.db")
    copied(here, target)
    assert gone in told(here.store)[bank.id]["blobs"]
    with closing(open_store(target, read_only=True)) as store, store.reading() as reader:
        assert not reader.blobs.has(bank.id, gone)
        assert reader.side(bank.id, "erasing") == {}
    assert b"secret" not in Path(target).read_bytes()


def test_each_bank_has_a_signed_receipt(here: Settings, tmp_path: Path) -> None:
    """It names both stores, the root, and how many records of each type were read again."""
    done = copied(here, str(tmp_path / "there.db"))
    assert done.banks
    for one in done.banks:
        assert one.receipt is not None
        found = find_receipt(here, one.receipt)
        account = found.account
        assert account is not None
        assert (account.kind, account.read_back) == ("copy", "equal")
        assert (account.input.root, account.output.root) == (one.root, one.root)
        assert account.output.store == str(tmp_path / "there.db")
        assert {name: each.read_back for name, each in account.counts.items()} == one.compared


def test_another_bank_of_the_same_name_is_reported(here: Settings, tmp_path: Path) -> None:
    """Names are for people, who may then have to say the id."""
    there = load_settings(store=str(tmp_path / "there.db"))
    create_bank(there, "assistant", signing_key(there, None)[0])
    notes = [one.notes for one in copied(here, there.store).banks if one.name == "assistant"]
    assert "'assistant'" in notes[0][0]


def test_what_cannot_be_meant_is_refused(here: Settings, tmp_path: Path) -> None:
    """The very same store, none, an empty one, a bank that is not there."""
    with pytest.raises(UsageError, match="itself"):
        copied(here, here.store)
    nothing = str(tmp_path / "nothing.db")
    with pytest.raises(UnknownBankError, match="no store"):
        copy_store(here, nothing, str(tmp_path / "there.db"))
    SqliteStore(Path(nothing)).close()
    with pytest.raises(EmptyInputError):
        copy_store(here, nothing, str(tmp_path / "there.db"))
    with pytest.raises(UnknownBankError):
        copied(here, str(tmp_path / "there.db"), banks=("nobody",))
    assert not (tmp_path / "there.db").exists()
