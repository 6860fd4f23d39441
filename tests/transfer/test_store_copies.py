"""Copies of whole stores: the same in every kind of store, resumable, and verified."""

import itertools
import os
import random
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from ledger_kit import memories, noting
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
from satchel.crypto.sealed_records import seal, seal_many, seeded_nonces
from satchel.errors import (
    EmptyInputError,
    RolledBackError,
    SatchelError,
    StoreBusyError,
    TargetExistsError,
    UnfinishedCopyError,
    UnknownBankError,
    UsageError,
    VerificationError,
)
from satchel.ledger.examination import examine
from satchel.model.records import Edge, Erasure, FileVersion, Semantic, Status
from satchel.model.values import Origin, Scope, now
from satchel.ports.rows import Filter, RowState
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
def source_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store with data in every table, its keys and its witness."""
    folder = tmp_path_factory.mktemp("kept")
    environment = {"SATCHEL_WITNESS": str(folder / WITNESS), "SATCHEL_CONFIG": ""}
    settings = load_settings(
        home=folder / HOME, store=str(folder / "here.db"), environment=environment
    )
    filled(settings, entries=60, edges=30)
    return folder


@pytest.fixture
def source_settings(source_folder: Path, tmp_path: Path) -> Settings:
    """That store on its own machine."""
    shutil.copytree(source_folder, tmp_path, dirs_exist_ok=True)
    return load_settings(store=str(tmp_path / "here.db"))


@pytest.fixture(scope="module")
def new_address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], str]]:
    """Return the address of a new store of a kind."""
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


def content(store: str) -> dict[str, Any]:
    """Return the content of a store except values that depend on its location."""
    with closing(open_store(store, read_only=True)) as opened, opened.reading() as reader:
        found = everything(reader)
    for bank in found.values():
        bank["side"].pop("erasing", None)
    return found


def copy_to(settings: Settings, target: str, **asked: Any) -> StoreCopy:
    """Copy the configured store."""
    return copy_store(settings, settings.store, target, CopyOptions(**asked))


@pytest.fixture(scope="module")
def ring(source_folder: Path, new_address: Callable[[str], str]) -> dict[str, str]:
    """A store of each kind, each copied from the previous one, the first from SQLite."""
    environment = {"SATCHEL_WITNESS": str(source_folder / WITNESS), "SATCHEL_CONFIG": ""}
    settings = load_settings(home=source_folder / HOME, environment=environment)
    found, before = dict[str, str](), str(source_folder / "here.db")
    for kind in ("postgresql", "ladybug", "sqlite"):
        found[kind] = new_address(kind)
        copy_store(settings, before, found[kind])
        before = found[kind]
    return found


@pytest.mark.in_check(3)
@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_a_store_of_any_kind_can_be_copied_to_any_kind(
    source_settings: Settings,
    ring: dict[str, str],
    new_address: Callable[[str], str],
    source: str,
    target: str,
) -> None:
    """The same IDs, order, times, heads, statuses, links, words, vectors, blobs, side values."""
    other = new_address(target)
    found = copy_store(source_settings, ring[source], other)
    expected = content(source_settings.store)
    assert content(other) == expected
    sizes = {one.bank: (one.size, one.carried, one.earlier) for one in found.banks}
    assert sizes == {
        bank: (sum(there["counts"].values()), len(there["rows"]), 0)
        for bank, there in expected.items()
    }
    with closing(open_store(other, read_only=True)) as store:
        for bank in expected:
            assert examine(store, bank).is_sound
        with open_bank_in(source_settings, store, "assistant").ledger.reading() as view:
            assert view.standing == "own"


def test_a_store_copied_through_every_kind_is_unchanged(
    source_settings: Settings, ring: dict[str, str]
) -> None:
    """SQLite, PostgreSQL, LadybugDB, SQLite: the last equals the first."""
    assert content(ring["sqlite"]) == content(source_settings.store)


class KilledAtCommit(BaseException):
    """Not caught by anything, like a signal that kills."""


@contextmanager
def killed_at(monkeypatch: pytest.MonkeyPatch, target: str, number: int) -> Iterator[list[int]]:
    """End a program just before one of its commits to a store.

    Yields a list with the number of commits that were begun.
    """
    writing, seen = SqliteStore.writing, [0]

    @contextmanager
    def counted(self: SqliteStore) -> Iterator[Writer]:
        with writing(self) as transaction:
            yield transaction
            if self.name == target:
                seen[0] += 1
                if seen[0] == number:
                    raise KilledAtCommit

    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "writing", counted)
        yield seen


def test_a_copy_killed_at_any_commit_is_resumed(
    source_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two commits: nothing partial is shown, and all is copied in the end."""
    monkeypatch.setattr(copies, "ROWS_IN_COMMIT", 40)
    monkeypatch.setattr(copies, "_NUMBERS_IN_COMMIT", 50)
    expected, resumed = content(source_settings.store), 0
    with killed_at(monkeypatch, str(tmp_path / "whole.db"), -1) as commits:
        copy_to(source_settings, str(tmp_path / "whole.db"))
    assert commits[0] > 9
    for number in range(1, commits[0] + 1):
        target = str(tmp_path / f"{number}.db")
        with killed_at(monkeypatch, target, number), pytest.raises(KilledAtCommit):
            copy_to(source_settings, target)
        half = content(target)
        assert half == {bank: expected[bank] for bank in half}
        done = copy_to(source_settings, target)
        assert content(target) == expected
        resumed += any(0 < one.earlier < one.size and one.carried for one in done.banks)
    assert resumed >= 2


