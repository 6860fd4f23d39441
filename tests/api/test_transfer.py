"""Transfers from Python: banks by name, progress callbacks, receipts and jobs."""

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


def test_banks_are_exported_and_imported_by_name(tmp_path: Path) -> None:
    """Each bank into another store."""
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


def test_a_bank_is_identified_by_name_or_id(tmp_path: Path, sample: Path) -> None:
    """A missing name does not select the only bank."""
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


def test_import_bank_into_a_read_only_store_is_refused(sample: Path) -> None:
    """A dry run reports the expected result."""
    with satchel.Satchel.open() as here:
        here.create_bank("b")
    with satchel.Satchel.open(read_only=True) as here:
        with pytest.raises(ReadOnlyStoreError):
            here.import_bank("b", sample, allow_uncontained=True)
        done = here.import_bank("b", sample, allow_uncontained=True, dry_run=True)
        assert done.banks[0].done.added == 2500


def test_a_misspelled_option_is_refused_by_name(tmp_path: Path, sample: Path) -> None:
    """It is not ignored."""
    with satchel.Satchel.open() as here:
        here.create_bank("b")
        with pytest.raises(TypeError, match="allow_root"):
            here.import_bank("b", sample, allow_root=[tmp_path])  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="path_"):
            here.export_bank("b", tmp_path / "x.pam", path_=1)  # type: ignore[call-arg]


Calls = list[tuple[int, int, str | None]]


def _synchronous(calls: Calls) -> Callable[..., Any]:
    return lambda *said: calls.append(said)


def _asynchronous(calls: Calls) -> Callable[..., Any]:
    async def make_callback(done: int, total: int, record: str | None) -> None:
        await asyncio.sleep(0)
        calls.append((done, total, record))

    return make_callback


@pytest.mark.parametrize("make_callback", [_synchronous, _asynchronous])
def test_progress_is_monotonic_and_complete(
    tmp_path: Path, sample: Path, make_callback: Callable[[Calls], Callable[..., Any]]
) -> None:
    """With the number done, the total and a record."""
    calls = Calls()
    with satchel.Satchel.open() as here:
        here.import_bank("b", sample, allow_uncontained=True, progress=make_callback(calls))
        _require_monotonic(calls)
        calls.clear()
        here.import_bank("b", sample, allow_uncontained=True, progress=make_callback(calls))
        assert calls[-1] == (2500, 2500, None)  # nothing was new
        calls.clear()
        path = tmp_path / "out.pam"
        here.export_bank("b", path, allow_uncontained=True, progress=make_callback(calls))
        _require_monotonic(calls)
        assert any(record is not None for _, _, record in calls)


def _require_monotonic(calls: Calls) -> None:
    assert len(calls) > 1
    done = [call[0] for call in calls]
    assert done == sorted(done)
    assert calls[-1][0] == calls[-1][1] > 0
    totals = [call[1] for call in calls]
    assert totals == sorted(totals)  # during the read, the bytes read
    assert len({total for done, total, _ in calls if done}) == 1


@pytest.mark.parametrize("make_callback", [_synchronous, _asynchronous])
def test_progress_callbacks_run_in_the_thread_of_the_event_loop(
    sample: Path, make_callback: Callable[[Calls], Callable[..., Any]]
) -> None:
    """So they may use objects of the loop."""
    calls, threads = Calls(), set[int]()

    async def run() -> None:
        inner = make_callback(calls)

        def noting(*said: Any) -> Any:
            threads.add(threading.get_ident())
            asyncio.get_running_loop()
            return inner(*said)

        async with aio.open() as here:
            await here.import_bank("b", sample, allow_uncontained=True, progress=noting)

    asyncio.run(run())
    _require_monotonic(calls)
    assert threads == {threading.get_ident()}


def test_an_async_callback_is_refused_while_its_loop_is_blocked(sample: Path) -> None:
    """It would wait forever; the error suggests the async call."""

    async def run() -> None:
        with satchel.Satchel.open() as here, pytest.raises(UsageError, match="loop waits"):
            here.import_bank("b", sample, allow_uncontained=True, progress=_asynchronous([]))

    asyncio.run(run())


def test_an_error_of_the_callback_stops_an_export_and_keeps_the_old_file(tmp_path: Path) -> None:
    """No temporary file is left."""
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


