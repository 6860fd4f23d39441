"""Erasing: what goes, what goes along, what is looked through, and what the report says."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from bank_kit import filled, keep, texts

from satchel import Satchel, aio
from satchel.bank.changes import MemoryEdit, forget, remember, update
from satchel.bank.connections import open_ledger
from satchel.bank.open_bank import OpenBank
from satchel.config.settings import load_settings
from satchel.crypto.sealed_records import seal
from satchel.erasure.erase import ErasureResult, erase
from satchel.erasure.selection import EraseOptions, conditions_of
from satchel.errors import TargetExistsError, UnknownMemoryError, UsageError
from satchel.files.bank_files import opened_files
from satchel.ledger.examination import examine
from satchel.ledger.transaction import closing_receipt as closing_of
from satchel.model.records import Edge, FileVersion, Semantic, SessionEvent, Source
from satchel.model.values import Evidence, Origin, Scope, now
from satchel.ports.rows import Filter
from satchel.ports.store import InspectableStore, Store
from satchel.receipts.archive import find_receipts
from satchel.stores.sqlite import SqliteStore

ABOUT_ADA = 'Ada Lovelace, born 10 December 1815, said "never" to the Marylebone clinic'
_ERASURES = Filter(types=frozenset({"erasure"}))


def gone(
    bank: OpenBank, *where: str, ids: tuple[str, ...] = (), **options: object
) -> ErasureResult:
    """Erase what conditions say."""
    wanted = EraseOptions(ids=ids, where=conditions_of(where), **options)  # type: ignore[arg-type]
    return erase.run(bank, wanted)


def holding(store: Store, text: str) -> list[str]:
    """Return the names of what has a text in its raw bytes, however it is written."""
    assert isinstance(store, InspectableStore)
    forms = [text.encode(), json.dumps(text)[1:-1].encode(), text.encode("utf-16-le")]
    return [
        extent.name
        for extent in store.laid_open()
        if any(form in b"".join(extent.pieces()) for form in forms)
    ]


# -- what goes ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("any_store")
def test_a_person_is_erased_and_no_byte_is_left_on_any_store() -> None:
    """All versions, current or not, of every type; the others stay, and the log still holds."""
    with filled() as bank:
        other = keep(bank, "Bob drinks nothing but lukewarm tea", scope={"user": "bob"})
        mine = keep(bank, ABOUT_ADA, scope={"user": "ada"})
        newer = update(bank, mine, MemoryEdit(members={"text": f"{ABOUT_ADA}, twice"})).id
        forgotten = keep(bank, f"{ABOUT_ADA}, forgotten", scope={"user": "ada"})
        forget(bank, [forgotten])
        edge = seal(Edge(source=newer, target=other, kind="knows", properties={"how": ABOUT_ADA}))
        bank.ledger.append([edge])
        assert holding(bank.store, ABOUT_ADA)

        done = gone(bank, "user=ada", reason="asked for")
        assert (done.chosen, done.erased) == (3, 4)
        assert done.with_them == {"joins": 1}
        assert done.types == {"edge": 1, "semantic": 3}
        assert done.found == 0
        assert done.exit_status == 0
        assert done.scanned
        assert holding(bank.store, ABOUT_ADA) == []
        assert texts(bank, everything=True) == ["Bob drinks nothing but lukewarm tea"]
        assert examine(bank.store, bank.id).is_sound
        with bank.ledger.reading() as view:
            assert len(list(view.scan(_ERASURES))) == 4
            assert all(place is not None for place in view.places([mine, newer, edge.id]).values())
        again = gone(bank, "user=ada")
        assert (again.erased, again.exit_status) == (0, 0)


def test_what_was_drawn_from_it_stays_and_is_named_unless_it_cascades(bank: OpenBank) -> None:
    """Children and theirs, in whatever order they were logged; a conversation takes its turns."""
    root = keep(bank, "the root of it all", scope={"user": "ada"})
    child = keep(bank, "a child of the root", parents=[root])
    keep(bank, "a grandchild of the root", parents=[child])
    keep(bank, "nothing to do with it")
    session = seal(SessionEvent(event="session", name="talk"))
    turns = [seal(SessionEvent(event="message", session=session.id, text=f"t{n}")) for n in (1, 2)]
    drawn = seal(Semantic(text="drawn from a turn", sources=(Evidence(kind="m", id=turns[0].id),)))
    bank.ledger.append([drawn, *turns, session])

    plan = gone(bank, "user=ada", dry_run=True)
    assert (plan.erased, plan.derived_left, plan.derived_examples) == (1, 1, [child])
    deep = gone(bank, "user=ada", dry_run=True, cascade=True)
    assert (deep.erased, deep.derived_left, deep.with_them) == (3, 0, {"derived": 2})
    assert len(texts(bank)) == 5
    assert gone(bank, "user=ada", cascade=True).erased == 3
    assert gone(bank, ids=(session.id,), cascade=True).types == {"semantic": 1, "session_event": 3}
    assert texts(bank) == ["nothing to do with it"]


def test_what_hangs_on_what_was_erased_before_is_still_found(bank: OpenBank) -> None:
    """Whoever erased without cascade can still have the rest, by the id that is left."""
    root = keep(bank, "the root of it all")
    keep(bank, "a child of the root", parents=[root])
    assert gone(bank, ids=(root,)).derived_left == 1
    done = gone(bank, ids=(root[:20],), cascade=True)
    assert (done.chosen, done.with_them, done.erased) == (0, {"derived": 1}, 1)
    assert texts(bank) == []


def test_conditions_all_have_to_hold_and_either_value_of_one(bank: OpenBank) -> None:
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
    waiting = gone(bank, "user=ada", dry_run=True)
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
        assert gone(bank, condition, dry_run=True).erased == number, condition
    assert gone(bank, "user=ada", "tag=b", dry_run=True).erased == 1
    assert gone(bank, "tag=b", "key=k", dry_run=True).erased == 0
    assert gone(bank, "key=k", "key=7", dry_run=True).erased == 1


def test_what_is_not_to_be_erased_is_refused_and_nothing_is_written(
    bank: OpenBank, tmp_path: Path
) -> None:
    """No condition at all, a wrong one, an id of nothing, of several, or of what the log needs."""
    keep(bank, "stays")
    with bank.ledger.reading() as view:
        size, status = view.head.size, next(iter(view.scan())).record.id
    for bad in ("user", "user=", "=ada", "color=red", "text=x", "type=status"):
        with pytest.raises(UsageError):
            gone(bank, bad)
    for ids in ((), ("xyz",), (status,)):
        with pytest.raises(UsageError):
            gone(bank, ids=ids)
    with pytest.raises(UnknownMemoryError):
        gone(bank, ids=("blake3:" + "0" * 64,))
    taken = tmp_path / "there.json"
    taken.write_text("mine")
    with pytest.raises(TargetExistsError):
        gone(bank, "user=ada", receipt=taken)
    with bank.ledger.reading() as view:
        assert view.head.size == size


# -- what is looked through, and what the report says ---------------------------------------------


def test_the_signed_report_names_what_was_searched_and_no_content(
    bank: OpenBank, tmp_path: Path
) -> None:
    """It verifies, names each file with its bytes, and what cannot be reached; no erased word."""
    keep(bank, ABOUT_ADA, scope={"user": "ada"})
    copy = tmp_path / "report.json"
    done = gone(bank, "user=ada", receipt=copy)
    (report,) = find_receipts(load_settings(), str(copy))
    assert report.outcome == "good"
    assert report.account is not None
    assert report.account.kind == "erase"
    assert report.account.done["erased"] == 1
    assert report.account.counts["semantic"].read_back == 1
    assert report.account.scanned[0].name == bank.store.name
    assert any("backups" in name for name in report.account.unreached)
    assert b"Lovelace" not in copy.read_bytes()
    assert b"Marylebone" not in copy.read_bytes()
    assert done.receipt == report.id


def test_what_others_still_say_is_named_and_is_no_remnant(bank: OpenBank) -> None:
    """A near duplicate of somebody else's, in this bank or another one of the store."""
    keep(bank, ABOUT_ADA, scope={"user": "ada"})
    copied = keep(bank, f"He wrote: {ABOUT_ADA}", scope={"user": "bob"})
    with filled() as _:
        pass
    done = gone(bank, "user=ada")
    assert (done.still_said, done.found) == (1, 0)
    assert done.still_said_examples == [f"{bank.id} {copied}"]


