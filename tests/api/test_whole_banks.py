"""Moving whole banks by name: ``export_bank``, ``import_bank``, ``list_banks``."""

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import satchel
from satchel import aio
from satchel.errors import ClosedError, ReadOnlyStoreError, UnknownBankError, UsageError
from satchel.transfer import import_stage


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A Mem0 file of 2,500 memories."""
    path = tmp_path / "in.json"
    rows = [{"id": str(n), "memory": f"fact {n}", "user_id": "ada"} for n in range(2500)]
    path.write_text(json.dumps(rows))
    return path


def test_banks_move_in_bulk_by_their_names(tmp_path: Path) -> None:
    """Export each, then import each into another store."""
    sample, roots = tmp_path / "in.json", [tmp_path]
    sample.write_text('[{"id": "1", "memory": "likes tea", "user_id": "ada"}]')

    async def run() -> tuple[list[str], list[str]]:
        brain = aio.open()
        for name in ("user-123", "team"):
            await brain.import_bank(bank_id=name, path=sample, allowed_roots=roots)
        banks = [bank.name or bank.id for bank in await brain.list_banks()]
        for bank_id in banks:
            await brain.export_bank(bank_id, path=tmp_path / f"{bank_id}.pam", allowed_roots=roots)
        await brain.close()
        await brain.close()
        with pytest.raises(ClosedError):
            await brain.list_banks()
        other = aio.open(tmp_path / "other.db")
        for bank_id in banks:
            done = await other.import_bank(
                bank_id, tmp_path / f"{bank_id}.pam", on_conflict="error", allowed_roots=roots
            )
            assert done.banks[0].done.added == 1
        async with other as opened:
            assert opened is await other
            return banks, [bank.name or "" for bank in await opened.list_banks()]

    banks, others = asyncio.run(run())
    assert banks == others == ["team", "user-123"]


def test_a_bank_is_named_by_its_name_or_else_its_id(tmp_path: Path, sample: Path) -> None:
    """Which has to be said: no name does not mean the only bank there is."""
    with satchel.Satchel.open() as here:
        bank = here.create_bank("b")
        bank.remember("likes tea")
        assert [bank.name for bank in here.list_banks()] == ["b"]
        here.export_bank(bank.id, tmp_path / "id.pam", allow_uncontained=True)
        for name in ("", " "):
            for call in (here.export_bank, here.import_bank):
                with pytest.raises(UsageError):
                    call(name, sample, allow_uncontained=True)
        with pytest.raises(UnknownBankError):
            here.export_bank("none", tmp_path / "none.pam", allow_uncontained=True)
    assert not (tmp_path / "none.pam").exists()


def test_a_store_that_is_only_read_takes_nothing_in(sample: Path) -> None:
    """Except that a dry run says what it would."""
    with satchel.Satchel.open() as here:
        here.create_bank("b")
    with satchel.Satchel.open(read_only=True) as here:
        with pytest.raises(ReadOnlyStoreError):
            here.import_bank("b", sample, allow_uncontained=True)
        done = here.import_bank("b", sample, allow_uncontained=True, dry_run=True)
        assert done.banks[0].done.added == 2500


def test_a_mistyped_option_is_refused_by_name(tmp_path: Path, sample: Path) -> None:
    """It does not do something else in silence."""
    with satchel.Satchel.open() as here:
        here.create_bank("b")
        with pytest.raises(TypeError, match="allow_root"):
            here.import_bank("b", sample, allow_root=[tmp_path])  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="path_"):
            here.export_bank("b", tmp_path / "x.pam", path_=1)  # type: ignore[call-arg]


Calls = list[tuple[int, int, str | None]]


def _plain(calls: Calls) -> Callable[..., Any]:
    return lambda *said: calls.append(said)


def _awaited(calls: Calls) -> Callable[..., Any]:
    async def told(done: int, total: int, record: str | None) -> None:
        await asyncio.sleep(0)
        calls.append((done, total, record))

    return told


@pytest.mark.parametrize("told", [_plain, _awaited])
def test_a_function_gets_the_progress(
    tmp_path: Path, sample: Path, told: Callable[[Calls], Callable[..., Any]]
) -> None:
    """With what is done, what there is, and a record; never backwards, and always at the end."""
    calls = Calls()
    with satchel.Satchel.open() as here:
        here.import_bank("b", sample, allow_uncontained=True, progress=told(calls))
        _require_sound(calls)
        calls.clear()
        here.import_bank("b", sample, allow_uncontained=True, progress=told(calls))
        assert calls[-1] == (2500, 2500, None)  # nothing was new
        calls.clear()
        path = tmp_path / "out.pam"
        here.export_bank("b", path, allow_uncontained=True, progress=told(calls))
        _require_sound(calls)
        assert any(record is not None for _, _, record in calls)


def _require_sound(calls: Calls) -> None:
    assert len(calls) > 1
    done = [call[0] for call in calls]
    assert done == sorted(done)
    assert calls[-1][0] == calls[-1][1] > 0
    totals = [call[1] for call in calls]
    assert totals == sorted(totals)  # while a file is read, what was read of it
    assert len({total for done, total, _ in calls if done}) == 1


@pytest.mark.parametrize("told", [_plain, _awaited])
def test_with_an_event_loop_the_callback_runs_in_its_thread(
    sample: Path, told: Callable[[Calls], Callable[..., Any]]
) -> None:
    """So it may touch what belongs to the loop."""
    calls, threads = Calls(), set[int]()

    async def run() -> None:
        inner = told(calls)

        def noting(*said: Any) -> Any:
            threads.add(threading.get_ident())
            asyncio.get_running_loop()
            return inner(*said)

        async with aio.open() as here:
            await here.import_bank("b", sample, allow_uncontained=True, progress=noting)

    asyncio.run(run())
    _require_sound(calls)
    assert threads == {threading.get_ident()}


def test_an_awaited_function_is_refused_inside_a_loop_that_nobody_turns(sample: Path) -> None:
    """Waiting for it would be for ever; the error says what to use."""

    async def run() -> None:
        with satchel.Satchel.open() as here, pytest.raises(UsageError, match="loop waits"):
            here.import_bank("b", sample, allow_uncontained=True, progress=_awaited([]))

    asyncio.run(run())


def test_what_the_function_raises_stops_an_export_and_leaves_nothing(tmp_path: Path) -> None:
    """What was there before is untouched."""
    path = tmp_path / "out.pam"
    path.write_bytes(b"before")
    with satchel.Satchel.open() as here:
        here.create_bank("b").remember("x")
        with pytest.raises(ZeroDivisionError):
            here.export_bank(
                "b",
                path,
                overwrite=True,
                allow_uncontained=True,
                progress=lambda *_: 1 // 0,
            )
    assert path.read_bytes() == b"before"
    assert [found.name for found in tmp_path.glob("*out*")] == ["out.pam"]


def test_what_the_function_raises_stops_an_import_and_nothing_of_it_is_seen(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one in several transactions. The same call resumes it, with no record twice."""
    monkeypatch.setattr(import_stage, "COMMIT_BYTES", 1)

    async def stop(done: int, *_: Any) -> None:
        if done > 0:
            raise ZeroDivisionError

    async def run() -> None:
        async with aio.open() as here:
            with pytest.raises(ZeroDivisionError):
                await here.import_bank("b", sample, allow_uncontained=True, progress=stop)
            bank = await here.bank("b")
            assert (await bank.stats()).memories == 0
            done = await here.import_bank("b", sample, allow_uncontained=True)
            assert done.banks[0].resumed > 0
            assert (await bank.stats()).memories == 2500

    asyncio.run(run())


