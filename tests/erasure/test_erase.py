"""Erasure: selection, cascade, search for remnants, and the signed report."""

import asyncio
import contextlib
import gzip
import io
import json
import multiprocessing
import os
import random
import resource
import signal
import uuid
import zipfile
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from bank_kit import filled, keep, texts
from postgres_kit import run_sql

from satchel import Satchel, aio
from satchel.backup.inventory import list_backups
from satchel.backup.options import BackupOptions
from satchel.backup.prune import prune_backups
from satchel.backup.restore import restore_backup
from satchel.backup.run import run_backup
from satchel.bank.changes import MemoryEdit, forget, remember, update
from satchel.bank.connections import open_ledger
from satchel.bank.machine_keys import create_identity, lock_for
from satchel.bank.open_bank import OpenBank, open_bank
from satchel.config.settings import load_settings
from satchel.crypto.canonical import Limits
from satchel.crypto.encryption import Lock, Unlocker, encrypt, new_identity
from satchel.crypto.sealed_records import seal, seal_many
from satchel.erasure import selection
from satchel.erasure.erase import ErasureResult, erase
from satchel.erasure.fragments import NestedFileScanner
from satchel.erasure.selection import EraseOptions, conditions_of
from satchel.errors import TargetExistsError, UnknownMemoryError, UsageError
from satchel.files.bank_files import opened_files
from satchel.ledger.examination import examine
from satchel.ledger.transaction import closing_receipt as closing_of
from satchel.ledger.transaction import is_unfinished
from satchel.model.records import Edge, FileVersion, Semantic, SessionEvent, Source
from satchel.model.values import Evidence, Origin, Scope, now
from satchel.ports.rows import Filter
from satchel.ports.store import Extent, InspectableStore, Store
from satchel.receipts.archive import find_receipts
from satchel.stores.postgres import PostgresStore
from satchel.stores.sqlite import SqliteStore

pytestmark = pytest.mark.usefixtures("private_umask")

_NAME, _BIRTH = uuid.uuid4().hex, uuid.uuid4().hex
ABOUT_ADA = f'Ada {_NAME}, born "{_BIRTH}"'
"""Unique in each fragment: the log of a PostgreSQL server has the records of all its databases."""
_ERASURES = Filter(types=frozenset({"erasure"}))


def erase_where(
    bank: OpenBank, *where: str, ids: tuple[str, ...] = (), **options: object
) -> ErasureResult:
    """Erase what the conditions select."""
    wanted = EraseOptions(ids=ids, where=conditions_of(where), **options)  # type: ignore[arg-type]
    return erase.run(bank, wanted)


def extents_with(store: Store, text: str) -> list[str]:
    """Return the names of the extents whose raw bytes contain a text in any encoding."""
    assert isinstance(store, InspectableStore)
    forms = [text.encode(), json.dumps(text)[1:-1].encode(), text.encode("utf-16-le")]
    return [
        extent.name
        for extent in store.laid_open()
        if any(form in b"".join(extent.pieces()) for form in forms)
    ]


# -- selection ------------------------------------------------------------------------------------


@pytest.mark.in_check(2)
@pytest.mark.usefixtures("any_store")
def test_erase_leaves_no_bytes_of_a_person_in_any_store() -> None:
    """All versions of every type; other people's memories stay, and the log stays valid."""
    with filled() as bank:
        other = keep(bank, "Bob drinks nothing but lukewarm tea", scope={"user": "bob"})
        mine = keep(bank, ABOUT_ADA, scope={"user": "ada"})
        newer = update(bank, mine, MemoryEdit(members={"text": f"{ABOUT_ADA}, twice"})).id
        forgotten = keep(bank, f"{ABOUT_ADA}, forgotten", scope={"user": "ada"})
        forget(bank, [forgotten])
        edge = seal(Edge(source=newer, target=other, kind="knows", properties={"how": ABOUT_ADA}))
        bank.ledger.append([edge])
        assert extents_with(bank.store, ABOUT_ADA)

        done = erase_where(bank, "user=ada", reason="asked for")
        assert (done.chosen, done.erased) == (3, 4)
        assert done.with_them == {"joins": 1}
        assert done.types == {"edge": 1, "semantic": 3}
        assert done.found == 0
        assert done.exit_status == 0
        assert done.scanned
        assert extents_with(bank.store, ABOUT_ADA) == []
        assert texts(bank, everything=True) == ["Bob drinks nothing but lukewarm tea"]
        assert examine(bank.store, bank.id).is_sound
        with bank.ledger.reading() as view:
            assert len(list(view.scan(_ERASURES))) == 4
            assert all(place is not None for place in view.places([mine, newer, edge.id]).values())
        again = erase_where(bank, "user=ada")
        assert (again.erased, again.exit_status) == (0, 0)


