"""The log of a bank: acknowledged records exist, and only logged records are returned."""

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import apsw
import pytest
from ledger_kit import created

from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import (
    ForkedError,
    ReadOnlyStoreError,
    RolledBackError,
    SlotTakenError,
    UnknownBankError,
    UsageError,
    VerificationError,
)
from satchel.ledger.ledger import Ledger
from satchel.ledger.witness import Witness
from satchel.ledger.witness_file import WitnessedHead
from satchel.model.records import Blob, Edge, Semantic, State, Status
from satchel.model.values import Origin, Scope
from satchel.ports.links import Direction, LoggedLink, paths, walk
from satchel.ports.rows import Filter
from satchel.ports.store import Store
from satchel.stores.ladybug import LadybugStore
from satchel.stores.memory import InMemoryStore
from satchel.stores.sqlite import SqliteStore

_OWNER, _WRITER = SigningKey.from_seed(b"o" * 32), SigningKey.from_seed(b"w" * 32)
_FOUNDING = 2


class BankFiles:
    """A store in one folder, the witness in another."""

    def __init__(self, root: Path, open_store: Callable[[Path], Store]) -> None:
        self.path = root / "store" / "satchel.db"
        self.path.parent.mkdir()
        self.witness = root / "witness"
        self._open_store = open_store
        self.store = open_store(self.path)
        created = Ledger.create(self.store, owner=_OWNER, writer=_WRITER, witness=self.new_witness)
        self.bank = created.bank

    @property
    def new_witness(self) -> Witness:
        """Return a witness as a new program opens it."""
        return Witness(self.witness)

    def ledger(self, *, writer: SigningKey | None = _WRITER, witnessed: object = True) -> Ledger:
        """Open the bank as a new program does."""
        witness = self.new_witness if witnessed else None
        return Ledger(self.store, self.bank, writer=writer, witness=witness)

    def restart(self) -> None:
        """Close the store and open it again."""
        self.store.close()
        self.store = self._open_store(self.path)

    def sql(self, sql: str, *values: Any) -> list[Any]:
        """Run SQL on the file, bypassing the store."""
        connection = apsw.Connection(str(self.path))
        try:
            return connection.execute(sql, values).fetchall()
        finally:
            connection.close()


@pytest.fixture(params=["memory", "sqlite"])
def bank_files(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BankFiles]:
    """A new bank in each store."""
    kinds: dict[str, Callable[[Path], Store]] = {
        "memory": lambda _: InMemoryStore(),
        "sqlite": SqliteStore,
    }
    bank_files = BankFiles(tmp_path, kinds[request.param])
    yield bank_files
    bank_files.store.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[BankFiles]:
    """A new bank on disk."""
    bank_files = BankFiles(tmp_path, SqliteStore)
    yield bank_files
    bank_files.store.close()


def _memories(count: int, start: int = 0) -> list[Sealed]:
    return [
        seal(
            Semantic(
                text=f"memory {number}",
                kind="note",
                scope=Scope(user="ada", agent="a", run="r", app="p"),
                created_at="2026-01-01T00:00:00.000000Z",
                expires_at="2036-01-01T00:00:00.000000Z",
                origin=Origin(provider="test", id=str(number)),
            )
        )
        for number in range(start, start + count)
    ]


def _listed(ledger: Ledger, wanted: Filter | None = None) -> list[str]:
    with ledger.reading() as view:
        return [logged.record.id for logged in view.scan(*([wanted] if wanted else []))]


def test_appended_records_are_listed_in_order_by_the_next_process(bank_files: BankFiles) -> None:
    """Sequence numbers follow the order of the log; the first two records found the bank."""
    records = _memories(300)
    assert bank_files.ledger().append(records[:299]) == list(range(_FOUNDING, _FOUNDING + 299))
    assert bank_files.ledger().append(records[299:]) == [_FOUNDING + 299]

    with bank_files.ledger(writer=None).reading() as view:
        listed = list(view.scan())
        assert [logged.record for logged in listed[_FOUNDING:]] == records
        assert [logged.seq for logged in listed] == list(range(302))
        assert view.head.counts == {"bank": 1, "config": 1, "semantic": 300}
        found = view.get([records[7].id, records[250].id, "blake3:" + "0" * 64])
    assert {key: logged.record for key, logged in found.items()} == {
        records[7].id: records[7],
        records[250].id: records[250],
    }