def test_bytes_left_in_a_file_are_found_and_reported(bank: OpenBank) -> None:
    """A copy of an older store beside it, a log that somebody copied, in another way of writing."""
    keep(bank, ABOUT_ADA, scope={"user": "ada"})
    store = Path(bank.store.name)
    store.with_name(f"{store.name}.2026.bak").write_bytes(b"x" * 5000 + ABOUT_ADA.encode() + b"y")
    wide = load_settings().home / "notes" / "wide.txt"
    wide.parent.mkdir()
    wide.write_bytes(b"\0" * 777 + ABOUT_ADA.encode("utf-16-le"))
    escaped = wide.with_name("escaped.json")
    escaped.write_text(json.dumps({"text": ABOUT_ADA}))
    done = gone(bank, "user=ada")
    found = {Path(one.name).name for one in done.scanned if one.found}
    assert found == {f"{store.name}.2026.bak", "wide.txt", "escaped.json"}
    assert done.exit_status == 1


def test_copies_that_left_are_named_as_out_of_reach(bank: OpenBank, tmp_path: Path) -> None:
    """The files that receipts say were written of this bank."""
    from satchel.transfer.export_records import ExportOptions
    from satchel.transfer.exports import export

    keep(bank, ABOUT_ADA, scope={"user": "ada"})
    export(bank, tmp_path / "left.pam.jsonl", ExportOptions())
    done = gone(bank, "user=ada")
    assert any("left.pam.jsonl" in name for name in done.unreached)