def test_derived_memories_are_reported_or_erased_with_cascade(bank: OpenBank) -> None:
    """Children and grandchildren, in any log order; a conversation includes its turns."""
    root = keep(bank, "the root of it all", scope={"user": "ada"})
    child = keep(bank, "a child of the root", parents=[root])
    keep(bank, "a grandchild of the root", parents=[child])
    keep(bank, "nothing to do with it")
    session = seal(SessionEvent(event="session", name="talk"))
    turns = [seal(SessionEvent(event="message", session=session.id, text=f"t{n}")) for n in (1, 2)]
    drawn = seal(Semantic(text="drawn from a turn", sources=(Evidence(kind="m", id=turns[0].id),)))
    bank.ledger.append([drawn, *turns, session])

    plan = erase_where(bank, "user=ada", dry_run=True)
    assert (plan.erased, plan.derived_left, plan.derived_examples) == (1, 1, [child])
    deep = erase_where(bank, "user=ada", dry_run=True, cascade=True)
    assert (deep.erased, deep.derived_left, deep.with_them) == (3, 0, {"derived": 2})
    assert len(texts(bank)) == 5
    assert erase_where(bank, "user=ada", cascade=True).erased == 3
    assert erase_where(bank, ids=(session.id,), cascade=True).types == {
        "semantic": 1,
        "session_event": 3,
    }
    assert texts(bank) == ["nothing to do with it"]


def test_descendants_of_an_erased_memory_can_still_be_erased(bank: OpenBank) -> None:
    """By the id of the erased parent, with cascade."""
    root = keep(bank, "the root of it all")
    keep(bank, "a child of the root", parents=[root])
    assert erase_where(bank, ids=(root,)).derived_left == 1
    done = erase_where(bank, ids=(root[:20],), cascade=True)
    assert (done.chosen, done.with_them, done.erased) == (0, {"derived": 1}, 1)
    assert texts(bank) == []


def test_all_conditions_must_match_and_any_value_of_each(bank: OpenBank) -> None:
    """Tags, kinds, keys, owners, origins, types and imports."""
    source = seal(Source(provider="mem0", format="mem0"))
    bank.ledger.append([source])
    record = seal(
        Semantic(
            text="brought along",
            kind="note",
            tags=("a", "b"),
            scope=Scope(user="ada", agent="x", run="r", app="p"),
            origin=Origin(provider="mem0", source="acc", id="7"),
        )
    )
    bank.ledger.append([record], batch=source.id)
    waiting = erase_where(bank, "user=ada", dry_run=True)
    assert (waiting.erased, waiting.arriving) == (0, 1)
    bank.ledger.append([closing_of(source.id, now())])
    keep(bank, "another", key="k", tags=["a"], type="procedural", scope={"user": "ada"})
    for condition, number in {
        "user=ada": 2,
        "tag=a": 2,
        "tag=b": 1,
        "kind=note": 1,
        "agent=x": 1,
        "run=r": 1,
        "app=p": 1,
        "provider=mem0": 1,
        "account=acc": 1,
        "origin=7": 1,
        "key=k": 1,
        "type=procedural": 1,
        f"import={source.id[:20]}": 1,
        "import=blake3:00": 0,
        "user=bob": 0,
    }.items():
        assert erase_where(bank, condition, dry_run=True).erased == number, condition
    assert erase_where(bank, "user=ada", "tag=b", dry_run=True).erased == 1
    assert erase_where(bank, "tag=b", "key=k", dry_run=True).erased == 0
    assert erase_where(bank, "key=k", "key=7", dry_run=True).erased == 1


