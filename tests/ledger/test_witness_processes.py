"""Several processes and one witness: no line is lost, torn or forgotten."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from heads_kit import BANK, signed

from satchel.ledger.witness import Witness, WitnessOutcome
from satchel.ledger.witness_file import WitnessedHead, format_line

WRITER = """
import sys
from pathlib import Path

from heads_kit import signed

from satchel.ledger import witness as witness_module
from satchel.ledger import witness_file
from satchel.ledger.witness import Witness

if len(sys.argv) > 2:
    witness_module.COMPACT_BYTES = witness_file.COMPACT_BYTES = int(sys.argv[2])
witness = Witness(Path(sys.argv[1]))
print("ready", flush=True)
for word in sys.stdin:
    for size in range(*map(int, word.split())):
        print(size, witness.record(signed(size)).value, flush=True)
"""
"""Records the heads of a range, such as ``1 9 2``, for each line that it is sent."""

VICTIM = """
import os, resource, signal, sys
from pathlib import Path

from heads_kit import BANK, signed

from satchel.ledger import witness as witness_module
from satchel.ledger import witness_file
from satchel.ledger.witness import Witness

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

moment, folder, size = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
witness_module.COMPACT_BYTES = witness_file.COMPACT_BYTES = int(sys.argv[4])
if moment.isdigit():
    # The kernel takes the line up to this byte of the file, and ends the process at the next.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(moment), int(moment)))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
elif moment == "fsync of the folder":
    sync, calls = os.fsync, []
    os.fsync = lambda handle: die() if calls else calls.append(sync(handle))
elif moment == "replace":
    os.replace = die
elif moment == "replaced":
    replace = os.replace
    os.replace = lambda *names, **folders: die(replace(*names, **folders))
else:
    setattr(os, moment, die)
Witness(folder).record(signed(size))
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a program of this file as a process; none outlives the test."""
    running = []
    kit = Path(signed.__code__.co_filename).parent

    def call(program: str, *arguments: object) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(kit), *sys.path])},
        )
        running.append(process)
        return process

    yield call
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    """A witness that has seen nothing."""
    return Witness(tmp_path / "witness")


def read_line(process: "subprocess.Popen[str]") -> str:
    """Wait for a line of a process."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def send_line(process: "subprocess.Popen[str]", word: str) -> None:
    """Send a line to a process."""
    assert process.stdin is not None
    process.stdin.write(word + "\n")
    process.stdin.flush()


def heads_file(witness: Witness) -> Path:
    """Return the file of heads."""
    return witness.folder / f"{BANK.removeprefix('blake3:')}.heads"


def test_concurrent_recorders_write_every_line_whole_and_in_order(
    witness: Witness, start: Start
) -> None:
    """Four writers, 200 heads: every acknowledged head exists, and the newest is returned."""
    writers = [start(WRITER, witness.folder) for _ in range(4)]
    assert [read_line(writer) for writer in writers] == ["ready"] * 4
    for first, writer in enumerate(writers, 1):
        send_line(writer, f"{first} 201 4")
    said = [read_line(writer).split() for _ in range(50) for writer in writers]

    wrote = {int(size) for size, result in said if result == WitnessOutcome.WRITTEN}
    assert len(said) == 200
    assert [head.head.size for head in witness.heads(BANK)] == sorted(wrote)
    assert max(wrote) == 200
    assert heads_file(witness).read_bytes() == b"".join(
        format_line(signed(n)) for n in sorted(wrote)
    )


def test_a_reader_sees_heads_of_another_process_immediately(witness: Witness, start: Start) -> None:
    """Once acknowledged, a read must not accept an older store any more."""
    writer = start(WRITER, witness.folder)
    assert read_line(writer) == "ready"
    for size in range(1, 51):
        before = witness.cached_last(BANK)
        assert before is None or before.head.size == size - 1
        send_line(writer, f"{size} {size + 1}")
        assert read_line(writer) == f"{size} written"
        found = witness.cached_last(BANK)
        assert found is not None
        assert found.head.size == size


@pytest.mark.parametrize("bound", [1 << 20, 5_000], ids=["long", "compacted often"])
def test_a_reader_of_a_busy_file_never_goes_back(
    witness: Witness, start: Start, bound: int
) -> None:
    """Lines are written and files replaced all the time, and never mistaken for damage."""
    writers = [start(WRITER, witness.folder, bound) for _ in range(2)]
    assert [read_line(writer) for writer in writers] == ["ready"] * 2
    for writer in writers:
        send_line(writer, "1 151")
    looks: list[Callable[[str], WitnessedHead | None]] = [witness.last, witness.cached_last]
    sizes = [0]
    while sizes[-1] < 150:
        for look in looks:
            found = look(BANK)
            sizes.append(0 if found is None else found.head.size)
    assert sizes == sorted(sizes)
    assert witness.heads(BANK)[-1].head.size == 150
    assert (len(witness.heads(BANK)) < 150) == (bound < 1 << 20)


