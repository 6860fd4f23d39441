"""Restores over existing stores, of sessions, after erasures, redactions and interruptions."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from backup_kit import (
    added,
    backed,
    cataloged,
    current,
    erase,
    files_in,
    logged,
    own_bank,
    restored,
    tamper,
    told,
)
from ledger_kit import noting
from sessions_kit import begun, say, texts_of

from satchel.backup import restore, restore_targets
from satchel.backup.drill import drill_backup
from satchel.backup.inventory import list_backups
from satchel.backup.manifests import BankIndex, read_index
from satchel.backup.prune import prune_backups
from satchel.backup.run import run_backup
from satchel.backup.storage import FolderStorage, Packs
from satchel.bank.banks import list_banks
from satchel.bank.connections import configured_store, open_store
from satchel.bank.open_bank import OpenBank, open_bank, open_bank_in
from satchel.config.settings import Settings, load_settings
from satchel.crypto.sealed_records import seal
from satchel.erasure.erase import ErasureResult
from satchel.erasure.erase import erase as erase_operation
from satchel.erasure.prune import prune
from satchel.erasure.redaction import redact
from satchel.erasure.selection import EraseOptions, RedactOptions
from satchel.errors import (
    RolledBackError,
    SigningKeyError,
    TargetExistsError,
    UnknownSessionError,
    UsageError,
)
from satchel.model.records import Erasure, Semantic, Status
from satchel.model.values import now
from satchel.ports.operations import Operation
from satchel.receipts.archive import find_receipt, recent_receipts
from satchel.receipts.receipt import ReceiptBody
from satchel.replication.store_copy import copy_store
from satchel.sessions.branches import fork

KINDS = ("sqlite", "ladybug", "postgresql")


# -- existing stores ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    ["sqlite", *(pytest.param(kind, marks=pytest.mark.prove) for kind in KINDS[1:])],
)
def test_an_existing_bank_is_overwritten_only_on_request_and_backed_up_first(
    here: Settings, where: str, tmp_path: Path, new_address: Callable[[str], str], kind: str
) -> None:
    """It continues in a new epoch; the safety backup has the records that it lost."""
    place = new_address(kind)
    copy_store(here, here.store, place)
    there, bank = load_settings(store=place), own_bank(here)
    backed(there, where)
    expected = current(place, bank)
    new = added(there, bank, 3)
    before = told(place)
    with pytest.raises((RolledBackError, TargetExistsError)):
        restored(there, where)
    assert told(place) == before
    found = restored(there, where, overwrite=True, banks=(bank,))
    assert found.banks[0].given_up
    assert current(place, bank) == expected
    assert added(there, bank, 1, 50_000)[0] in current(place, bank)
    safety = found.banks[0].safety
    again = restored(there, where, str(tmp_path / "s.db"), backup=safety, accept_loss=True)
    assert again.backup == safety
    assert current(str(tmp_path / "s.db"), bank) == [*expected, *new]


def test_a_lost_store_is_restored_in_place(here: Settings, where: str) -> None:
    """If the backup has all records that the witness has seen, without a flag."""
    expected = told(here.store)
    backed(here, where)
    for path in Path(here.store).parent.glob("here.db*"):
        path.unlink()
    found = restored(here, where)
    assert not any(one.given_up for one in found.banks)
    assert told(here.store) == expected
    added(here, own_bank(here))


def test_a_loss_against_the_witness_is_not_accepted_by_default(here: Settings, where: str) -> None:
    """Nothing is written; --accept-loss needs a key of an owner."""
    backed(here, where)
    bank = own_bank(here)
    added(here, bank)
    for path in Path(here.store).parent.glob("here.db*"):
        path.unlink()
    with pytest.raises(RolledBackError, match="this machine saw it"):
        restored(here, where)
    with pytest.raises(SigningKeyError):
        restored(here, where, accept_loss=True, owners=tuple)
    assert not Path(here.store).exists()
    assert restored(here, where, accept_loss=True, banks=(bank,)).banks[0].given_up
    assert [one.trust for one in list_banks(here)] == ["own"]


def test_an_older_state_is_restored_to_another_store(
    here: Settings, where: str, tmp_path: Path
) -> None:
    """Both stores can be used, each with a witness of its own."""
    backed(here, where)
    bank = own_bank(here)
    added(here, bank)
    old = str(tmp_path / "old.db")
    found = restored(here, where, old, banks=(bank,), owners=None)
    assert not found.banks[0].given_up
    assert any("tracked separately" in note for note in found.banks[0].notes)
    looked = load_settings(store=old)
    was, aside = current(here.store, bank), Path(f"{old}.aside")
    shutil.copy(old, aside)
    added(looked, bank, start=70_000)
    for settings in (here, looked):
        assert [one.problem for one in list_banks(settings)] == [None] * len(list_banks(settings))
    assert current(here.store, bank) == was
    aside.rename(old)  # the copy is watched as well
    assert list_banks(looked)[0].problem is not None
    with pytest.raises(RolledBackError):
        restored(here, where, old, banks=(bank,), owners=None)
    assert list_banks(here)[0].problem is None


def test_a_store_that_does_not_verify_is_copied_before_it_is_overwritten(
    here: Settings, where: str
) -> None:
    """As a file, since it cannot be backed up."""
    backed(here, where)
    bank, expected = own_bank(here), [*current(here.store, own_bank(here))]
    tamper(here, bank)
    run = run_backup(here, destinations=(where,))
    assert run.made[0].missing
    assert run.exit_status == 3
    found = restored(here, where, overwrite=True, banks=(bank,), backup=cataloged(where)[0].id)
    safe = Path(found.banks[0].safety or "")
    assert safe.is_file()
    assert current(here.store, bank) == expected


# -- erasures -------------------------------------------------------------------------------

SECRET = "the passphrase is xyzzy-plugh-1729"  # noqa: S105 - must not be restored


def test_a_restored_backup_does_not_have_records_erased_since(
    here: Settings, where: str, tmp_path: Path
) -> None:
    """Nor their bytes; the result counts them."""
    bank = own_bank(here)
    record = seal(Semantic(text=SECRET))
    logged(here, bank, [record])
    first = backed(here, where)
    erase(here, bank, record.id)
    backed(here, where)
    target = tmp_path / "old" / "new.db"
    target.parent.mkdir()
    found = restored(here, where, str(target), backup=first.id, accept_loss=True)
    (one,) = [one for one in found.banks if one.bank == bank]
    assert one.erased_again == 1
    assert SECRET.encode() not in b"".join(files_in(target.parent).values())
    with closing(open_store(str(target), read_only=True)) as store, store.reading() as reader:
        (row,) = reader.get(bank, [record.id])
        assert row.body is None


def test_a_new_backup_omits_erased_records_and_the_list_marks_older_ones(
    here: Settings, where: str
) -> None:
    """Prune drops the older ones on request, if a newer backup without them verifies."""
    bank = own_bank(here)
    record = seal(Semantic(text=SECRET))
    logged(here, bank, [record])
    backed(here, where)
    erase(here, bank, record.id)
    backed(here, where)
    assert [one.holds_erased for one in list_backups(here, destinations=where).backups] == [1, 0]
    (gone,) = prune_backups(here, destinations=where, days=0, remove_erased=True)
    assert len(gone.dropped) == 1
    data = [Packs(FolderStorage(Path(where)), one.manifest.series) for one in cataloged(where)]
    shelf = FolderStorage(Path(where))
    found = b"".join(
        packs.get(ref)
        for packs, one in zip(data, cataloged(where), strict=True)
        for part in one.manifest.banks
        for ref in read_index(packs, part.index, BankIndex).refs()
    )
    shelf.close()
    assert SECRET.encode() not in found
    assert gone.packs > 0


def test_an_erasure_is_listed_at_the_destination_before_the_next_backup(
    here: Settings, where: str, tmp_path: Path
) -> None:
    """The store and its witness may be lost before that."""
    file = tmp_path / "satchel.toml"
    file.write_text(f'[backup]\ndestination = "{where}"\n')
    settings = load_settings(config=file, store=here.store)
    bank = own_bank(here)
    record = seal(Semantic(text=SECRET))
    logged(here, bank, [record])
    logged(here, bank, [seal(Erasure(entry="blake3:" + "5" * 64, at=now()))])
    backed(settings, where)
    with configured_store(settings) as store:
        opened = open_bank_in(settings, store, bank, writes=True)
        from satchel.bank.changes import forget

        forget(opened, [record.id])
        done = prune(opened, now(), deleted=True)
        assert (done.notes, done.erased > 0) == ([], True)
    for path in [*Path(here.store).parent.glob("here.db*")]:
        path.unlink()
    import shutil

    shutil.rmtree(here.state / "banks")
    restored(settings, where)
    assert record.id not in current(here.store, bank)
    assert SECRET.encode() not in Path(here.store).read_bytes()


# -- sessions and receipts ---------------------------------------------------------------


@contextmanager
def opened_bank(settings: Settings, bank: str) -> Iterator[OpenBank]:
    """Open a bank for writing."""
    with configured_store(settings) as store:
        yield open_bank_in(settings, store, bank, writes=True)


def delete_session(settings: Settings, bank: str, session: str) -> list[str]:
    """Delete a session with its messages, and return their IDs."""
    with opened_bank(settings, bank) as one:
        with one.ledger.reading() as view:
            ids = [
                logged.record.id
                for logged in view.scan()
                if logged.row.type == "session_event"
                and session in (logged.record.id, logged.record.value.get("session"))
            ]
        one.ledger.append([seal(Status(target=each, state="deleted", at=now())) for each in ids])
    return ids


def test_a_deleted_session_is_restored_and_nothing_else_changes(here: Settings, where: str) -> None:
    """With its messages in order; it can be continued, and later messages elsewhere stay."""
    bank = own_bank(here)
    with opened_bank(here, bank) as one:
        talk = begun(one, 5, "trip").session
        other = begun(one, 2, "other").session
    backed(here, where)
    ids = delete_session(here, bank, talk)
    (new,) = added(here, bank)
    with opened_bank(here, bank) as one:
        say(one, other, "later")
        with pytest.raises(UnknownSessionError):
            texts_of(one, "trip")
    found = restored(here, where, banks=(bank,), session="trip").session
    assert found is not None
    assert (found.returned, found.added, found.messages) == (len(ids), 0, 5)
    with opened_bank(here, bank) as one:
        assert texts_of(one, "trip") == [f"turn {number}" for number in range(1, 6)]
        assert texts_of(one, "other")[-1] == "later"
        say(one, talk, "and on")
        assert texts_of(one, "trip")[-1] == "and on"
        with one.ledger.reading() as view:
            assert new in view.get([new])
    again = restored(here, where, banks=(bank,), session="trip").session
    assert again is not None
    assert (again.returned, again.added, again.later) == (0, 0, 1)
    assert "satchel session fork" in again.notes[0]


@pytest.mark.parametrize(
    "kind",
    [
        "sqlite",
        *(pytest.param(kind, marks=pytest.mark.prove) for kind in ("ladybug", "postgresql")),
    ],
)
def test_a_session_is_restored_to_an_empty_store(
    here: Settings, where: str, new_address: Callable[[str], str], kind: str
) -> None:
    """To a time; a fork is restored with its origin."""
    bank = own_bank(here)
    with opened_bank(here, bank) as one:
        talk = begun(one, 3, "trip").session
        branch = fork(one, talk, at="2", name="branch").id
        say(one, branch, "another way")
    moment = now()
    with opened_bank(here, bank) as one:
        say(one, branch, "too late")
        say(one, talk, "not asked for")
    backed(here, where)
    place = new_address(kind)
    found = restored(here, where, place, banks=(bank,), session="branch", at=moment).session
    assert found is not None
    assert (found.made, found.messages) == (True, 3)
    with opened_bank(load_settings(store=place), found.bank or "") as one:
        assert texts_of(one, "branch") == ["turn 1", "turn 2", "another way"]
        assert texts_of(one, "trip") == ["turn 1", "turn 2"]
        say(one, branch, "on")
    more = restored(here, where, place, banks=(bank,), session="trip").session
    assert more is not None
    assert (more.bank, more.made, more.added > 0) == (found.bank, False, True)
    with opened_bank(load_settings(store=place), found.bank or "") as one:
        assert texts_of(one, "trip")[-1] == "not asked for"
        assert texts_of(one, "branch")[-1] == "on"


def test_an_erased_message_is_not_restored_with_its_session(
    here: Settings, where: str, tmp_path: Path
) -> None:
    """Neither to the same store nor to another one."""
    bank, secret = own_bank(here), "the passphrase is xyzzy-plugh-1729"
    with opened_bank(here, bank) as one:
        talk = begun(one, 2, "trip").session
        said = say(one, talk, secret).element
    first = backed(here, where)
    erase(here, bank, said)
    backed(here, where)
    delete_session(here, bank, talk)
    for into in (None, str(tmp_path / "deep" / "n.db")):
        (tmp_path / "deep").mkdir(exist_ok=True)
        asked = {"banks": (bank,), "session": "trip", "backup": first.id}
        assert restored(here, where, into, **asked).session is not None
    with opened_bank(here, bank) as one:
        assert texts_of(one, "trip") == ["turn 1", "turn 2"]
    assert secret.encode() not in b"".join(files_in(tmp_path / "deep").values())


def test_restore_of_a_session_needs_a_bank_and_a_known_session(here: Settings, where: str) -> None:
    """A dry run writes nothing."""
    bank = own_bank(here)
    with opened_bank(here, bank) as one:
        talk = begun(one, 2, "trip").session
    backed(here, where)
    delete_session(here, bank, talk)
    before = told(here.store)
    with pytest.raises(UsageError, match="the one that has the session"):
        restored(here, where, session="trip")
    with pytest.raises(UnknownSessionError):
        restored(here, where, banks=(bank,), session="nobody")
    plan = restored(here, where, banks=(bank,), session="trip", dry_run=True)
    assert plan.session is not None
    assert (plan.session.returned > 0, plan.receipts) == (True, [])
    assert told(here.store) == before


def test_each_restore_and_drill_has_a_signed_receipt(
    here: Settings, where: str, tmp_path: Path
) -> None:
    """With the hash of the backup and the number of records; it verifies."""
    bank = own_bank(here)
    with opened_bank(here, bank) as one:
        begun(one, 2, "trip")
    made = backed(here, where)
    same = restored(here, where, files=False).receipts
    runs = [
        ("restore", restored(here, where, str(tmp_path / "n.db")).receipts),
        (
            "restore",
            restored(here, where, str(tmp_path / "m.db"), banks=(bank,), session="trip").receipts,
        ),
        ("restore", same),
        ("drill", drill_backup(here, destination=where).receipts),
    ]
    assert [len(receipts) for _, receipts in runs] == [2, 1, 2, 2]
    assert len(recent_receipts(here)) == 7
    for kind, receipts in runs:
        for identity in receipts:
            receipt = find_receipt(here, identity)
            account = receipt.account
            assert account is not None
            assert (receipt.outcome, account.kind, account.read_back) == ("good", kind, "verified")
            assert account.input.name == made.id
            assert (account.input.digest or "").startswith("blake3:")
    first = [_account_of(here, one) for one in runs[0][1]]
    own = next(one for one in first if one.input.bank == bank)
    assert own.counts["session_event"].read_back >= 3
    assert own.total.read == own.total.read_back == own.input.size
    assert [_account_of(here, one).unchanged for one in same] == [True, True]


def test_a_failed_drill_has_a_receipt_with_the_failure(here: Settings, where: str) -> None:
    """Signed as well, for an audit."""
    backed(here, where)
    sizes = {path: path.stat().st_size for path in Path(where).glob("packs/*/*/*")}
    max(sizes, key=lambda path: sizes[path]).write_bytes(b"")
    found = drill_backup(here, destination=where)
    accounts = [_account_of(here, one) for one in found.receipts]
    assert sorted(one.read_back or "" for one in accounts) == ["differs", "verified"]
    assert any(
        "missing" in note or "does not match" in note for one in accounts for note in one.notes
    )


def _account_of(here: Settings, identity: str) -> ReceiptBody:
    found = find_receipt(here, identity).account
    assert found is not None
    return found


# -- redactions --------------------------------------------------------------------------


PERSONAL = "ada@analytical.example"


def _redact(here: Settings, bank: str, identity: str) -> None:
    with open_bank(here, bank, writes=True) as opened:
        assert redact.run(opened, RedactOptions(ids=(identity,))).redacted


def _body_of(store: str, bank: str, identity: str) -> bytes:
    with closing(open_store(store, read_only=True)) as found, found.reading() as reader:
        (row,) = reader.get(bank, [identity])
    return row.body or b""


@pytest.mark.parametrize("earlier", [0, 1], ids=["after", "before-and-after"])
def test_a_bank_with_redacted_memories_is_backed_up_and_restored(
    here: Settings, where: str, tmp_path: Path, earlier: int
) -> None:
    """In redacted form, also after a backup of the original; new packs have no personal data."""
    bank = own_bank(here)
    record = seal(Semantic(text=f"write to {PERSONAL}"))
    logged(here, bank, [record])
    for _ in range(earlier):
        backed(here, where)
    _redact(here, bank, record.id)
    last = backed(here, where)
    target = tmp_path / "new" / "new.db"
    target.parent.mkdir()
    restored(here, where, str(target), backup=last.id)
    assert b"[REDACTED:email:1]" in _body_of(str(target), bank, record.id)
    assert PERSONAL.encode() not in b"".join(files_in(target.parent).values())
    newest = max(cataloged(where), key=lambda one: one.manifest.at)
    shelf = FolderStorage(Path(where))
    packs = Packs(shelf, newest.manifest.series)
    named = [
        packs.get(ref)
        for part in newest.manifest.banks
        for ref in read_index(packs, part.index, BankIndex).refs()
    ]
    shelf.close()
    assert PERSONAL.encode() not in b"".join(named)


def test_a_restore_to_a_time_before_a_redaction_is_refused(
    here: Settings, where: str, tmp_path: Path
) -> None:
    """Without the original, a redacted form would look like a changed memory."""
    bank = own_bank(here)
    record = seal(Semantic(text=f"write to {PERSONAL}"))
    logged(here, bank, [record])
    moment = now()
    _redact(here, bank, record.id)
    backed(here, where)
    with pytest.raises(UsageError, match="redacted after that time") as caught:
        restored(here, where, str(tmp_path / "then.db"), at=moment)
    assert "after the redaction" in (caught.value.hint or "")
    assert not (tmp_path / "then.db").exists()
    with configured_store(here) as store, store.reading() as reader:
        assert reader.get(bank, [record.id])


# -- interrupted and repeated restores ---------------------------------------------------


class Interrupted(BaseException):
    """The process is killed; nobody handles this."""


STEPS: dict[Any, tuple[str, ...]] = {
    restore: ("make_bank", "authorize_replacement", "reapply_erasures", "run_backup", "put_files"),
    restore_targets: (
        *(
            "_read_existing",
            "_write_log",
            "copy_side_data",
            "compare",
            "store_head",
            "finish_erasure",
            "_record_head",
        ),
    ),
}
"""The functions that a restore calls, in order."""


@contextmanager
def interrupt(at: int) -> Iterator[list[str]]:
    """Interrupt a restore at one of its steps; yield the names of the steps so far."""
    came, stack = list[str](), ExitStack()

    def step(name: str) -> None:
        came.append(name)
        if len(came) == at:
            raise Interrupted(name)

    def around(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def done(*given: Any, **named: Any) -> Any:
            step(f"before {name}")
            result = work(*given, **named)
            step(f"after {name}")
            return result

        return done

    def writing(*given: Any, **named: Any) -> Any:
        step("before the transaction ends")
        return carry(*given, **named)

    carry = vars(restore_targets)["fast_forward"]
    with stack:
        for module, names in STEPS.items():
            for name in names:
                work = getattr(module, name)
                owner, attribute = (work, "run") if isinstance(work, Operation) else (module, name)
                wrapped = around(name, getattr(owner, attribute))
                stack.enter_context(mock.patch.object(owner, attribute, wrapped))
        stack.enter_context(mock.patch.object(restore_targets, "fast_forward", writing))
        with suppress(Interrupted):
            yield came


def save_folder(folder: Path, aside: Path) -> Callable[[], None]:
    """Copy a folder; return a function that restores it."""
    shutil.copytree(folder, aside, ignore=shutil.ignore_patterns(aside.name))

    def restore_folder() -> None:
        for path in folder.iterdir():
            if path != aside:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(aside, folder, dirs_exist_ok=True)

    return restore_folder


@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.prove), 3])
def test_an_interrupted_restore_leaves_the_bank_in_its_old_or_new_state(
    here: Settings, where: str, tmp_path: Path, stride: int
) -> None:
    """At any step, or at every third. The same command again completes it."""
    bank = own_bank(here)
    backed(here, where)
    asked = current(here.store, bank)
    added(here, bank, 3)
    was = current(here.store, bank)
    restore_folder = save_folder(tmp_path, tmp_path / "aside")
    at, steps = 0, list[str]()
    while at <= len(steps):
        at += stride
        restore_folder()
        with interrupt(at) as steps:
            restored(load_settings(store=here.store), where, overwrite=True, accept_loss=True)
        with noting(f"interrupted {steps[-1]}"):
            settings = load_settings(store=here.store)
            assert [one.problem for one in list_banks(settings) if one.id == bank] == [None]
            assert current(here.store, bank) in (was, asked)
            restored(settings, where, overwrite=True, accept_loss=True)
            assert current(here.store, bank) == asked
            added(settings, bank, 1, 80_000)
    assert {name.partition(" ")[2] for name in steps} >= {
        "_write_log",
        "_record_head",
        "run_backup",
    }


def test_a_safety_backup_is_restored_only_by_id(here: Settings, where: str) -> None:
    """It is the newest backup after an interrupted restore, but never the default."""
    bank = own_bank(here)
    first = backed(here, where)
    asked = current(here.store, bank)
    more = added(here, bank, 2)
    banks = restored(here, where, overwrite=True, accept_loss=True).banks
    (safety,) = [one.safety for one in banks if one.bank == bank]
    assert restored(here, where, overwrite=True, accept_loss=True).backup == first.id
    assert current(here.store, bank) == asked
    restored(here, where, overwrite=True, accept_loss=True, backup=safety)
    assert current(here.store, bank) == [*asked, *more]


def erase_secret(settings: Settings, bank: str) -> ErasureResult:
    """Erase all memories with the secret."""
    with open_bank(settings, bank) as opened, opened.ledger.reading() as view:
        ids = [one.record.id for one in view.newest() if SECRET.encode() in one.record.body]
    with configured_store(settings) as store:
        opened = open_bank_in(settings, store, bank, writes=True)
        return erase_operation.run(opened, EraseOptions(ids=ids))


@pytest.fixture
def erased(here: Settings, where: str) -> tuple[Settings, str, str]:
    """A machine that erased a memory after a backup to a destination that is not configured."""
    bank = own_bank(here)
    logged(here, bank, [seal(Semantic(text=SECRET))])
    backed(here, where)
    erase_secret(here, bank)
    return here, where, bank


def test_erased_text_is_not_restored_from_an_unconfigured_destination(
    erased: tuple[Settings, str, str], tmp_path: Path
) -> None:
    """Into another store."""
    here, where, bank = erased
    assert [one.holds_erased for one in list_backups(here, destinations=where).backups] == [1]
    target = tmp_path / "into" / "old.db"
    target.parent.mkdir()
    found = restored(here, where, str(target))
    assert [one.erased_again for one in found.banks if one.bank == bank] == [1]
    assert SECRET.encode() not in b"".join(files_in(target.parent).values())


def test_erased_text_is_not_restored_on_another_machine(
    erased: tuple[Settings, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without store, witness and keys of the first; the destination has the list of erasures."""
    here, where, bank = erased
    key = list_backups(here, destinations=where).backups[0].key
    owners = Path(here.home)
    for name in ("SATCHEL_HOME", "SATCHEL_WITNESS"):
        monkeypatch.setenv(name, str(tmp_path / f"other-{name}"))
    shutil.copytree(owners / "keys", tmp_path / "other-SATCHEL_HOME" / "keys")
    (tmp_path / "other-SATCHEL_HOME" / "keys" / "writer.key").unlink(missing_ok=True)
    target = tmp_path / "into" / "new.db"
    target.parent.mkdir()
    there = load_settings(store=str(target))
    found = restored(there, where, trusted_keys=(key,))
    assert [one.erased_again for one in found.banks if one.bank == bank] == [1]
    assert SECRET.encode() not in b"".join(files_in(target.parent).values())