def test_an_invalid_erase_request_is_refused_and_writes_nothing(
    bank: OpenBank, tmp_path: Path
) -> None:
    """No condition, a wrong one, an unknown or ambiguous id, or a record that the log needs."""
    keep(bank, "stays")
    with bank.ledger.reading() as view:
        size, status = view.head.size, next(iter(view.scan())).record.id
    for bad in ("user", "user=", "=ada", "color=red", "text=x", "type=status"):
        with pytest.raises(UsageError):
            erase_where(bank, bad)
    for ids in ((), ("xyz",), (status,)):
        with pytest.raises(UsageError):
            erase_where(bank, ids=ids)
    with pytest.raises(UnknownMemoryError):
        erase_where(bank, ids=("blake3:" + "0" * 64,))
    taken = tmp_path / "there.json"
    taken.write_text("mine")
    with pytest.raises(TargetExistsError):
        erase_where(bank, "user=ada", receipt=taken)
    with bank.ledger.reading() as view:
        assert view.head.size == size


# -- search and report ----------------------------------------------------------------------------


def test_the_signed_report_lists_searched_files_without_content(
    bank: OpenBank, tmp_path: Path
) -> None:
    """It verifies, lists each file with its size and what is unreachable, and no erased word."""
    keep(bank, ABOUT_ADA, scope={"user": "ada"})
    copy = tmp_path / "report.json"
    done = erase_where(bank, "user=ada", receipt=copy)
    (report,) = find_receipts(load_settings(), str(copy))
    assert report.outcome == "good"
    assert report.account is not None
    assert report.account.kind == "erase"
    assert report.account.done["erased"] == 1
    assert report.account.counts["semantic"].read_back == 1
    assert report.account.scanned[0].name == bank.store.name
    assert any("backups" in name for name in report.account.unreached)
    assert _NAME.encode() not in copy.read_bytes()
    assert _BIRTH.encode() not in copy.read_bytes()
    assert done.receipt == report.id


def test_the_same_text_in_other_memories_is_reported_but_is_not_a_remnant(bank: OpenBank) -> None:
    """In this bank or another one of the store."""
    keep(bank, ABOUT_ADA, scope={"user": "ada"})
    copied = keep(bank, f"He wrote: {ABOUT_ADA}", scope={"user": "bob"})
    with filled() as _:
        pass
    done = erase_where(bank, "user=ada")
    assert (done.still_said, done.found) == (1, 0)
    assert done.still_said_examples == [f"{bank.id} {copied}"]


def test_remnants_in_other_files_are_found_and_reported(bank: OpenBank) -> None:
    """A copy of an older store next to it, or a copied log in another encoding."""
    keep(bank, ABOUT_ADA, scope={"user": "ada"})
    store = Path(bank.store.name)
    store.with_name(f"{store.name}.2026.bak").write_bytes(b"x" * 5000 + ABOUT_ADA.encode() + b"y")
    wide = load_settings().home / "notes" / "wide.txt"
    wide.parent.mkdir()
    wide.write_bytes(b"\0" * 777 + ABOUT_ADA.encode("utf-16-le"))
    escaped = wide.with_name("escaped.json")
    escaped.write_text(json.dumps({"text": ABOUT_ADA}))
    done = erase_where(bank, "user=ada")
    found = {Path(one.name).name for one in done.scanned if one.found}
    assert found == {f"{store.name}.2026.bak", "wide.txt", "escaped.json"}
    assert done.exit_status == 1