def test_memory_files_go_with_their_versions_in_the_log(bank: OpenBank) -> None:
    """The file, every version of it, and what the bank says of them; other files stay."""
    settings, name = load_settings(), bank.name
    with opened_files(settings, name, create=True) as files:
        files.change_policy(keep_versions=True)
        files.write_text("people/ada.md", ABOUT_ADA)
        files.write_text("people/ada.md", f"{ABOUT_ADA} (2)")
        files.write_text("people/bob.md", "Bob drinks nothing but lukewarm tea")
    done = gone(bank, "path=people/ada.md")
    assert done.types == {"file_version": 2}
    assert done.held == {"memory files": 2}
    assert [one.name for one in done.scanned if one.found] == []
    with opened_files(settings, name) as files:
        assert files.list_paths() == ["people/bob.md"]
        root = files.root
    assert not [p for p in root.rglob("*") if p.is_file() and b"Marylebone" in p.read_bytes()]
    with bank.ledger.reading() as view:
        left = [one.model for one in view.newest(Filter(types=frozenset({"file_version"})))]
    assert {one.path: one.text for one in left if isinstance(one, FileVersion)} == {
        "people/ada.md": None,  # that it is gone is told as well
        "people/bob.md": "Bob drinks nothing but lukewarm tea",
    }


def test_a_reader_that_keeps_the_bytes_alive_is_reported(bank: OpenBank) -> None:
    """The report does not claim what could not be done; asking again ends it."""
    keep(bank, ABOUT_ADA, scope={"user": "ada"})
    path = Path(bank.store.name)
    impatient = SqliteStore(path, busy_ms=50)
    ledger = open_ledger(bank.settings, impatient, bank.id, writes=True)
    with SqliteStore(path).reading() as reader:
        assert reader.head(bank.id)
        done = gone(replace(bank, store=impatient, ledger=ledger), "user=ada")
    assert not done.finished
    assert done.found
    assert done.exit_status == 1
    again = gone(bank, "user=ada")
    assert again.finished
    assert any("interrupted" in note for note in again.notes)
    assert holding(bank.store, ABOUT_ADA) == []


def test_a_file_version_that_no_store_has_is_erased_from_the_log(bank: OpenBank) -> None:
    """The record came from elsewhere; there is no file here."""
    bank.ledger.append([seal(FileVersion(path="a.md", text=ABOUT_ADA, action="created"))])
    done = gone(bank, "path=a.md")
    assert (done.erased, done.held, done.found) == (1, {}, 0)


def test_text_too_short_to_search_for_is_counted(bank: OpenBank) -> None:
    """What is not looked for is not said to be gone."""
    remember(bank, {"text": "tea", "scope": {"user": "ada"}})
    done = gone(bank, "user=ada")
    assert done.too_short >= 2
    assert done.looked_for == 0


def test_a_program_erases_as_the_command_does() -> None:
    """From Python, and awaited."""
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
def test_attack_a_condition_without_a_text_is_refused_and_never_dropped(values: object) -> None:
    """Without the condition, the erasure would select more than was asked for."""
    with filled() as bank:
        keep(bank, ABOUT_ADA, scope={"user": "ada"}, tags=["tea"])
    with Satchel.open() as store, pytest.raises(UsageError, match="condition") as refused:
        store.bank().erase(where={"tag": ["tea"], "user": values}, dry_run=True)  # type: ignore[dict-item]

    assert refused.value.field == "where"