def test_an_update_is_a_status_and_a_new_record_in_one_append(bank_files: BankFiles) -> None:
    """The slot has the new record; an earlier position still has the old one."""
    (old,) = _memories(1)
    (new,) = _memories(1)
    ledger = bank_files.ledger()
    (first,) = ledger.append([old])
    with pytest.raises(SlotTakenError):
        ledger.append([new])
    ledger.append([seal(Status(target=old.id, state="superseded", by=new.id)), new])

    assert _listed(ledger, Filter(types=frozenset({"semantic"}))) == [new.id]
    before = Filter(types=frozenset({"semantic"}), as_of=first + 1)
    assert _listed(ledger, before) == [old.id]
    with ledger.reading() as view:
        slot = view.get([new.id])[new.id].row.slot
        assert slot is not None
        current = view.current(slot)
        assert current is not None
        assert current.record == new


@pytest.mark.parametrize(
    ("states", "shown"),
    [
        (["deleted"], False),
        (["expired"], False),
        (["rejected"], False),
        (["deleted", "restored"], True),
        (["quarantined"], False),
        (["quarantined", "released"], True),
        (["promoted"], True),
        (["deleted", "deleted", "restored"], True),
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_status_records_decide_what_is_current(
    bank_files: BankFiles, states: list[State], shown: object, together: object
) -> None:
    """Also within the append that adds the record."""
    (record,) = _memories(1)
    statuses = [seal(Status(target=record.id, state=state)) for state in states]
    ledger = bank_files.ledger()
    if together:
        ledger.append([record, *statuses])
    else:
        ledger.append([record])
        for status in statuses:
            ledger.append([status])
    assert (record.id in _listed(ledger, Filter())) is shown


def test_records_found_by_links_and_words_are_verified(disk: BankFiles) -> None:
    """Edges and words are looked up, and every result is verified."""
    one, two = _memories(2)
    edge = seal(Edge(source=one.id, target=two.id, kind="similar_to"))
    ledger = disk.ledger()
    ledger.append([one, two, edge])
    with ledger.reading() as view:
        assert [logged.record for logged in view.neighbors(one.id)] == [edge]
        assert [logged.record for logged in view.neighbors(two.id, incoming=True)] == [edge]
        assert view.candidates("memory 1")[0][0].record == two


def test_blobs_cannot_be_appended_to_the_log(bank_files: BankFiles) -> None:
    """Blobs and embeddings have no position in it."""
    blob = seal(Blob(digest="blake3:" + "0" * 64, data=""))
    with pytest.raises(UsageError):
        bank_files.ledger().append([blob])
    assert bank_files.ledger().append([]) == []


def test_concurrent_appends_of_many_threads_are_each_logged_once(bank_files: BankFiles) -> None:
    """Waiting appends share a commit; a refused one does not affect the others."""
    ledger = bank_files.ledger()
    outcomes: dict[int, object] = {}
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        for turn in range(10):
            # The last of each thread speaks of the same thing: only one of them can be taken.
            records = _memories(1, start=999 if turn == 9 else number * 100 + turn)
            try:
                outcomes[number * 100 + turn] = ledger.append(records)
            except SlotTakenError as error:
                outcomes[number * 100 + turn] = error

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = [key for key, outcome in outcomes.items() if isinstance(outcome, SlotTakenError)]
    places = [places for places in outcomes.values() if isinstance(places, list)]
    assert len(refused) == 7
    assert sorted(chain.from_iterable(places)) == list(range(_FOUNDING, _FOUNDING + 73))
    assert len(_listed(bank_files.ledger(writer=None))) == _FOUNDING + 73


_OTHER_PROCESS = """
import sys
from pathlib import Path
from satchel.ledger.ledger import Ledger
from satchel.ledger.witness import Witness
from satchel.ledger.witness_file import WitnessedHead as Witnessed
from satchel.model.records import Semantic
from satchel.crypto.sealed_records import seal
from satchel.crypto.keys import SigningKey
from satchel.stores.sqlite import SqliteStore
path, witness, bank = sys.argv[1:]
writer = SigningKey.from_seed(b"w" * 32)
ledger = Ledger(SqliteStore(Path(path)), bank, writer=writer, witness=Witness(Path(witness)))
for turn in range(25):
    print(ledger.append([seal(Semantic(text="from elsewhere"))])[0])
"""


def test_two_processes_write_one_log(disk: BankFiles) -> None:
    """Each sees the other's head, and no sequence number is used twice."""
    command: list[str | Path] = [
        sys.executable,
        "-c",
        _OTHER_PROCESS,
        disk.path,
        disk.witness,
        disk.bank,
    ]
    others = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    ledger = disk.ledger()
    places = [ledger.append(_memories(1, start=turn))[0] for turn in range(25)]
    for other in others:
        printed, _ = other.communicate()
        assert other.returncode == 0
        places += map(int, printed.split())
    assert sorted(places) == list(range(_FOUNDING, _FOUNDING + 75))
    assert len(_listed(ledger)) == _FOUNDING + 75


_TEXT = "UPDATE record SET body = CAST(replace(body, 'memory', 'MEMORY') AS BLOB)"


def _head(old: str, new: str) -> str:
    return f"UPDATE bank SET head = CAST(replace(head, '{old}', '{new}') AS BLOB)"  # noqa: S608


_EDITS = {
    "the text of a record": _TEXT,
    "the owner of a record": "UPDATE record SET user = 'mallory' WHERE user IS NOT NULL",
    "its agent": "UPDATE record SET agent = NULL",
    "its run": "UPDATE record SET run = 'q'",
    "its app": "UPDATE record SET app = 'q'",
    "its kind": "UPDATE record SET kind = 'order' WHERE kind IS NOT NULL",
    "its moment": "UPDATE record SET moment = '2030-01-01T00:00:00.000000Z'",
    "its expiry": "UPDATE record SET expires_at = NULL",
    "its slot": "UPDATE record SET slot = NULL",
    "its arrival": "UPDATE record SET at = '2020-01-01T00:00:00.000000Z'",
    "its type": "UPDATE record SET type = 'working' WHERE type = 'semantic'",
    "its id": "UPDATE record SET id = zeroblob(32) WHERE place % 1024 = 5",
    "its position": "UPDATE record SET place = place + 100 WHERE place % 1024 = 5",
    "a record removed": "DELETE FROM record WHERE place % 1024 = 5",
    "the newest record removed": "DELETE FROM record WHERE place % 1024 = 11",
    "the bodies removed": "UPDATE record SET body = NULL WHERE place % 1024 = 0",
    "a node of the tree": "UPDATE node SET hash = zeroblob(32) WHERE place % 1024 = 17",
    "all nodes": "DELETE FROM node",
    "the head's size": _head('"size":12', '"size":11'),
    "the head's counts": _head('"semantic":10', '"semantic":11'),
    "the head's time": _head('"at":"2', '"at":"1'),
    "the head's epoch": _head('"epoch":0', '"epoch":1'),
    "the peaks": "UPDATE bank SET peaks = zeroblob(64)",
    "too few peaks": "UPDATE bank SET peaks = substr(peaks, 1, 32)",
    "half a peak more": "UPDATE bank SET peaks = CAST(peaks || zeroblob(16) AS BLOB)",
    "the head emptied": "UPDATE bank SET head = x''",
    "the bank renamed": "UPDATE bank SET id = 'blake3:' || hex(zeroblob(32))",
    "the bank removed": "DELETE FROM bank",
}


@pytest.mark.parametrize("edit", _EDITS)
@pytest.mark.parametrize("while_open", [True, False])
def test_a_listing_refuses_an_edited_store(disk: BankFiles, edit: str, while_open: object) -> None:
    """In a new program and in a running one."""
    ledger = disk.ledger()
    ledger.append(_memories(10))
    listed = _listed(ledger)
    changed = disk.sql(_EDITS[edit] + " RETURNING 1")
    assert changed
    if not while_open:
        disk.restart()
        ledger = disk.ledger()
    try:
        again = _listed(ledger)
    except VerificationError:
        return
    # Only nodes: what was proved before is still known, and a listing gives all leaves itself.
    assert again == listed
    assert while_open or edit == "a node of the tree"
    assert "node" in edit


@pytest.mark.parametrize("edit", ["its id", "the text of a record", "a node of the tree"])
def test_reading_one_record_refuses_an_edited_store(disk: BankFiles, edit: str) -> None:
    """Not only listings do."""
    ledger = disk.ledger()
    records = _memories(10)
    ledger.append(records)
    disk.sql("UPDATE node SET hash = zeroblob(32)" if "node" in edit else _EDITS[edit])
    ledger = disk.ledger()

    def ask() -> object:
        with ledger.reading() as view:
            return view.get([record.id for record in records]).keys()

    try:
        found = ask()
    except VerificationError:
        return
    assert edit == "its id"  # then it is not nominated any more, which a listing notices
    assert len(list(found)) == 9  # type: ignore[call-overload]


def test_a_row_that_an_index_lists_wrongly_is_not_returned(disk: BankFiles) -> None:
    """Filters are evaluated again on the bytes."""
    ledger = disk.ledger()
    ledger.append(_memories(3))
    disk.sql("UPDATE record SET user = 'mallory' WHERE user IS NOT NULL")
    with pytest.raises(VerificationError):
        _listed(disk.ledger(), Filter(user="mallory"))


def test_an_older_copy_of_the_store_is_refused_by_a_machine_with_a_witness(
    disk: BankFiles, tmp_path: Path
) -> None:
    """For reads and appends; without a witness it opens."""
    ledger = disk.ledger()
    ledger.append(_memories(3))
    disk.store.close()
    shutil.copytree(disk.path.parent, tmp_path / "copy")
    disk.restart()
    disk.ledger().append(_memories(3, start=3))
    disk.store.close()
    shutil.rmtree(disk.path.parent)
    shutil.copytree(tmp_path / "copy", disk.path.parent)
    disk.restart()

    with pytest.raises(RolledBackError, match="8"):
        _listed(disk.ledger())
    with pytest.raises(RolledBackError):
        disk.ledger().append(_memories(1, start=9))
    assert len(_listed(disk.ledger(witnessed=False))) == _FOUNDING + 3


def test_another_history_of_the_same_length_is_a_fork(disk: BankFiles, tmp_path: Path) -> None:
    """Also a longer one, written by the same key."""
    disk.store.close()
    shutil.copytree(disk.path.parent, tmp_path / "copy")
    disk.restart()
    disk.ledger().append(_memories(3))
    disk.store.close()
    shutil.rmtree(disk.path.parent)
    shutil.copytree(tmp_path / "copy", disk.path.parent)
    disk.restart()
    for extra in (3, 5):
        disk.ledger(witnessed=False).append(_memories(extra, start=10 * extra))
        with pytest.raises(ForkedError):
            _listed(disk.ledger())


def test_a_missing_bank_that_was_witnessed_is_a_rollback(disk: BankFiles) -> None:
    """An empty store in its place is not a fresh start."""
    disk.store.close()
    shutil.rmtree(disk.path.parent)
    disk.path.parent.mkdir()
    disk.restart()
    with pytest.raises(RolledBackError, match="gone"):
        _listed(disk.ledger())
    with pytest.raises(UnknownBankError):
        _listed(disk.ledger(witnessed=False))


def test_only_keys_admitted_by_an_owner_can_append(bank_files: BankFiles) -> None:
    """Neither an unknown key nor no key; an owner's key can."""
    unknown = SigningKey.generate()
    for key in (unknown, None):
        with pytest.raises(ReadOnlyStoreError):
            bank_files.ledger(writer=key).append(_memories(1))
    assert bank_files.ledger(writer=_OWNER).append(_memories(1)) == [_FOUNDING]


def test_a_head_by_a_key_that_nobody_admitted_is_refused(
    bank_files: BankFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: somebody with the files extends the log with another key."""
    from satchel.ledger.authority import Authority

    with monkeypatch.context() as patch:
        patch.setattr(Authority, "admits", lambda *_: True)  # the attacker's program
        bank_files.ledger(writer=SigningKey.generate(), witnessed=False).append(_memories(1))
    with pytest.raises(VerificationError, match="no owner admitted"):
        _listed(bank_files.ledger())


def test_an_admission_applies_only_to_its_own_bank() -> None:
    """Attack: an admission is copied to another bank of the same owner."""
    from satchel.ledger.authority import admission_record, apply_configs, founding_authority

    store = InMemoryStore()
    guest = SigningKey.generate()
    banks = [Ledger.create(store, owner=_OWNER, writer=_WRITER).bank for _ in range(2)]
    admitted = admission_record(banks[0], guest.did, _OWNER, "2026-01-01T00:00:00.000000Z")
    by_guest = admission_record(banks[1], guest.did, guest, "2026-01-01T00:00:00.000000Z")
    with store.reading() as reader:
        firsts = [reader.at(bank, [0])[0].body or b"" for bank in banks]
    for bank, first, expected in zip(banks, firsts, [True, False], strict=True):
        record = Sealed(bank, "bank", first)
        configs = [(2, admitted), (3, by_guest)]
        authority = apply_configs(founding_authority(record), bank, configs, lambda _: "")
        assert authority.admits(guest.did) is expected


def test_a_commit_that_was_not_witnessed_is_not_a_rollback(disk: BankFiles) -> None:
    """A crash after the commit leaves the witness behind, never ahead."""

    class _Crash(Exception):  # noqa: N818 - no error of anybody's
        pass

    class _Cut(Witness):
        def record_verified(self, new: WitnessedHead, **_: Any) -> Any:
            raise _Crash(new.head.size)

    cut = Ledger(disk.store, disk.bank, writer=_WRITER, witness=_Cut(disk.witness))
    with pytest.raises(_Crash):
        cut.append(_memories(2))
    assert len(_listed(disk.ledger())) == _FOUNDING + 2
    assert disk.ledger().append(_memories(1, start=5)) == [_FOUNDING + 2]


@pytest.mark.parametrize("kind", [SqliteStore, LadybugStore])
def test_a_walk_follows_parents_and_edges(
    tmp_path: Path, kind: type[SqliteStore | LadybugStore]
) -> None:
    """Also backwards, along the shortest path."""
    store = kind(tmp_path / "store")
    ledger = created(store)
    one = seal(Semantic(text="one"))
    two = seal(Semantic(text="two", parent_ids=(one.id,)))
    edge = seal(Edge(source=two.id, target="a place", kind="about"))
    ledger.append([one, two, edge])
    with ledger.reading() as view:

        def links(names: Sequence[str], incoming: bool, limit: int) -> list[LoggedLink]:  # noqa: FBT001
            return view.links(names, incoming=incoming, limit=limit)

        found = walk(links, one.id, hops=2, budget=9, direction=Direction.IN)
        assert [(name, hops) for name, hops, _ in found.reached] == [(two.id, 1)]
        ways = paths(links, "a place", one.id, hops=3, budget=9)
        assert [[linked.link.kind for linked in way] for way in ways.found] == [
            ["about", "derives_from"]
        ]
    store.close()


def test_a_link_without_a_record_is_refused(tmp_path: Path) -> None:
    """Also a changed index row of a record with another link."""
    store = SqliteStore(tmp_path / "store")
    ledger = created(store)
    edge = seal(Edge(source="a", target="b", kind="knows"))
    (place,) = ledger.append([edge])
    with ledger.reading() as view:
        ask = partial(view.links, ["a"], incoming=False, limit=9)
        assert [linked.place for linked in ask()] == [place]
    connection = apsw.Connection(str(tmp_path / "store"))
    connection.execute("UPDATE link SET target = 'c'")
    connection.close()
    with ledger.reading() as view, pytest.raises(VerificationError, match="does not have"):
        view.links(["a"], incoming=False, limit=9)
    store.close()
