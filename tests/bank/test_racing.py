"""Several writers at once: one is current at the end, and none is lost."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from itertools import count

import pytest
from bank_kit import filled, keep, texts

from satchel.bank.changes import MemoryEdit, forget, remember, update
from satchel.bank.details import history
from satchel.bank.listings import ListRequest, list_memories
from satchel.bank.open_bank import OpenBank
from satchel.errors import RetiredMemoryError, SatchelError

_PROGRAM = """
import sys
from bank_kit import filled
from satchel.bank.changes import remember
who, times = sys.argv[1], int(sys.argv[2])
with filled() as bank:
    for turn in range(times):
        done = remember(bank, {"text": f"{who} {turn}"}, key="k")
        print(done.id, flush=True)
"""


def start(who: str, times: int) -> "subprocess.Popen[str]":
    """Start a process that remembers under one key."""
    program = f"import sys; sys.path[:0] = {sys.path!r}\n{_PROGRAM}"
    words = [sys.executable, "-c", program, who, str(times)]
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )


def test_processes_that_remember_under_one_key_lose_nothing(bank: OpenBank) -> None:
    """Each version is in the history; the last one is current."""
    started = [start(who, 12) for who in ("a", "b", "c")]
    ran = [each.communicate(timeout=100) for each in started]
    assert [error for _, error in ran] == [""] * 3
    ids = {line for out, _ in ran for line in out.split()}
    assert len(ids) == 36
    (current,) = list_memories(bank, ListRequest(key="k"))
    found = history(bank, current.id)
    assert {each.id for each in found.versions} == ids
    assert found.versions[-1].id == current.id
    assert [each.state for each in found.versions] == ["superseded"] * 35 + ["current"]
    # Each took the place of the one right before it, and of no other.
    taken = [event.by for each in found.versions for event in each.events]
    assert taken == [each.id for each in found.versions[1:]]


@pytest.mark.prove
def test_a_killed_process_loses_nothing_that_was_acknowledged(bank: OpenBank) -> None:
    """Twenty kills in the middle of it: what was acknowledged is there, and one is current."""
    acknowledged: list[str] = []
    for turn in count():
        if turn == 20:
            break
        other, killed = start("other", 4), start("killed", 10_000)
        assert killed.stdout is not None
        lines = [killed.stdout.readline().strip() for _ in range(turn % 5 + 1)]
        killed.send_signal(signal.SIGKILL)
        rest, _ = killed.communicate(timeout=60)
        out, error = other.communicate(timeout=60)
        assert (other.returncode, error) == (0, "")
        acknowledged += [*lines, *rest.split(), *out.split()]
        (current,) = list_memories(bank, ListRequest(key="k"))
        found = history(bank, current.id, limit=100_000)
        assert set(acknowledged) <= {each.id for each in found.versions}
        assert [each.state for each in found.versions].count("current") == 1


def together(*calls: Callable[[], object]) -> list[object]:
    """Call all at once, each in a thread, and return what came of it."""
    gate = threading.Barrier(len(calls))
    results: list[object] = [None] * len(calls)

    def run(place: int, call: Callable[[], object]) -> None:
        gate.wait(10)
        try:
            results[place] = call()
        except SatchelError as error:
            results[place] = error

    threads = [threading.Thread(target=run, args=each) for each in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


def test_of_concurrent_updates_one_succeeds_and_the_others_fail(bank: OpenBank) -> None:
    """Without a key there is nothing else that would keep two from being current."""
    for turn in range(5):
        old = keep(bank, f"old {turn}")
        edits = [MemoryEdit(members={"text": str(number)}) for number in range(4)]
        done = together(*(partial(update, bank, old, edit) for edit in edits))
        refused = [each for each in done if isinstance(each, RetiredMemoryError)]
        assert len(refused) == 3
        (current,) = list_memories(bank, ListRequest(limit=1))
        assert {each.current for each in refused} == {current.id}
        assert len(texts(bank)) == turn + 1


def test_of_a_concurrent_change_and_forget_one_wins(bank: OpenBank) -> None:
    """What somebody was told is forgotten does not go on in a new version."""
    for turn in range(8):
        old = keep(bank, f"old {turn}")
        edit = MemoryEdit(members={"text": "new"})
        changed, gone = together(partial(update, bank, old, edit), partial(forget, bank, [old]))
        assert isinstance(changed, RetiredMemoryError) != isinstance(gone, RetiredMemoryError)
        shown = texts(bank)
        assert shown == ([] if isinstance(changed, RetiredMemoryError) else ["new"])
        for memory in list_memories(bank, ListRequest()):
            forget(bank, [memory.id])


def test_threads_of_one_bank_that_remember_under_one_key_lose_nothing(bank: OpenBank) -> None:
    """Also where their appends are committed together."""
    done = together(
        *(partial(remember, bank, {"text": str(n)}, key="k") for n in range(8)),
    )
    assert not [each for each in done if isinstance(each, Exception)]
    (current,) = list_memories(bank, ListRequest(key="k"))
    assert len(history(bank, current.id).versions) == 8


def test_another_program_that_changed_it_is_seen(bank: OpenBank) -> None:
    """Between looking and writing: the second look finds the newer version, and names it."""
    old = keep(bank, "old")
    append, newer = bank.ledger.append, list[str]()

    def late(*arguments: object, **options: object) -> list[int]:
        if not newer:
            newer.append("")
            with filled() as other:
                newer[0] = update(other, old, MemoryEdit(members={"text": "theirs"})).id
        return append(*arguments, **options)  # type: ignore[arg-type]

    bank.ledger.append = late  # type: ignore[method-assign]
    with pytest.raises(RetiredMemoryError) as raised:
        update(bank, old, MemoryEdit(members={"text": "ours"}))
    assert raised.value.current == newer[0]
    assert texts(bank) == ["theirs"]
