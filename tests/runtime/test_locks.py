"""Process locks: one holder, an error that names it, and no lock left by a dead holder."""

import errno
import fcntl
import json
import math
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import pytest
from descriptors_kit import descriptors

from satchel.errors import LockedError, PathRefusedError, SatchelError, TargetError, UsageError
from satchel.runtime import locks
from satchel.runtime.files import ModeRepair
from satchel.runtime.locks import LockHolder, ProcessLock

HOST = os.uname().nodename

HOLD = """
import sys
from pathlib import Path
from satchel.runtime.locks import (ProcessLock)

lock = ProcessLock(Path(sys.argv[1]), purpose="a test")
with getattr(lock, sys.argv[2])():
    print("held", flush=True)
    sys.stdin.readline()
print("free", flush=True)
sys.stdin.readline()
"""


class OtherProcess:
    """Another process that runs a program and is controlled by lines."""

    def __init__(self, program: str, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self.process.pid

    def read_line(self) -> str:
        """Return the next line it prints."""
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def resume(self) -> None:
        """Let it take its next step."""
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """Kill it and wait for its end; its children continue."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End it and its children."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.communicate()


@contextmanager
def other_process(program: str, *words: str) -> Iterator[OtherProcess]:
    """Run a program during the block."""
    made = OtherProcess(program, *words)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def held_by_other_process(path: Path, how: str = "exclusive") -> Iterator[OtherProcess]:
    """In the block, another process holds the lock."""
    with other_process(HOLD, str(path), how) as holder:
        assert holder.read_line() == "held"
        yield holder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A lock file that does not exist yet."""
    return tmp_path / "state" / "lock"


def is_held(lock: ProcessLock) -> bool:
    """Return whether the lock is held; a function, since mypy narrows the property."""
    return lock.held


def locked_error(path: Path, *, shared: bool = False) -> LockedError:
    """Return the error of acquiring a lock that is held."""
    with pytest.raises(LockedError) as caught:
        ProcessLock(path).acquire(shared=shared)
    return caught.value


def test_a_lock_is_acquired_and_released(path: Path) -> None:
    """The file is private, names the holder in the meantime, and is not removed."""
    lock = ProcessLock(path, purpose="keeping")
    assert not is_held(lock)
    with lock.exclusive():
        assert is_held(lock)
        found = json.loads(path.read_text())
        assert (found["pid"], found["host"], found["purpose"]) == (os.getpid(), HOST, "keeping")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert lock.holder() == LockHolder(**found)
    assert not is_held(lock)
    assert path.read_bytes() == b""
    assert lock.holder() is None
    lock.release()
    with ProcessLock(path).exclusive():
        pass


def test_a_lock_contains_the_start_time_of_its_program(path: Path) -> None:
    """Not the time of locking; so the holder is found in a list of processes."""
    before = time.time()
    with held_by_other_process(path):
        holder = ProcessLock(path).holder()
    assert holder is not None
    started = datetime.fromisoformat(holder.started).timestamp()
    assert before - 1 < started < time.time() + 1
    assert len(holder.started) == 27


@pytest.mark.parametrize("shared", [True, False])
def test_the_error_names_the_process_and_host_that_hold_the_lock(
    path: Path, *, shared: bool
) -> None:
    """With the purpose, the time and a hint."""
    with held_by_other_process(path) as holder:
        error = locked_error(path, shared=shared)
    assert f"process {holder.pid} on {HOST} (running since " in error.message
    assert "a test" in error.message
    assert f"kill {holder.pid}" in (error.hint or "")
    assert (error.code, error.exit_status, error.file) == ("locked", 5, str(path))
    assert isinstance(error, SatchelError)


def test_a_holder_that_is_killed_leaves_no_lock(path: Path) -> None:
    """Its text in the file is ignored."""
    with held_by_other_process(path) as holder:
        holder.kill()
        assert json.loads(path.read_text())["pid"] == holder.pid
        assert ProcessLock(path).holder() is None
        with ProcessLock(path).exclusive():
            assert json.loads(path.read_text())["pid"] == os.getpid()


_FORKING = """
import os, subprocess, sys
from pathlib import Path
from satchel.runtime.locks import (ProcessLock)

lock = ProcessLock(Path(sys.argv[1]))
lock.acquire()
if sys.argv[2] == "fork":
    if os.fork() == 0:
        print("held", flush=True)
        sys.stdin.readline()
        os._exit(0)
else:
    program = "import sys; print('held', flush=True); sys.stdin.readline()"
    subprocess.Popen([sys.executable, "-c", program], close_fds=False)
os.waitpid(-1, 0)
"""


@pytest.mark.parametrize("how", ["fork", "program"])
def test_a_lock_is_not_inherited_by_children_of_a_killed_holder(path: Path, how: str) -> None:
    """The lock is not inherited."""
    with other_process(_FORKING, str(path), how) as holder:
        assert holder.read_line() == "held"
        locked_error(path)
        holder.kill()
        with ProcessLock(path).exclusive():
            os.killpg(holder.pid, 0)  # raises if the child is not there any more


_CHILD = """
import os, sys
from pathlib import Path
from satchel.runtime.locks import (ProcessLock)
from satchel.errors import LockedError

path = Path(sys.argv[1])
lock = ProcessLock(path)
parent = os.getpid()
child = None
with lock.exclusive():
    with lock.exclusive():
        child = os.fork()
        if not child:
            assert not lock.held
            try:
                lock.acquire()
            except LockedError as error:
                assert f"process {parent} on" in str(error), error
            else:
                raise AssertionError("the child got the parent's lock")
            lock.release()
            lock.release()
    if not child:
        assert not lock.held
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    assert lock.held
    try:
        ProcessLock(path).acquire()
    except LockedError:
        print("kept", flush=True)
assert not lock.held
child = os.fork()
if not child:
    with lock.exclusive():
        assert lock.held
    os._exit(0)
print(os.waitpid(child, 0)[1], flush=True)
"""


def test_a_child_neither_holds_nor_releases_its_parents_lock(path: Path) -> None:
    """Not by asking, by releasing, or by leaving the block of its parent."""
    with other_process(_CHILD, str(path)) as parent:
        assert parent.read_line() == "kept"
        assert parent.read_line() == "0"


_BUSY = """
import os, sys, threading
from pathlib import Path
from satchel.runtime.locks import (ProcessLock)
from satchel.errors import LockedError

path = Path(sys.argv[1])
lock, done = ProcessLock(path), threading.Event()

def busy():
    while not done.is_set():
        with lock.exclusive():
            pass

thread = threading.Thread(target=busy)
thread.start()
for _ in range(30):
    child = os.fork()
    if not child:
        try:
            lock.acquire()
        except LockedError:
            pass
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
done.set()
thread.join()
with lock.exclusive():
    print("free", flush=True)
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_during_locking_neither_blocks_nor_leaks(path: Path) -> None:
    """The thread that was acquiring the lock does not exist in the child."""
    with other_process(_BUSY, str(path)) as busy:
        assert busy.read_line() == "free"


_COUNT = """
import sys
from pathlib import Path
from satchel.runtime.locks import (ProcessLock)

lock, counter = ProcessLock(Path(sys.argv[1])), Path(sys.argv[2])
for _ in range(50):
    with lock.exclusive(wait=60):
        counter.write_text(str(int(counter.read_text()) + 1))
"""


def test_a_lock_is_held_by_one_process_at_a_time(path: Path, tmp_path: Path) -> None:
    """Four processes count to two hundred; no step is lost."""
    counter = tmp_path / "counter"
    counter.write_text("0")
    processes = [
        subprocess.Popen([sys.executable, "-c", _COUNT, str(path), str(counter)]) for _ in range(4)
    ]
    assert [process.wait() for process in processes] == [0, 0, 0, 0]
    assert counter.read_text() == "200"


def test_shared_holders_exclude_an_exclusive_one(path: Path) -> None:
    """Readers are not named: there may be many."""
    with held_by_other_process(path, "shared"):
        with ProcessLock(path).shared():
            assert path.read_bytes() == b""
        error = locked_error(path)
        assert "may be reading" in error.message
        assert error.hint
    with ProcessLock(path).exclusive():
        pass


def _line(**changed: object) -> bytes:
    found: dict[str, object] = {"pid": os.getpid(), "host": HOST, "started": "then"}
    return json.dumps(found | changed).encode() + b"\n"


@pytest.mark.in_check(5)
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"\0" * 5000,
        b"\xff\xfe",
        b"[" * 4000,
        b"7",
        _line()[:-9],
        _line(ticks=1),
        _line(pid=0),
        _line(pid=-1),
        _line(pid=2**70),
        _line(pid="1"),
        _line(pid=2**31 - 1),
        _line(host=["x"]),
        _line(purpose="x" * 5000),
    ],
    ids=range(15),
)
def test_a_stale_or_malformed_holder_is_not_reported(path: Path, text: bytes) -> None:
    """Left by a killed process, with a reused pid, or garbage."""
    with ProcessLock(path).exclusive():
        pass
    path.write_bytes(text)
    assert ProcessLock(path).holder() is None
    with held_by_other_process(path, "shared"):
        path.write_bytes(text)
        assert "another process is using this" in locked_error(path).message
    path.write_bytes(text)
    with ProcessLock(path).exclusive():
        assert json.loads(path.read_text())["pid"] == os.getpid()
    path.write_bytes(text)
    with ProcessLock(path).shared():
        assert path.read_bytes() == b""


def test_a_holder_on_another_host_is_reported_with_its_host(path: Path) -> None:
    """On a shared disk its pid is meaningless here, so no hint says to kill it."""
    with held_by_other_process(path):
        path.write_bytes(_line(pid=2**31 - 1, host="elsewhere", purpose="a\x1b[2Jb"))
        error = locked_error(path)
    assert "on elsewhere" in error.message
    assert "a?[2Jb" in error.message
    assert "on elsewhere" in (error.hint or "")
    assert "kill" not in (error.hint or "")


def test_the_error_waits_briefly_for_the_name_of_the_holder(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between locking and writing there is a moment."""
    with held_by_other_process(path) as holder:
        text = path.read_bytes()
        path.write_bytes(b"")
        monkeypatch.setattr(time, "sleep", lambda _: path.write_bytes(text))
        assert f"process {holder.pid} " in locked_error(path).message


def test_a_waiter_acquires_the_lock_when_it_is_released(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder releases it while the other process waits."""
    with held_by_other_process(path) as holder:

        def leave(_: float) -> None:
            holder.resume()
            assert holder.read_line() == "free"

        monkeypatch.setattr(time, "sleep", leave)
        with ProcessLock(path).exclusive(wait=math.inf):
            assert json.loads(path.read_text())["pid"] == os.getpid()


def test_a_waiter_backs_off_up_to_the_timeout(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a millisecond to a tenth of a second."""
    pauses: list[float] = []
    with held_by_other_process(path):
        monkeypatch.setattr(time, "sleep", pauses.append)
        monkeypatch.setattr(time, "monotonic", lambda: sum(pauses))
        with pytest.raises(LockedError):
            ProcessLock(path).acquire(wait=1.0)
    assert pauses[:4] == [0.001, 0.002, 0.005, 0.01]
    assert max(pauses) == 0.1
    assert sum(pauses) == pytest.approx(1.0)


def test_threads_share_the_lock_of_their_process(path: Path) -> None:
    """The last thread releases it."""
    lock = ProcessLock(path)
    inside, outside = threading.Event(), threading.Event()

    def work() -> None:
        with lock.exclusive(), lock.shared():
            inside.set()
            outside.wait(60)

    thread = threading.Thread(target=work)
    with lock.exclusive():
        thread.start()
        assert inside.wait(60)
    assert is_held(lock)
    assert "This process itself" in (locked_error(path).hint or "")
    outside.set()
    thread.join()
    assert not is_held(lock)
    with ProcessLock(path).exclusive():
        pass


def test_a_shared_lock_cannot_be_upgraded(path: Path) -> None:
    """Two shared holders that both upgrade would wait for ever."""
    lock = ProcessLock(path)
    with lock.shared():
        with pytest.raises(UsageError, match="held shared"):
            lock.acquire(wait=math.inf)
        with lock.shared():
            pass
        assert is_held(lock)
    assert not is_held(lock)


def test_an_exception_in_the_block_releases_the_lock(path: Path) -> None:
    """Also an interrupt."""
    lock = ProcessLock(path)

    def fail() -> None:
        with lock.exclusive():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert not is_held(lock)
    with ProcessLock(path).exclusive():
        pass


def _plant_link(path: Path, victim: Path) -> None:
    path.symlink_to(victim)


def _plant_dangling(path: Path, victim: Path) -> None:
    path.symlink_to(victim.with_name("nowhere"))


def _plant_hard_link(path: Path, victim: Path) -> None:
    path.hardlink_to(victim)


def _plant_fifo(path: Path, _: Path) -> None:
    os.mkfifo(path)


def _plant_folder(path: Path, victim: Path) -> None:
    path.parent.rmdir()
    victim.with_name("folder").mkdir()
    path.parent.symlink_to(victim.with_name("folder"))


@pytest.mark.parametrize(
    "plant", [_plant_link, _plant_dangling, _plant_hard_link, _plant_fifo, _plant_folder]
)
def test_attack_a_planted_lock_file_is_refused(
    path: Path, tmp_path: Path, plant: Callable[[Path, Path], None]
) -> None:
    """The lock must not truncate another file, or create one elsewhere."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"theirs")
    path.parent.mkdir()
    plant(path, victim)
    before = sorted(tmp_path.rglob("*"))
    for shared in (True, False):
        lock = ProcessLock(path)
        with pytest.raises(PathRefusedError):
            lock.acquire(shared=shared, wait=math.inf)
        assert not is_held(lock)
        assert lock.holder() is None
    assert victim.read_bytes() == b"theirs"
    assert sorted(tmp_path.rglob("*")) == before


def test_a_lock_file_with_open_permissions_is_repaired_and_reported(path: Path) -> None:
    """Other users who can open it can hold it for ever."""
    lock = ProcessLock(path)
    with lock.exclusive():
        pass
    path.chmod(0o666)
    with lock.exclusive():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert lock.repairs == [ModeRepair(path, 0o666, 0o600)]


def test_a_deleted_lock_file_is_not_the_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is the file that the next process finds at the path."""
    real = locks._flock
    deleted: list[bool] = []

    def deleting(handle: int, how: int) -> bool:
        if not deleted:
            path.unlink()
            deleted.append(True)
        return real(handle, how)

    monkeypatch.setattr(locks, "_flock", deleting)
    with ProcessLock(path).exclusive():
        assert "This process itself" in (locked_error(path).hint or "")


def test_a_full_disk_does_not_prevent_locking(small_disk: Path) -> None:
    """Without space for the holder's name; freeing space may need the lock."""
    path = small_disk / "state" / "lock"
    with ProcessLock(path).exclusive():
        pass
    with suppress(OSError), (small_disk / "filler").open("wb", 0) as filler:
        while True:
            filler.write(b"x" * 4096)
    with ProcessLock(path).exclusive():
        assert path.read_bytes() == b""
        assert "another process" in locked_error(path).message


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO])
def test_a_file_system_without_locks_is_a_typed_error(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Never treated as a free or held lock; no descriptor stays open."""

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    before = descriptors()
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", refuse)
        lock = ProcessLock(path)
        with pytest.raises(TargetError):
            lock.acquire(wait=math.inf)
        assert not is_held(lock)
    assert descriptors() <= before