def test_erased_text_is_not_restored_from_a_destination_that_was_offline(
    here: Settings, where: str, tmp_path: Path
) -> None:
    """The report of the erasure names the destination; the witness has the list as well."""
    bank = own_bank(here)
    logged(here, bank, [seal(Semantic(text=SECRET))])
    backed(here, where)
    drawer = Path(where).rename(tmp_path / "drawer")
    report = erase_secret(here, bank)
    assert any(where in text and "does not answer" in text for text in report.unreached)
    drawer.rename(where)
    for path in Path(here.store).parent.glob("here.db*"):
        path.rename(tmp_path / path.name)
    target = tmp_path / "into" / "old.db"
    target.parent.mkdir()
    restored(here, where, str(target), accept_loss=True)  # only the witness has the erasure
    assert SECRET.encode() not in b"".join(files_in(target.parent).values())


def test_a_bank_is_restored_after_an_erasure_of_newer_records(here: Settings, where: str) -> None:
    """Other records have their log positions now, and can be read and written."""
    bank = own_bank(here)
    logged(here, bank, [seal(Semantic(text=f"{SECRET}, and more"))])
    backed(here, where)
    asked = current(here.store, bank)
    added(here, bank, 2)
    logged(here, bank, [seal(Semantic(text=f"{SECRET}, later"))])
    logged(here, bank, [seal(Semantic(text=f"{SECRET}, last"))])
    erase_secret(here, bank)
    restored(here, where, overwrite=True)
    assert current(here.store, bank) == asked[:-1]
    assert [one.problem for one in list_banks(here) if one.id == bank] == [None]
    (new,) = added(here, bank, 1, 70_000)
    logged(here, bank, [seal(Status(target=new, state="deleted", at=now()))])
    with open_bank(here, bank) as opened, opened.ledger.reading() as view:
        assert [one.record.id for one in view.newest() if one.record.type == "semantic"]