def _leave_partial_copy(
    source_settings: Settings, target: Path, monkeypatch: pytest.MonkeyPatch, number: int = 4
) -> str:
    """Leave a partial copy of the first bank, and return the bank's ID."""
    monkeypatch.setattr(copies, "ROWS_IN_COMMIT", 50)
    with killed_at(monkeypatch, str(target), number), pytest.raises(KilledAtCommit):
        copy_to(source_settings, str(target), banks=("assistant",))
    with closing(open_store(str(target), read_only=True)) as store, store.reading() as reader:
        (bank,) = reader.begun()
    return bank


def test_a_partially_copied_bank_is_not_listed(
    source_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening it fails with the command to run, and doctor reports it."""
    bank = _leave_partial_copy(source_settings, tmp_path / "there.db", monkeypatch)
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
        push(source_settings, there.store, ExchangeOptions(bank=bank))
    assert delete_bank(there, bank).id == bank
    with configured_store(there) as store, store.reading() as reader:
        assert reader.begun() == []
    assert witness_of(source_settings).last(bank) is not None


def test_a_copy_starts_again_if_its_source_changed(
    source_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of the older state are not mixed with the newer one; the copy reports it."""
    bank = _leave_partial_copy(source_settings, tmp_path / "there.db", monkeypatch)
    with configured_store(source_settings) as store:
        open_ledger(source_settings, store, bank, writes=True).append(memories(2, start=900))
    done = copy_to(source_settings, str(tmp_path / "there.db"))
    assert content(str(tmp_path / "there.db")) == content(source_settings.store)
    (found,) = [one for one in done.banks if one.bank == bank]
    assert found.earlier == 0
    assert "started again" in found.notes[0]


@pytest.mark.parametrize("what", ["a row", "a head", "a node", "a journal"])
def test_attack_a_partial_copy_that_was_changed_gets_no_head(
    source_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Attack: the store is edited between two runs."""
    target = tmp_path / "there.db"
    bank = _leave_partial_copy(source_settings, target, monkeypatch)
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
        copy_to(source_settings, str(target))
    with closing(open_store(str(target), read_only=True)) as store, store.reading() as reader:
        assert reader.begun() == [bank]
        assert bank not in reader.banks()


def test_two_concurrent_copies_to_one_store_do_not_mix_their_rows(
    source_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that was overtaken stops; the copy is complete all the same."""
    monkeypatch.setattr(copies, "ROWS_IN_COMMIT", 50)
    target, other = str(tmp_path / "there.db"), list[StoreCopy]()

    def meanwhile(done: int, _: int) -> None:
        if done >= 50 and not other:
            other.append(StoreCopy(source="", target="", banks=[]))  # while it is on its way
            other[0] = copy_to(source_settings, target, banks=("assistant",))

    with pytest.raises(StoreBusyError, match="another process"):
        copy_to(source_settings, target, progress=meanwhile, banks=("assistant",))
    assert content(target).items() <= content(source_settings.store).items()
    assert other[0].banks[0].earlier == 50


def test_a_copy_to_a_bank_with_another_log_is_refused_before_any_write(
    source_settings: Settings, tmp_path: Path
) -> None:
    """Records that only the target has are not overwritten, and no other bank is copied."""
    other = load_settings(store=str(tmp_path / "there.db"))
    copy_to(source_settings, other.store, banks=("assistant",))
    with configured_store(other) as store:
        bank = open_bank_in(other, store, "assistant", writes=True)
        bank.ledger.append(memories(1, start=500))
    before = content(other.store)
    with configured_store(
        source_settings
    ) as store:  # this machine has seen the other one grow: it is behind
        shutil.rmtree(source_settings.state / "banks")
        assert len(content(source_settings.store)) == 2
    with pytest.raises(TargetExistsError, match="1 records that are missing here"):
        copy_to(source_settings, other.store)
    with configured_store(source_settings) as store:
        open_bank_in(source_settings, store, "assistant", writes=True).ledger.append(
            memories(3, start=700)
        )
    with pytest.raises(TargetExistsError):
        copy_to(source_settings, other.store)
    assert content(other.store) == before


def test_copying_again_updates_a_copy(source_settings: Settings, tmp_path: Path) -> None:
    """Without changes the copy is only compared; new records of the source are appended."""
    target = str(tmp_path / "there.db")
    copy_to(source_settings, target)
    same = copy_to(source_settings, target)
    assert {(one.relation, one.carried) for one in same.banks} == {(Relation.SAME, 0)}
    assert all(sum(one.compared.values()) == one.size for one in same.banks)
    with configured_store(source_settings) as store:
        bank = open_bank_in(source_settings, store, "assistant", writes=True)
        new = memories(3, start=300)
        bank.ledger.append(new)
        bank.ledger.append([seal(Status(target=new[0].id, state="deleted", at=now()))])
        with store.writing() as writing:
            writing.vectors.put(bank.id, ONE, {new[1].id: (1, 2, 3)})
            writing.blobs.put(bank.id, [b"new"])
            writing.put_side(bank.id, {"later": b"1"})
    done = {one.name: one for one in copy_to(source_settings, target).banks}
    assert (done["assistant"].relation, done["assistant"].carried) == (Relation.AHEAD, 4)
    assert content(target) == content(source_settings.store)


def test_the_source_can_be_written_while_it_is_copied(
    source_settings: Settings, tmp_path: Path
) -> None:
    """The copy is the bank at one moment; the next copy adds later records."""
    target = str(tmp_path / "there.db")
    with configured_store(source_settings) as store:
        bank, number = (
            open_bank_in(source_settings, store, "assistant", writes=True),
            itertools.count(999),
        )

        def meanwhile(*_: int) -> None:
            bank.ledger.append(memories(1, start=next(number)))

        meanwhile()  # another program has the store open
        before = content(source_settings.store)
        copy_to(source_settings, target, banks=("assistant",), progress=meanwhile)
    assert content(target).items() <= before.items()
    (again,) = copy_to(source_settings, target, banks=("assistant",)).banks
    assert again.carried > 0
    assert content(target).items() <= content(source_settings.store).items()


def test_a_copy_does_not_change_its_source(source_settings: Settings, tmp_path: Path) -> None:
    """Not a byte of its file."""
    before = Path(source_settings.store).read_bytes()
    copy_to(source_settings, str(tmp_path / "there.db"))
    assert Path(source_settings.store).read_bytes() == before


def test_a_dry_run_reports_the_plan_and_creates_nothing(
    source_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a missing target, and for a partial one."""
    target = tmp_path / "there.db"
    found = copy_to(source_settings, str(target), dry_run=True)
    assert {one.relation for one in found.banks} == {Relation.NEW}
    assert not target.exists()
    bank = _leave_partial_copy(source_settings, target, monkeypatch)
    before = target.read_bytes()
    found = copy_to(source_settings, str(target), dry_run=True)
    assert {one.bank: one.earlier for one in found.banks}[bank] == 100
    assert target.read_bytes() == before


def test_neither_copy_is_a_rollback_for_the_witness(
    source_settings: Settings, tmp_path: Path
) -> None:
    """When one continues, the other is older, and a pull updates it."""
    there = load_settings(store=str(tmp_path / "there.db"))
    shutil.rmtree(source_settings.state / "banks")
    copy_to(source_settings, there.store)
    bank = next(one for one in content(there.store))
    own = next(
        one.bank for one in copy_to(source_settings, there.store).banks if one.trust == "own"
    )
    seen = witness_of(source_settings).last(own)
    assert seen is not None
    assert seen.signed == content(there.store)[own]["head"].signed
    assert bank in content(source_settings.store)
    for settings in (source_settings, there):
        with (
            configured_store(settings) as store,
            open_ledger(settings, store, own).reading() as view,
        ):
            assert view.standing == "own"
    with configured_store(there) as store:
        open_ledger(there, store, own, writes=True).append(memories(1, start=800))
    with (
        configured_store(source_settings) as store,
        pytest.raises(RolledBackError),
        open_ledger(source_settings, store, own).reading(),
    ):
        pass
    with pytest.raises(RolledBackError):
        copy_to(source_settings, str(tmp_path / "third.db"))
    assert not (tmp_path / "third.db").exists()
    pull(source_settings, there.store, ExchangeOptions(bank=own))
    copy_to(source_settings, str(tmp_path / "third.db"))
    assert content(str(tmp_path / "third.db"))[own] == content(source_settings.store)[own]


def test_a_copied_untrusted_bank_stays_untrusted(source_settings: Settings, tmp_path: Path) -> None:
    """It is copied, and not witnessed: that would make it trusted."""
    found = copy_to(source_settings, str(tmp_path / "there.db"), banks=("foreign",))
    (one,) = found.banks
    assert one.trust == "untrusted"
    assert witness_of(source_settings).last(one.bank) is None


def test_a_damaged_record_is_not_copied(source_settings: Settings, tmp_path: Path) -> None:
    """The bank gets no head in the other store; the other banks are not begun."""
    bank = next(
        one
        for one in content(source_settings.store)
        if len(content(source_settings.store)[one]["rows"]) > 100
    )
    with configured_store(source_settings) as store, store.writing() as writing:
        (row,) = writing.at(bank, [30])
        writing.rewrite(bank, [replace(row, body=(row.body or b"").replace(b"memory", b"nemory"))])
    target = str(tmp_path / "there.db")
    with pytest.raises(VerificationError, match="record 30"):
        copy_to(source_settings, target)
    assert bank not in content(target)


def test_a_blob_of_an_unfinished_erasure_is_not_copied(
    source_settings: Settings, tmp_path: Path
) -> None:
    """Neither are the erased bytes nor the note that the source still holds them."""
    with configured_store(source_settings) as store:
        bank = open_bank_in(source_settings, store, "assistant", writes=True)
        with store.writing() as writing:
            gone = writing.blobs.put(bank.id, [b"secret"])
        file = seal(FileVersion(path="secret.md", blob=gone))
        bank.ledger.append([file])
        bank.ledger.append([seal(Status(target=file.id, state="deleted", at=now()))])
        bank.ledger.append([seal(Erasure(entry=file.id, at=now()))])
    target = str(tmp_path / "there.db")
    copy_to(source_settings, target)
    assert gone in content(source_settings.store)[bank.id]["blobs"]
    with closing(open_store(target, read_only=True)) as store, store.reading() as reader:
        assert not reader.blobs.has(bank.id, gone)
        assert reader.side(bank.id, "erasing") == {}
    assert b"secret" not in Path(target).read_bytes()


def test_each_copied_bank_has_a_signed_receipt(source_settings: Settings, tmp_path: Path) -> None:
    """It names both stores, the root, and how many records of each type were read again."""
    done = copy_to(source_settings, str(tmp_path / "there.db"))
    assert done.banks
    for one in done.banks:
        assert one.receipt is not None
        found = find_receipt(source_settings, one.receipt)
        account = found.account
        assert account is not None
        assert (account.kind, account.read_back) == ("copy", "equal")
        assert (account.input.root, account.output.root) == (one.root, one.root)
        assert account.output.store == str(tmp_path / "there.db")
        assert {name: each.read_back for name, each in account.counts.items()} == one.compared


def test_another_bank_of_the_same_name_is_reported(
    source_settings: Settings, tmp_path: Path
) -> None:
    """Its user may then have to give the ID."""
    there = load_settings(store=str(tmp_path / "there.db"))
    create_bank(there, "assistant", signing_key(there, None)[0])
    notes = [
        one.notes for one in copy_to(source_settings, there.store).banks if one.name == "assistant"
    ]
    assert "'assistant'" in notes[0][0]


def test_invalid_copies_are_refused(source_settings: Settings, tmp_path: Path) -> None:
    """The same store, no store, an empty one, an unknown bank."""
    with pytest.raises(UsageError, match="itself"):
        copy_to(source_settings, source_settings.store)
    nothing = str(tmp_path / "nothing.db")
    with pytest.raises(UnknownBankError, match="no store"):
        copy_store(source_settings, nothing, str(tmp_path / "there.db"))
    SqliteStore(Path(nothing)).close()
    with pytest.raises(EmptyInputError):
        copy_store(source_settings, nothing, str(tmp_path / "there.db"))
    with pytest.raises(UnknownBankError):
        copy_to(source_settings, str(tmp_path / "there.db"), banks=("nobody",))
    assert not (tmp_path / "there.db").exists()


KILLS = 4
"""On each of the three ways, at most."""

_TOGETHER = 5000
_SEED = 20261122
_KINDS = ("similar_to", "knows", "supersedes", "mentions")
_ALL = Filter(retired=True, held=True)


@pytest.fixture
def ring_addresses(postgres: str, tmp_path: Path) -> Iterator[list[str]]:
    """The addresses of the stores in order: SQLite, PostgreSQL, LadybugDB, SQLite."""
    place = in_schema(postgres, f"ring_{uuid.uuid4().hex}")
    yield [str(tmp_path / "a.db"), place, f"ladybug:///{tmp_path / 'c'}", str(tmp_path / "d.db")]
    run_sql(postgres, f"DROP SCHEMA IF EXISTS {schema_of(place)} CASCADE")


def fill_graph(store: str, entries: int, edges: int) -> str:
    """Make a bank with a graph, some of it deleted; return its ID."""
    settings, draw = load_settings(store=store), random.Random(_SEED)  # noqa: S311 - no secret
    bank = create_bank(settings, "graph", signing_key(settings, None)[0]).id
    with configured_store(settings) as opened:
        ledger = open_ledger(settings, opened, bank, writes=True)
        ids = list[str]()
        for start in range(0, entries, _TOGETHER):
            drafts = [
                Semantic(
                    text=f"memory {number} of {'tea' if number % 7 else 'coffee'} and the rest",
                    scope=Scope(user=f"u{number % 50}"),
                    origin=Origin(provider="test", id=str(number)),
                )
                for number in range(start, min(start + _TOGETHER, entries))
            ]
            records = list(seal_many(drafts, nonces=seeded_nonces(start.to_bytes(32, "big"))))
            ids += [record.id for record in records]
            ledger.append(records)
        for start in range(0, edges, _TOGETHER):
            drawn = [
                Edge(source=draw.choice(ids), target=draw.choice(ids), kind=draw.choice(_KINDS))
                for _ in range(start, min(start + _TOGETHER, edges))
            ]
            seed = (start + entries).to_bytes(32, "big")
            ledger.append(list(seal_many(drawn, nonces=seeded_nonces(seed))))
        gone = ids[:: max(1, entries // 500)]
        ledger.append([seal(Status(target=one, state="deleted", at=now())) for one in gone])
    return bank


def digests(store: str, bank: str) -> tuple[object, ...]:
    """Return the head, the counts, and digests of the whole log and of current records."""
    digest, current = blake2b(), blake2b()
    with closing(open_store(store, read_only=True)) as opened, opened.reading() as reader:
        for row in reader.scan(bank, _ALL):
            digest.update(repr(row.columns()).encode())
        for row in reader.scan(bank, Filter()):
            current.update(f"{row.seq} {row.id}\n".encode())
        counts = reader.counts(bank)
        return reader.head(bank), counts, digest.hexdigest(), current.hexdigest()


_PROGRAM = """
import sys
import satchel

def tell(done, total):
    print(done, total, flush=True)

(bank,) = satchel.copy_store(sys.argv[1], sys.argv[2], progress=tell).banks
assert sum(bank.compared.values()) == bank.size
print("done")
"""


@contextmanager
def _copy_process(source: str, target: str) -> Iterator[subprocess.Popen[str]]:
    """Start a program that copies and prints its progress; it ends with the block."""
    words = [sys.executable, "-c", _PROGRAM, source, target]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _kill_copy(source: str, target: str, share: float, delay: float) -> None:
    """Kill a copy some time after a share of the work is done."""
    with _copy_process(source, target) as process, suppress(subprocess.TimeoutExpired):
        assert process.stdout is not None
        for said in process.stdout:
            done, _, total = said.strip().partition(" ")
            if total and int(done) >= share * int(total):
                break
        process.wait(delay)


def _count_copied(store: str, bank: str) -> int | None:
    """Return the number of records in a partial copy."""
    try:
        with closing(open_store(store, read_only=True)) as opened, opened.reading() as reader:
            head = reader.head(bank)
            return None if head is None else sum(reader.counts(bank).values())
    except SatchelError:  # killed while it created the store: nothing exists
        return None


@pytest.mark.parametrize(
    ("entries", "edges"),
    [
        pytest.param(10_000, 20_000, marks=pytest.mark.prove),
        pytest.param(100_000, 200_000, marks=pytest.mark.bench_full),
    ],
)
def test_a_large_store_is_copied_through_every_kind_with_killed_copies(
    ring_addresses: list[str], entries: int, edges: int
) -> None:
    """The same IDs, order, heads, columns and current records, wherever the copies were killed."""
    bank, draw = fill_graph(ring_addresses[0], entries, edges), random.Random(_SEED)  # noqa: S311 - no secret
    expected, there = digests(ring_addresses[0], bank), list[int]()
    for source, target in pairwise(ring_addresses):
        with noting(f"seed {_SEED}, {source} -> {target}, killed at {there}"):
            least = 0
            for share in sorted(draw.uniform(0, 0.9) for _ in range(KILLS)):
                _kill_copy(source, target, share, draw.uniform(0, 1))
                there.append(_count_copied(target, bank) or 0)
                assert there[-1] >= least  # committed rows are not copied again
                least = there[-1]
            with _copy_process(source, target) as process:
                out, _ = process.communicate(timeout=3600)
            assert out.endswith("done\n")
            assert digests(target, bank) == expected
    assert any(0 < one < entries + edges for one in there)
