"""One conversation out of a backup, and the signed receipts of what was put back or tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from backup_kit import added, backed, erase, files_in, own_bank, restored, told
from sessions_kit import begun, say, texts_of

from satchel.backup.drill import drill_backup
from satchel.bank.connections import configured_store
from satchel.bank.open_bank import OpenBank, open_bank_in
from satchel.config.settings import Settings, load_settings
from satchel.crypto.sealed_records import seal
from satchel.errors import UnknownSessionError, UsageError
from satchel.model.records import Status
from satchel.model.values import now
from satchel.receipts.archive import find_receipt, recent_receipts
from satchel.receipts.receipt import ReceiptBody
from satchel.sessions.branches import fork


@contextmanager
def opened(settings: Settings, bank: str) -> Iterator[OpenBank]:
    """Open a bank for writing."""
    with configured_store(settings) as store:
        yield open_bank_in(settings, store, bank, writes=True)


def deleted(settings: Settings, bank: str, session: str) -> list[str]:
    """Delete a session with its messages, and return their ids."""
    with opened(settings, bank) as one:
        with one.ledger.reading() as view:
            ids = [
                logged.record.id
                for logged in view.scan()
                if logged.row.type == "session_event"
                and session in (logged.record.id, logged.record.value.get("session"))
            ]
        one.ledger.append([seal(Status(target=each, state="deleted", at=now())) for each in ids])
    return ids


def test_a_session_that_was_deleted_is_back_and_nothing_else_changes(
    here: Settings, where: str
) -> None:
    """Its messages in their order; what was said elsewhere since stays, and it can go on."""
    bank = own_bank(here)
    with opened(here, bank) as one:
        talk = begun(one, 5, "trip").session
        other = begun(one, 2, "other").session
    backed(here, where)
    ids = deleted(here, bank, talk)
    (new,) = added(here, bank)
    with opened(here, bank) as one:
        say(one, other, "later")
        with pytest.raises(UnknownSessionError):
            texts_of(one, "trip")
    found = restored(here, where, banks=(bank,), session="trip").session
    assert found is not None
    assert (found.returned, found.added, found.messages) == (len(ids), 0, 5)
    with opened(here, bank) as one:
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
def test_a_session_goes_into_a_store_that_has_nothing_of_it(
    here: Settings, where: str, places: Callable[[str], str], kind: str
) -> None:
    """As it was at a moment, and only that; a fork comes with what it goes on from."""
    bank = own_bank(here)
    with opened(here, bank) as one:
        talk = begun(one, 3, "trip").session
        branch = fork(one, talk, at="2", name="branch").id
        say(one, branch, "another way")
    moment = now()
    with opened(here, bank) as one:
        say(one, branch, "too late")
        say(one, talk, "not asked for")
    backed(here, where)
    place = places(kind)
    found = restored(here, where, place, banks=(bank,), session="branch", at=moment).session
    assert found is not None
    assert (found.made, found.messages) == (True, 3)
    with opened(load_settings(store=place), found.bank or "") as one:
        assert texts_of(one, "branch") == ["turn 1", "turn 2", "another way"]
        assert texts_of(one, "trip") == ["turn 1", "turn 2"]
        say(one, branch, "on")
    more = restored(here, where, place, banks=(bank,), session="trip").session
    assert more is not None
    assert (more.bank, more.made, more.added > 0) == (found.bank, False, True)
    with opened(load_settings(store=place), found.bank or "") as one:
        assert texts_of(one, "trip")[-1] == "not asked for"
        assert texts_of(one, "branch")[-1] == "on"


def test_an_erased_message_is_not_restored_with_its_session(
    here: Settings, where: str, tmp_path: Path
) -> None:
    """Neither here nor elsewhere."""
    bank, secret = own_bank(here), "the passphrase is xyzzy-plugh-1729"
    with opened(here, bank) as one:
        talk = begun(one, 2, "trip").session
        said = say(one, talk, secret).element
    first = backed(here, where)
    erase(here, bank, said)
    backed(here, where)
    deleted(here, bank, talk)
    for into in (None, str(tmp_path / "deep" / "n.db")):
        (tmp_path / "deep").mkdir(exist_ok=True)
        asked = {"banks": (bank,), "session": "trip", "backup": first.id}
        assert restored(here, where, into, **asked).session is not None
    with opened(here, bank) as one:
        assert texts_of(one, "trip") == ["turn 1", "turn 2"]
    assert secret.encode() not in b"".join(files_in(tmp_path / "deep").values())


def test_a_session_has_to_be_named_so_that_one_is_meant(here: Settings, where: str) -> None:
    """And a dry run writes nothing."""
    bank = own_bank(here)
    with opened(here, bank) as one:
        talk = begun(one, 2, "trip").session
    backed(here, where)
    deleted(here, bank, talk)
    before = told(here.store)
    with pytest.raises(UsageError, match="the one that has the session"):
        restored(here, where, session="trip")
    with pytest.raises(UnknownSessionError):
        restored(here, where, banks=(bank,), session="nobody")
    plan = restored(here, where, banks=(bank,), session="trip", dry_run=True)
    assert plan.session is not None
    assert (plan.session.returned > 0, plan.receipts) == (True, [])
    assert told(here.store) == before


def test_each_restore_and_each_drill_leaves_a_signed_receipt(
    here: Settings, where: str, tmp_path: Path
) -> None:
    """It names the backup by its hash, says how many of what arrived, and is good when checked."""
    bank = own_bank(here)
    with opened(here, bank) as one:
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
    first = [_account(here, one) for one in runs[0][1]]
    own = next(one for one in first if one.input.bank == bank)
    assert own.counts["session_event"].read_back >= 3
    assert own.total.read == own.total.read_back == own.input.size
    assert [_account(here, one).unchanged for one in same] == [True, True]


def test_a_failed_drill_reports_the_failure(here: Settings, where: str) -> None:
    """Signed as well: whoever audits finds out."""
    backed(here, where)
    sizes = {path: path.stat().st_size for path in Path(where).glob("packs/*/*/*")}
    max(sizes, key=lambda path: sizes[path]).write_bytes(b"")
    found = drill_backup(here, destination=where)
    accounts = [_account(here, one) for one in found.receipts]
    assert sorted(one.read_back or "" for one in accounts) == ["differs", "verified"]
    assert any(
        "missing" in note or "does not match" in note for one in accounts for note in one.notes
    )


def _account(here: Settings, identity: str) -> ReceiptBody:
    found = find_receipt(here, identity).account
    assert found is not None
    return found