@pytest.mark.parametrize("any_store", ["postgresql"], indirect=True)
@pytest.mark.usefixtures("any_store")
def test_the_same_text_of_another_client_in_the_servers_log_is_reported(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All databases of a PostgreSQL server share one log."""
    scrub = PostgresStore.scrub

    def scrub_while_another_writes(store: PostgresStore) -> None:
        scrub(store)
        run_sql(postgres, f"SELECT pg_logical_emit_message(true, 'test', '{ABOUT_ADA}')")

    with filled() as bank:
        keep(bank, ABOUT_ADA, scope={"user": "ada"})
        monkeypatch.setattr(PostgresStore, "scrub", scrub_while_another_writes)
        done = erase_where(bank, "user=ada")

    assert done.exit_status == 1
    assert {one.name.split("/")[0] for one in done.scanned if one.found} == {"pg_wal"}


def test_exported_copies_are_reported_as_unreachable(bank: OpenBank, tmp_path: Path) -> None:
    """The files that export receipts of this bank name."""
    from satchel.transfer.export_records import ExportOptions
    from satchel.transfer.exports import export

    keep(bank, ABOUT_ADA, scope={"user": "ada"})
    export(bank, tmp_path / "left.pam.jsonl", ExportOptions())
    done = erase_where(bank, "user=ada")
    assert any("left.pam.jsonl" in name for name in done.unreached)


def test_memory_files_are_erased_with_their_versions_in_the_log(bank: OpenBank) -> None:
    """The file, its versions, and their records in the bank; other files stay."""
    settings, name = load_settings(), bank.name
    with opened_files(settings, name, create=True) as files:
        files.change_policy(keep_versions=True)
        files.write_text("people/ada.md", ABOUT_ADA)
        files.write_text("people/ada.md", f"{ABOUT_ADA} (2)")
        files.write_text("people/bob.md", "Bob drinks nothing but lukewarm tea")
    done = erase_where(bank, "path=people/ada.md")
    assert done.types == {"file_version": 2}
    assert done.held == {"memory files": 2}
    assert [one.name for one in done.scanned if one.found] == []
    with opened_files(settings, name) as files:
        assert files.list_paths() == ["people/bob.md"]
        root = files.root
    assert not [p for p in root.rglob("*") if p.is_file() and _NAME.encode() in p.read_bytes()]
    with bank.ledger.reading() as view:
        left = [one.model for one in view.newest(Filter(types=frozenset({"file_version"})))]
    assert {one.path: one.text for one in left if isinstance(one, FileVersion)} == {
        "people/ada.md": None,  # that it is gone is told as well
        "people/bob.md": "Bob drinks nothing but lukewarm tea",
    }


def test_an_open_reader_leaves_the_erasure_unfinished(bank: OpenBank) -> None:
    """The report states what is left; a second run completes it."""
    keep(bank, ABOUT_ADA, scope={"user": "ada"})
    path = Path(bank.store.name)
    impatient = SqliteStore(path, busy_ms=50)
    ledger = open_ledger(bank.settings, impatient, bank.id, writes=True)
    with SqliteStore(path).reading() as reader:
        assert reader.head(bank.id)
        done = erase_where(replace(bank, store=impatient, ledger=ledger), "user=ada")
    assert not done.finished
    assert done.found
    assert done.exit_status == 1
    again = erase_where(bank, "user=ada")
    assert again.finished
    assert any("interrupted" in note for note in again.notes)
    assert extents_with(bank.store, ABOUT_ADA) == []


def test_a_file_version_without_a_file_is_erased_from_the_log(bank: OpenBank) -> None:
    """The record was imported; this machine has no such file."""
    bank.ledger.append([seal(FileVersion(path="a.md", text=ABOUT_ADA, action="created"))])
    done = erase_where(bank, "path=a.md")
    assert (done.erased, done.held, done.found) == (1, {}, 0)


def test_text_too_short_to_search_for_is_counted(bank: OpenBank) -> None:
    """A text that is not searched for is not reported as removed."""
    remember(bank, {"text": "tea", "scope": {"user": "ada"}})
    done = erase_where(bank, "user=ada")
    assert done.too_short >= 2
    assert done.looked_for == 0


def test_python_and_async_erase_match_the_command() -> None:
    """With ``Satchel`` and with ``satchel.aio``."""
    with filled() as bank:
        keep(bank, ABOUT_ADA, scope={"user": "ada"})
        keep(bank, "by its id alone")
    with Satchel.open() as there:
        own = there.bank()
        assert own.erase(where={"user": ["ada", "eve"]}, dry_run=True).erased == 1
        assert own.erase(where={"user": "ada"}).found == 0
        with pytest.raises(UsageError):
            own.erase()

    async def awaited() -> int:
        async with aio.open() as there:
            own = await there.bank()
            (left,) = await own.list()
            return (await own.erase(left.id)).erased

    assert asyncio.run(awaited()) == 1


@pytest.mark.parametrize("values", [[], True, 7, None, {}, ["ada", 7], ""])
def test_attack_a_condition_without_a_text_is_refused_and_not_ignored(values: object) -> None:
    """Without the condition, the erasure would select more than requested."""
    with filled() as bank:
        keep(bank, ABOUT_ADA, scope={"user": "ada"}, tags=["tea"])
    with Satchel.open() as store, pytest.raises(UsageError, match="condition") as refused:
        store.bank().erase(where={"tag": ["tea"], "user": values}, dry_run=True)  # type: ignore[dict-item]

    assert refused.value.field == "where"


PEOPLE = 50
SAID = "confides number {} to the lamplighter of Marylebone"


def fill_bank(bank: OpenBank, number: int) -> int:
    """Log memories of fifty people; every third memory of Ada is derived from the one before it."""
    hers, last = 0, None
    for start in range(0, number, 1_000):
        drafts = list[Semantic]()
        for at in range(start, min(start + 1_000, number)):
            user = "ada" if at % PEOPLE == 0 else f"u{at % PEOPLE}"
            text = f"{user} {SAID.format(at)}" if user == "ada" else f"memory {at} of {user}"
            drafts.append(Semantic(text=text, scope=Scope(user=user), tags=(f"t{at % 7}",)))
            hers += user == "ada"
        if last is not None:
            drafts.append(
                Semantic(text=f"drawn from ada: {SAID.format(start)}", parent_ids=(last,))
            )
        records = list(seal_many(drafts))
        bank.ledger.append(records)
        last = records[0].id
    return hers


def store_files_with_her_words(path: Path) -> list[str]:
    """Return the files of a store that contain Ada's words."""
    word = b"lamplighter of Marylebone"
    beside = path.parent.glob(f"{path.name}*")
    return [one.name for one in beside if word in one.read_bytes()]


def _erase_in_child(dying: object = None) -> None:
    del dying
    with open_bank(load_settings(), writes=True) as bank:
        erase.run(bank, EraseOptions(where={"user": ["ada"]}, cascade=True))


def test_an_interrupted_erasure_is_completed_by_the_next_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Descendants are erased first, so the remaining ones are still connected."""
    monkeypatch.setattr(selection, "_TOGETHER", 2)
    with filled() as bank:
        last = keep(bank, f"ada {SAID.format(0)}", scope={"user": "ada"})
        for at in range(1, 9):
            last = keep(bank, f"drawn: {SAID.format(at)}", parents=[last])
        wanted = EraseOptions(where={"user": ["ada"]}, cascade=True)
        left, append = 9, bank.ledger.append
        for allowed in (1, 2):
            calls = iter(range(allowed))

            def dying(*args: object, calls: object = calls, **more: object) -> object:
                if next(calls, None) is None:  # type: ignore[call-overload]
                    raise KeyboardInterrupt
                return append(*args, **more)  # type: ignore[arg-type]

            monkeypatch.setattr(bank.ledger, "append", dying)
            with pytest.raises(KeyboardInterrupt):
                erase.run(bank, wanted)
            monkeypatch.setattr(bank.ledger, "append", append)
            left -= 2 * allowed
            plan = erase.run(bank, EraseOptions(where=wanted.where, cascade=True, dry_run=True))
            assert plan.erased == left
            assert is_unfinished(bank.store, bank.id)
        done = erase.run(bank, wanted)
        assert (done.erased, done.found) == (left, 0)
        assert any("interrupted" in note for note in done.notes)
        assert store_files_with_her_words(Path(bank.store.name)) == []


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_an_erasure_killed_at_any_moment_is_completed_by_the_next_run() -> None:
    """Killed twelve times: the bank stays valid, other memories stay, the bytes are removed."""
    chance, settings = random.Random(11), load_settings()  # noqa: S311 - the same in every run
    context = multiprocessing.get_context("spawn")
    with filled() as bank:
        fill_bank(bank, 6_000)
        others = _current_users(bank) - {"ada"}
        path = Path(bank.store.name)
    for _ in range(12):
        child = context.Process(target=_erase_in_child)
        child.start()
        child.join(0.6 + 1.5 * chance.random())
        if child.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid or 0, signal.SIGKILL)
        child.join()
        with open_bank(settings) as bank:
            assert examine(bank.store, bank.id).is_sound
    with open_bank(settings, writes=True) as bank:
        erase.run(bank, EraseOptions(where={"user": ["ada"]}, cascade=True))
        assert not is_unfinished(bank.store, bank.id)
        assert _current_users(bank) == others
    assert store_files_with_her_words(path) == []


def _current_users(bank: OpenBank) -> set[str | None]:
    with bank.ledger.reading() as view:
        rows = view.scan(Filter(types=frozenset({"semantic"})))
        return {one.row.user for one in rows if one.row.user is not None}


def log_session(bank: OpenBank) -> int:
    """Log a session of Ada, and return its number of records."""
    ada = Scope(user="ada")
    session = seal(SessionEvent(event="session", name="confession", scope=ada))
    said = [SessionEvent(event="message", text=SAID.format(n), scope=ada) for n in range(3)]
    turns = [seal(msgspec.structs.replace(one, session=session.id)) for one in said]
    bank.ledger.append([session, *turns])
    return 1 + len(turns)


def home_files_with_her_words() -> list[str]:
    """Return the files of this home, backups included, that contain Ada's words."""
    files = (one for one in load_settings().home.rglob("*") if one.is_file())
    return [one.name for one in files if b"lamplighter of Marylebone" in one.read_bytes()]


@pytest.mark.parametrize("number", [100, pytest.param(20_000, marks=pytest.mark.prove)])
def test_every_copy_of_a_persons_words_is_erased(number: int, tmp_path: Path) -> None:
    """Memories, a session, a memory file with its versions; then the backups that contain it."""
    settings, backups = load_settings(), str(load_settings().home / "backups")
    options = BackupOptions(destinations=(backups,))
    with filled() as bank:
        hers = fill_bank(bank, number) + log_session(bank)
        with opened_files(settings, bank.name, create=True) as files:
            files.change_policy(keep_versions=True)
            for version in range(2):
                files.write_text("people/ada.md", SAID.format(version))
        run_backup.run(settings, options)
        assert home_files_with_her_words()
        done = erase.run(bank, EraseOptions(where={"user": ["ada"]}, cascade=True))
        assert done.erased == hers + max(0, number // 1_000 - 1)
        file = erase.run(bank, EraseOptions(where={"path": ["people/ada.md"]}))
        # The destination of the backup is not configured, but this machine used it, so it gets the
        # list of erased records as well.
        assert (file.held, file.found, done.found) == ({"memory files": 2, "backups": 2}, 0, 0)
    run_backup.run(settings, options)
    assert [
        one.holds_erased > 0 for one in list_backups(settings, destinations=backups).backups
    ] == [
        True,
        False,
    ]
    prune_backups(settings, destinations=backups, days=0, remove_erased=True)
    assert [one.holds_erased for one in list_backups(settings, destinations=backups).backups] == [0]
    assert home_files_with_her_words() == []
    back = tmp_path / "back" / "store.db"
    back.parent.mkdir()
    restore_backup(settings, destination=backups, into=str(back), files=False)
    assert store_files_with_her_words(back) == []


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_one_person_is_erased_from_a_bank_of_a_hundred_thousand_memories() -> None:
    """With all derived memories: no byte is left, memory is bounded, the log is valid."""
    with filled() as bank:
        hers = fill_bank(bank, 100_000) + log_session(bank)
        path = Path(bank.store.name)
        assert store_files_with_her_words(path)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        done = erase.run(bank, EraseOptions(where={"user": ["ada"]}, cascade=True))
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert done.erased == hers + 99
        assert done.found == 0
        assert done.finished
        assert done.looked_for > hers
        assert after - before < 150_000  # KiB
        assert examine(bank.store, bank.id).is_sound
    assert store_files_with_her_words(path) == []
    with SqliteStore(path).reading() as reader:
        assert sum(reader.counts(bank.id).values()) > 100_000


ADA = "Ada Lovelace keeps bees on the roof of the observatory"


def _erase_ada(bank: OpenBank) -> ErasureResult:
    return erase.run(bank, EraseOptions(where=conditions_of(["user=ada"]), scan=True))


def _encrypted(data: bytes, lock: Lock) -> bytes:
    sink = io.BytesIO()
    encrypt(io.BytesIO(data), sink, lock)
    return sink.getvalue()


def _zipped(data: bytes) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", data)
    return sink.getvalue()


def test_packed_and_encrypted_files_are_searched(bank: OpenBank) -> None:
    """Each alone and nested; a remnant is reported with its position, and the exit status is 1."""
    keep(bank, ADA, scope={"user": "ada"})
    settings = load_settings()
    create_identity(settings, "here")
    lock, folder, data = lock_for(settings, ["here"]), settings.home / "kept", ADA.encode()
    folder.mkdir()
    (folder / "one.gz").write_bytes(gzip.compress(b"x" * 100) + gzip.compress(data))
    (folder / "two.zip").write_bytes(_zipped(data))
    (folder / "three.age").write_bytes(_encrypted(data, lock))
    (folder / "four.gz.age").write_bytes(_encrypted(gzip.compress(data), lock))
    (folder / "clean.gz").write_bytes(gzip.compress(b"nothing of that sort" * 10))
    done = _erase_ada(bank)
    found = {Path(one.name).name for one in done.scanned if one.found}
    assert found == {
        "one.gz (gzip)",
        "two.zip (member 0)",
        "three.age (age)",
        "four.gz.age (age) (gzip)",
    }
    assert done.exit_status == 1
    assert not [name for name in done.unreached if "inside" in name]


def test_files_that_cannot_be_searched_are_reported_as_unreachable(bank: OpenBank) -> None:
    """Encrypted for others, of an unsupported type, or truncated: never reported as clean."""
    keep(bank, ADA, scope={"user": "ada"})
    folder = load_settings().home / "kept"
    folder.mkdir()
    other = Lock(recipients=(new_identity()[1],), passphrase=None)
    (folder / "theirs.age").write_bytes(_encrypted(ADA.encode(), other))
    (folder / "some.zst").write_bytes(b"\x28\xb5\x2f\xfd" + b"\0" * 40)
    (folder / "bad.gz").write_bytes(b"\x1f\x8b" + b"\xff" * 40)
    (folder / "bad.zip").write_bytes(_zipped(ADA.encode())[:-20])
    done = _erase_ada(bank)
    for name in ("theirs.age", "some.zst", "bad.gz", "bad.zip"):
        assert any(f"contents of {folder / name}: " in one for one in done.unreached), name
    assert done.exit_status == 0


@pytest.mark.parametrize("packed", [gzip.compress, _zipped], ids=["gzip", "zip"])
def test_attack_a_decompression_bomb_is_skipped_and_reported(packed: object) -> None:
    """The expansion is limited."""
    bomb = packed(b"\0" * 3_000_000)  # type: ignore[operator]  # either of the two
    inside = NestedFileScanner(Unlocker(), Limits(expansion=10, expansion_free_bytes=100_000))
    assert list(inside.within(Extent("bomb", lambda: iter([bomb])))) == []
    assert "expands to more than 10 times" in inside.closed[0]


def test_nested_archives_are_searched_to_a_limited_depth() -> None:
    """A file that unpacks to itself would never end."""
    data = ADA.encode()
    for _ in range(5):
        data = gzip.compress(data)
    inside = NestedFileScanner(Unlocker())
    assert len(list(inside.within(Extent("deep", lambda: iter([data]))))) == 3
    assert "too many archives" in inside.closed[0]
