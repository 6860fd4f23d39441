"""Erasing one person from a large bank, and an erasure that is killed on the way."""

import contextlib
import multiprocessing
import os
import random
import resource
import signal
from pathlib import Path

import msgspec
import pytest
from bank_kit import filled, keep

from satchel.backup.inventory import list_backups
from satchel.backup.options import BackupOptions
from satchel.backup.prune import prune_backups
from satchel.backup.restore import restore_backup
from satchel.backup.run import run_backup
from satchel.bank.open_bank import OpenBank, open_bank
from satchel.config.settings import load_settings
from satchel.crypto.sealed_records import seal, seal_many
from satchel.erasure import selection
from satchel.erasure.erase import erase
from satchel.erasure.selection import EraseOptions
from satchel.files.bank_files import opened_files
from satchel.ledger.examination import examine
from satchel.ledger.transaction import is_unfinished
from satchel.model.records import Semantic, SessionEvent
from satchel.model.values import Scope
from satchel.ports.rows import Filter
from satchel.stores.sqlite import SqliteStore

PEOPLE = 50
SAID = "confides number {} to the lamplighter of Marylebone"


def fill(bank: OpenBank, number: int) -> int:
    """Log memories of fifty people; of Ada's, each third was drawn from the one before it."""
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


def is_said(path: Path) -> list[str]:
    """Return the files of a store in which what Ada confides can be read."""
    word = b"lamplighter of Marylebone"
    beside = path.parent.glob(f"{path.name}*")
    return [one.name for one in beside if word in one.read_bytes()]


def _erase_in_child(dying: object = None) -> None:
    del dying
    with open_bank(load_settings(), writes=True) as bank:
        erase.run(bank, EraseOptions(where={"user": ["ada"]}, cascade=True))


def test_an_erasure_that_dies_between_groups_is_ended_by_asking_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Descendants go first, so whatever is left still hangs on something that is left."""
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
        assert is_said(Path(bank.store.name)) == []


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_a_killed_erasure_is_ended_by_asking_again_whenever_it_was_killed() -> None:
    """Killed twelve times, at any moment: the bank is sound, the others' stay, the bytes go."""
    chance, settings = random.Random(11), load_settings()  # noqa: S311 - the same in every run
    context = multiprocessing.get_context("spawn")
    with filled() as bank:
        fill(bank, 6_000)
        others = _current(bank) - {"ada"}
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
        assert _current(bank) == others
    assert is_said(path) == []


def _current(bank: OpenBank) -> set[str | None]:
    with bank.ledger.reading() as view:
        rows = view.scan(Filter(types=frozenset({"semantic"})))
        return {one.row.user for one in rows if one.row.user is not None}


def talk(bank: OpenBank) -> int:
    """Log a session of Ada's, and return how many records it has."""
    ada = Scope(user="ada")
    session = seal(SessionEvent(event="session", name="confession", scope=ada))
    said = [SessionEvent(event="message", text=SAID.format(n), scope=ada) for n in range(3)]
    turns = [seal(msgspec.structs.replace(one, session=session.id)) for one in said]
    bank.ledger.append([session, *turns])
    return 1 + len(turns)


def in_home() -> list[str]:
    """Return the files of this test's home, backups included, in which it can be read."""
    files = (one for one in load_settings().home.rglob("*") if one.is_file())
    return [one.name for one in files if b"lamplighter of Marylebone" in one.read_bytes()]


@pytest.mark.parametrize("number", [100, pytest.param(20_000, marks=pytest.mark.prove)])
def test_every_copy_of_a_persons_words_is_erased(number: int, tmp_path: Path) -> None:
    """Memories, a session, a memory file with its versions; then the backups that hold it."""
    settings, backups = load_settings(), str(load_settings().home / "backups")
    options = BackupOptions(destinations=(backups,))
    with filled() as bank:
        hers = fill(bank, number) + talk(bank)
        with opened_files(settings, bank.name, create=True) as files:
            files.change_policy(keep_versions=True)
            for version in range(2):
                files.write_text("people/ada.md", SAID.format(version))
        run_backup.run(settings, options)
        assert in_home()
        done = erase.run(bank, EraseOptions(where={"user": ["ada"]}, cascade=True))
        assert done.erased == hers + max(0, number // 1_000 - 1)
        file = erase.run(bank, EraseOptions(where={"path": ["people/ada.md"]}))
        # The backup was made to a destination that is not configured: this machine used it, so it
        # gets the list of what is erased as well.
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
    assert in_home() == []
    back = tmp_path / "back" / "store.db"
    back.parent.mkdir()
    restore_backup(settings, destination=backups, into=str(back), files=False)
    assert is_said(back) == []


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_one_person_goes_from_a_bank_of_a_hundred_thousand() -> None:
    """With all that was drawn from hers: no byte is left, memory is bounded, the log holds."""
    with filled() as bank:
        hers = fill(bank, 100_000) + talk(bank)
        path = Path(bank.store.name)
        assert is_said(path)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        done = erase.run(bank, EraseOptions(where={"user": ["ada"]}, cascade=True))
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert done.erased == hers + 99
        assert done.found == 0
        assert done.finished
        assert done.looked_for > hers
        assert after - before < 150_000  # KiB
        assert examine(bank.store, bank.id).is_sound
    assert is_said(path) == []
    with SqliteStore(path).reading() as reader:
        assert sum(reader.counts(bank.id).values()) > 100_000
