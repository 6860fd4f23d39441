"""What a restore leaves when it is interrupted, repeated, or follows an erasure."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from backup_kit import added, backed, current, files_in, logged, own_bank, restored
from ledger_kit import noting

from satchel.backup import restore, restore_targets
from satchel.backup.inventory import list_backups
from satchel.bank.banks import list_banks
from satchel.bank.connections import configured_store
from satchel.bank.open_bank import open_bank, open_bank_in
from satchel.config.settings import Settings, load_settings
from satchel.crypto.sealed_records import seal
from satchel.erasure.erase import ErasureResult, erase
from satchel.erasure.selection import EraseOptions
from satchel.model.records import Semantic, Status
from satchel.model.values import now
from satchel.ports.operations import Operation

SECRET = "Wombat lives at 12 Elm Street, third floor"  # noqa: S105 - what must not come back


class Interrupted(BaseException):
    """The process is killed here; nobody handles this."""


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
"""What a restore does, one after the other."""


@contextmanager
def interrupted(at: int) -> Iterator[list[str]]:
    """Have a restore end without a word before or after one of its steps; give those it came to."""
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


def images(folder: Path, aside: Path) -> Callable[[], None]:
    """Keep a folder as it is; return what puts it back."""
    shutil.copytree(folder, aside, ignore=shutil.ignore_patterns(aside.name))

    def put_back() -> None:
        for path in folder.iterdir():
            if path != aside:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(aside, folder, dirs_exist_ok=True)

    return put_back


def test_a_restore_that_is_interrupted_at_any_step_leaves_the_bank_as_it_was_or_restored(
    here: Settings, where: str, tmp_path: Path
) -> None:
    """Never refused; and the same command again restores what was asked for."""
    bank = own_bank(here)
    backed(here, where)
    asked = current(here.store, bank)
    added(here, bank, 3)
    was = current(here.store, bank)
    put_back = images(tmp_path, tmp_path / "aside")
    at, steps = 0, list[str]()
    while at <= len(steps):
        at += 1
        put_back()
        with interrupted(at) as steps:
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


def test_a_safety_copy_is_restored_by_its_name_alone(here: Settings, where: str) -> None:
    """Attack: a restore was interrupted after it made one, which is the newest backup now."""
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
        return erase.run(opened, EraseOptions(ids=ids))


@pytest.fixture
def erased(here: Settings, where: str) -> tuple[Settings, str, str]:
    """A machine that erased a memory of which a backup is where nothing is configured."""
    bank = own_bank(here)
    logged(here, bank, [seal(Semantic(text=SECRET))])
    backed(here, where)
    erase_secret(here, bank)
    return here, where, bank


def test_erased_text_does_not_return_from_a_backup_that_was_made_with_to(
    erased: tuple[Settings, str, str], tmp_path: Path
) -> None:
    """The destination is not configured, and the backup is restored into another store."""
    here, where, bank = erased
    assert [one.holds_erased for one in list_backups(here, destinations=where).backups] == [1]
    target = tmp_path / "into" / "old.db"
    target.parent.mkdir()
    found = restored(here, where, str(target))
    assert [one.erased_again for one in found.banks if one.bank == bank] == [1]
    assert SECRET.encode() not in b"".join(files_in(target.parent).values())


def test_erased_text_does_not_return_on_another_machine(
    erased: tuple[Settings, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no store, no witness and no key of the first; the list lies beside the backups."""
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


def test_erased_text_does_not_return_where_the_disk_was_away_when_it_was_erased(
    here: Settings, where: str, tmp_path: Path
) -> None:
    """The report names the destination; the store in use and the witness know it as well."""
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
    restored(here, where, str(target), accept_loss=True)  # the witness alone knows
    assert SECRET.encode() not in b"".join(files_in(target.parent).values())


def test_a_bank_is_restored_over_after_something_newer_than_the_backup_was_erased(
    here: Settings, where: str
) -> None:
    """Other records stand now where what was erased had stood: they are read and written."""
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