def test_a_file_is_imported_into_one_bank_for_each_owner(tmp_path: Path) -> None:
    """Or as ``maps`` says; an owner who is not in it is refused, and a folder is read as a file."""
    path = tmp_path / "a.json"
    rows = [{"memory": "likes tea", "user_id": "ada"}, {"memory": "likes jam", "user_id": "bob"}]
    path.write_text(json.dumps(rows))
    with satchel.Satchel.open() as here:
        done = here.import_(path, maps=["user:ada=a", "user:bob=b"])
        assert sorted(str(one.name) for one in done.banks) == ["a", "b"]
        with pytest.raises(UsageError, match="eve"):
            here.import_(path, maps="user:eve=x")
        again = here.import_(path, dry_run=True)
        assert sorted(str(one.name) for one in again.banks) == ["ada", "bob"]


def test_a_bank_of_a_store_that_is_open_for_reading_imports_nothing(tmp_path: Path) -> None:
    """A dry run reports what would be done."""
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"memory": "likes tea", "user_id": "ada"}]))
    with satchel.Satchel.open() as here:
        here.create_bank("b")
    with satchel.Satchel.open(read_only=True) as here:
        with pytest.raises(ReadOnlyStoreError):
            here.bank("b").import_(path)
        assert here.bank("b").import_(path, dry_run=True).dry_run
        assert len(here.bank("b").list()) == 0