def test_an_error_of_the_callback_stops_an_import_and_shows_none_of_it(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several transactions. The same call resumes it without a duplicate."""
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
    """Or as ``maps`` says; an owner that is not in it is refused."""
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


def test_import_into_a_bank_of_a_read_only_store_is_refused(tmp_path: Path) -> None:
    """A dry run reports the expected result."""
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"memory": "likes tea", "user_id": "ada"}]))
    with satchel.Satchel.open() as here:
        here.create_bank("b")
    with satchel.Satchel.open(read_only=True) as here:
        with pytest.raises(ReadOnlyStoreError):
            here.bank("b").import_(path)
        assert here.bank("b").import_(path, dry_run=True).dry_run
        assert len(here.bank("b").list()) == 0


# -- progress in steps -------------------------------------------------------------------


_Steps = list[tuple[int, int, str | None]]


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit seven records at a time."""
    monkeypatch.setattr(import_stage, "GROUP", 7)
    monkeypatch.setattr(import_stage, "COMMIT_BYTES", 1)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file of twenty memories."""
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"id": str(n), "memory": f"m {n}"} for n in range(20)]))
    return path


@pytest.mark.usefixtures("small_groups")
def test_a_progress_callback_gets_done_total_and_the_last_record(
    source: Path, tmp_path: Path
) -> None:
    """Of an import and of an export, to the end."""
    told = _Steps()
    with satchel.Satchel.open() as store:
        bank = store.bank("b")
        bank.import_(source, progress=lambda *step: told.append(step))
        assert [step[:2] for step in told] == [(0, 20), (7, 20), (14, 20), (20, 20)]
        assert bank.show(str(told[-1][2])).record["text"] == "m 19"
        told.clear()
        bank.export(tmp_path / "o.pam", progress=lambda *step: told.append(step))
        assert told[-1][0] == told[-1][1] > 20


@pytest.mark.usefixtures("small_groups")
def test_an_async_progress_callback_runs_in_the_loop_of_the_caller(source: Path) -> None:
    """Not in the worker thread."""
    told = list[bool]()

    async def tell(_done: int, _total: int, _record: str | None) -> None:
        await asyncio.sleep(0)
        told.append(threading.current_thread() is threading.main_thread())

    async def run() -> None:
        async with aio.Satchel.open() as store:
            bank = await store.bank("b")
            await bank.import_(source, progress=tell)

    asyncio.run(run())
    assert told == [True] * 4


@pytest.mark.usefixtures("small_groups")
def test_an_async_progress_callback_works_with_a_synchronous_call(source: Path) -> None:
    """Except within a running event loop."""
    told = _Steps()

    async def tell(*step: object) -> None:
        await asyncio.sleep(0)
        told.append(step)  # type: ignore[arg-type]

    async def run(bank: satchel.Bank) -> None:
        bank.import_(source, progress=tell)

    with satchel.Satchel.open() as store:
        bank = store.bank("b")
        with pytest.raises(UsageError, match="async callback"):
            asyncio.run(run(bank))
        bank.import_(source, progress=tell)
    assert told[-1][:2] == (20, 20)


@pytest.mark.usefixtures("small_groups")
def test_a_progress_callback_that_raises_stops_the_transfer(source: Path, tmp_path: Path) -> None:
    """An import can be resumed; an export writes nothing. A note on the error says so."""

    def angry(done: int, *_: object) -> None:
        if done:
            raise ValueError("enough")

    with satchel.Satchel.open() as store:
        bank = store.bank("b")
        with pytest.raises(ValueError, match="enough") as caught:
            bank.import_(source, progress=angry)
        assert "Nothing of it is visible" in caught.value.__notes__[0]
        (job,) = store.jobs()
        assert store.resume_job(job.id).banks[0].resumed == 7
        assert store.jobs() == []
        with pytest.raises(ValueError, match="enough") as caught:
            bank.export(tmp_path / "o.pam", progress=angry)
        assert caught.value.__notes__ == ["Nothing was written."]
    assert not (tmp_path / "o.pam").exists()


@pytest.mark.usefixtures("small_groups")
def test_receipts_and_jobs_are_available_in_python(source: Path) -> None:
    """A job can be canceled."""
    with satchel.Satchel.open() as store:
        bank = store.bank("b")
        done = bank.import_(source)
        (line,) = store.receipts("b")
        assert [line.id] == done.receipts
        assert store.receipt(line.id).outcome == "good"
        source.write_text(json.dumps([{"id": "x", "memory": "m"}]))

        def angry(done: int, *_: object) -> None:
            if done:
                raise ValueError("enough")

        with pytest.raises(ValueError, match="enough"):
            bank.import_(source, progress=angry)
        (job,) = store.jobs()
        assert store.cancel_job(job.id, reason="wrong file").records == 1
