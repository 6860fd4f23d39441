"""Memory files in several processes: no lost writes, and no torn files after kills or forks."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from satchel.files import MemoryStore

Folder = Callable[[], Path]


_COUNTER = """
import sys
from satchel.files import ConcurrencyError, MemoryStore
store = MemoryStore(root=sys.argv[1])
done = 0
while done < int(sys.argv[2]):
    sha = store.current_sha("counter")
    value = int(store.read_text("counter", "0"))
    try:
        store.write_text("counter", str(value + 1), expected_sha=sha)
        done += 1
    except ConcurrencyError:
        pass
print(done)
"""

_LEASES = """
import sys
from satchel.files import ConcurrencyError, MemoryStore
store = MemoryStore(root=sys.argv[1])
for number in range(int(sys.argv[2])):
    try:
        store.write_text(f"lease/{number}", sys.argv[3], expected_sha="")
        print(number)
    except ConcurrencyError:
        pass
"""

_APPEND = """
import sys
from satchel.files import MemoryStore
store = MemoryStore(root=sys.argv[1])
for number in range(int(sys.argv[2])):
    store.append_text("log.txt", f"{sys.argv[3]} {number}\\n")
"""


def _start(program: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )


def _outputs(processes: list[subprocess.Popen[str]]) -> list[list[str]]:
    found = [(one.communicate(timeout=100)[0].split(), one.returncode) for one in processes]
    assert [status for _, status in found] == [0] * len(processes)
    return [lines for lines, _ in found]


def test_two_processes_lose_no_increment(folder: Folder) -> None:
    """Read, add one, write with the hash: every accepted step is in the sum."""
    root = folder()
    _outputs([_start(_COUNTER, root, 25) for _ in range(2)])

    with MemoryStore(root=root) as store:
        assert store.read_text("counter") == "50"
        assert store.verify_audit().ok


def test_exactly_one_of_two_processes_creates_a_lease(folder: Folder) -> None:
    """Never both, never neither."""
    root = folder()
    one, two = _outputs([_start(_LEASES, root, 40, name) for name in ("one", "two")])

    assert sorted(map(int, one + two)) == list(range(40))


def test_two_processes_lose_no_appended_line(folder: Folder) -> None:
    """Appending reads and writes in one step."""
    root = folder()
    _outputs([_start(_APPEND, root, 25, name) for name in ("one", "two")])
    lines = MemoryStore(root=root).read_text("log.txt").splitlines()

    assert sorted(lines) == sorted(f"{name} {n}" for name in ("one", "two") for n in range(25))


_FOREVER = """
import sys
from satchel.files import MemoryStore
store = MemoryStore(root=sys.argv[1], keep_versions=True)
number = 0
while True:
    store.write_text("big.txt", str(number % 10) * 300_000)
    store.write_text(f"small/{number}.txt", str(number))
    store.delete(f"small/{number - 1}.txt") if number else None
    print(number, flush=True)
    number += 1
"""


def _kill_writer(root: Path, after: int) -> int:
    """Kill a writer during its work; return the last number that it acknowledged."""
    process = _start(_FOREVER, root)
    assert process.stdout is not None
    last = -1
    for line in process.stdout:
        last = int(line)
        if last >= after:
            break
    process.send_signal(signal.SIGKILL)
    rest = process.stdout.read().split()
    process.wait()
    process.stdout.close()
    return int(rest[-1]) if rest else last


def _assert_consistent(root: Path, last: int) -> None:
    with MemoryStore(root=root) as store:
        text = store.read_text("big.txt")
        assert len(text) == 300_000
        assert len(set(text)) == 1
        assert int(text[0]) in {last % 10, (last + 1) % 10}
        assert store.exists(f"small/{last}.txt") or store.exists(f"small/{last + 1}.txt")
        assert len(store.list_paths("small")) <= 2
        assert store.sync() == ((), (), (), ())
        assert store.verify_audit().ok
        for path in store.list_paths():
            meta = store.get_meta(path)
            assert meta is not None
            assert meta.sha256 == store.current_sha(path)
        assert not list((root / "meta" / ".satchel" / "drafts").iterdir())


def test_a_killed_writer_leaves_no_torn_file(folder: Folder) -> None:
    """Every acknowledged write is complete, with its sidecar and its event."""
    root = folder()
    _assert_consistent(root, _kill_writer(root, 3))


@pytest.mark.prove
def test_forty_killed_writers_leave_no_torn_file(folder: Folder) -> None:
    """One after the other, in the same store."""
    root = folder()
    for number in range(40):
        last = _kill_writer(root, 1 + number % 4)
        _assert_consistent(root, last)
        with MemoryStore(root=root) as store:
            store.delete("small", recursive=True)


def test_committed_writes_are_copied_to_the_folder_at_the_next_open(folder: Folder) -> None:
    """After a kill between the commit and the copy, and after a power loss."""
    root = folder()
    with MemoryStore(root=root, keep_versions=True) as store:
        store.write_text("a.txt", "1")
        mark = (root / "meta" / ".satchel" / "copied").read_bytes()
        old = (root / "a.txt").read_bytes()
        store.write_text("a.txt", "2")
        store.write_text("b.txt", "b")
        store.write_text("c.txt", "c")
    (root / "meta" / ".satchel" / "copied").write_bytes(mark)
    (root / "a.txt").write_bytes(old)
    (root / "b.txt").unlink()
    with MemoryStore(root=root) as store:
        assert (store.read_text("a.txt"), store.read_text("b.txt")) == ("2", "b")
    (root / "meta" / ".satchel" / "copied").write_bytes(b"another-boot 99\n")
    (root / "b.txt").write_bytes(b"")
    (root / "c.txt").write_text("edited by hand")
    with MemoryStore(root=root) as store:
        assert store.read_text("b.txt") == "b"
        assert store.read_text("c.txt") == "edited by hand"
        assert [one for one in store.repairs if "b.txt" in one]


def _write_in_child(store: MemoryStore) -> None:
    store.write_text("child.txt", "from the child")
    os._exit(0 if store.read_text("child.txt") == "from the child" else 1)


def test_after_a_fork_both_processes_work(store: MemoryStore) -> None:
    """The child does not block, and the parent reads what it writes."""
    store.write_text("parent.txt", "before")
    child = multiprocessing.get_context("fork").Process(target=_write_in_child, args=(store,))
    child.start()
    child.join(60)

    assert child.exitcode == 0
    store.write_text("parent.txt", "after")
    assert store.read_text("child.txt") == "from the child"
    assert store.verify_audit().ok
