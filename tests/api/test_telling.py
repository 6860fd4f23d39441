"""A program is told how far a transfer got, whether it awaits or not."""

import asyncio
import json
import threading
from pathlib import Path

import pytest

import satchel
from satchel import aio
from satchel.errors import UsageError
from satchel.transfer import import_stage

_Told = list[tuple[int, int, str | None]]


@pytest.fixture(autouse=True)
def in_small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log seven records at a time."""
    monkeypatch.setattr(import_stage, "GROUP", 7)
    monkeypatch.setattr(import_stage, "COMMIT_BYTES", 1)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file of twenty memories."""
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"id": str(n), "memory": f"m {n}"} for n in range(20)]))
    return path


def test_a_plain_callback_gets_done_total_and_the_last_record(source: Path, tmp_path: Path) -> None:
    """Of an import and of an export, each to its end."""
    told = _Told()
    with satchel.Satchel.open() as store:
        bank = store.bank("b")
        bank.import_(source, progress=lambda *step: told.append(step))
        assert [step[:2] for step in told] == [(0, 20), (7, 20), (14, 20), (20, 20)]
        assert bank.show(str(told[-1][2])).record["text"] == "m 19"
        told.clear()
        bank.export(tmp_path / "o.pam", progress=lambda *step: told.append(step))
        assert told[-1][0] == told[-1][1] > 20


def test_a_callback_that_awaits_runs_in_the_loop_of_the_caller(source: Path) -> None:
    """Not in the thread in which the work is done."""
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


def test_an_async_callback_works_with_a_plain_call(source: Path) -> None:
    """It gets a loop of its own; where the caller's loop waits, there can be none."""
    told = _Told()

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


def test_a_callback_that_raises_stops_the_transfer_with_a_note(
    source: Path, tmp_path: Path
) -> None:
    """An import can be gone on with; of an export nothing is there."""

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


def test_receipts_are_available_in_python(source: Path) -> None:
    """Listed, and one by one; a job can be cancelled."""
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