def kill_while_recording(witness: Witness, start: Start, rounds: int) -> None:
    """Kill a writer after some acknowledgments; require all that it acknowledged."""
    chance = random.Random(11)  # noqa: S311 - the same moments each time
    size = 1
    for _ in range(rounds):
        writer = start(WRITER, witness.folder)
        assert read_line(writer) == "ready"
        send_line(writer, f"{size} {size + 1000}")
        acknowledged = [read_line(writer) for _ in range(chance.randrange(1, 30))]
        writer.send_signal(signal.SIGKILL)
        # Not communicate(): it reads past the lines that readline() had taken in ahead.
        assert writer.stdout is not None
        rest = writer.stdout.read().splitlines()
        newest = int([*acknowledged, *rest][-1].split()[0])
        found = Witness(witness.folder).last(BANK)
        assert found is not None
        assert found.head.size in {newest, newest + 1}
        size = found.head.size + 1
        assert [head.head.size for head in witness.heads(BANK)] == list(range(1, size))


def test_a_recorder_that_is_killed_keeps_acknowledged_heads(witness: Witness, start: Start) -> None:
    """Fault: kill -9 at a random moment, three times; the next process continues."""
    kill_while_recording(witness, start, 3)


@pytest.mark.prove
def test_a_recorder_that_is_killed_repeatedly_keeps_acknowledged_heads(
    witness: Witness, start: Start
) -> None:
    """Fault: the same, forty times on one file."""
    kill_while_recording(witness, start, 40)


@pytest.mark.in_check(3)
@pytest.mark.parametrize("byte", [0, 1, 4, 21, 22, 300, -2, -1])
def test_a_line_torn_by_a_kill_is_ignored(witness: Witness, start: Start, byte: int) -> None:
    """Fault: the kernel ends the process within the line; the next append truncates it."""
    witness.record(signed(1))
    line, before = format_line(signed(2)), heads_file(witness).read_bytes()
    taken = byte % len(line)
    victim = start(VICTIM, len(before) + taken, witness.folder, 2, 1 << 20)
    assert victim.wait() == -signal.SIGXFSZ
    assert heads_file(witness).read_bytes() == before + line[:taken]
    found = Witness(witness.folder).last(BANK)
    assert found is not None
    assert found.head.size == (2 if byte == -1 else 1)
    witness.record(signed(2))
    assert [head.head.size for head in witness.heads(BANK)] == [1, 2]
    assert witness.record(signed(3)) is WitnessOutcome.WRITTEN
    assert heads_file(witness).read_bytes() == before + line + format_line(signed(3))


@pytest.mark.parametrize("moment", ["ftruncate", "pwrite", "fdatasync"])
def test_a_kill_before_the_acknowledgment_lets_the_next_process_resume(
    witness: Witness, start: Start, moment: str
) -> None:
    """Fault: kill -9 before each step of an append, including the very first."""
    witness.folder.mkdir(mode=0o700)
    for size in (1, 2):
        if moment == "ftruncate":  # there is something to truncate
            with heads_file(witness).open("ab") as stream:
                stream.write(format_line(signed(size))[:300])
        victim = start(VICTIM, moment, witness.folder, size, 1 << 20)
        assert victim.wait() == -signal.SIGKILL
        there = moment == "fdatasync"
        assert (witness.last(BANK) is None) == (size == 1 and not there)
        expected = WitnessOutcome.COVERED if there else WitnessOutcome.WRITTEN
        assert witness.record(signed(size)) is expected
        assert [head.head.size for head in witness.heads(BANK)] == list(range(1, size + 1))


@pytest.mark.parametrize("moment", ["fsync", "replace", "replaced", "fsync of the folder"])
def test_a_kill_during_compaction_keeps_the_newest_head(
    witness: Witness, start: Start, moment: str
) -> None:
    """Fault: kill -9 between the steps of the rewrite; the next process clears its leftovers."""
    witness.record(signed(1))
    with heads_file(witness).open("ab") as stream:
        stream.writelines(format_line(signed(size)) for size in range(2, 21))
    before = heads_file(witness).read_bytes()
    victim = start(VICTIM, moment, witness.folder, 21, len(before) + 1)
    assert victim.wait() == -signal.SIGKILL

    found = Witness(witness.folder).last(BANK)
    assert found is not None
    assert found.value == signed(21)
    kept = [head.head.size for head in witness.heads(BANK)]
    assert kept[0] == 1
    assert len(kept) == 21 if moment in {"fsync", "replace"} else len(kept) < 12
    assert witness.record(signed(22)) is WitnessOutcome.WRITTEN
    witness.compact(BANK)
    assert sorted(path.suffix for path in witness.folder.iterdir()) == [".heads", ".lock"]
