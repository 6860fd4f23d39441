"""The command line on a terminal: progress, width, wrapping and colors."""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

from satchel.api.store import Satchel

if TYPE_CHECKING:
    from tests.cli.conftest import Run


LONG = (
    "Ada's ferry 咖啡 leaves the third pier, which is further from here than any line is wide. " * 3
)


@pytest.mark.parametrize("color", ["NO_COLOR", "TERM", ""], ids=["off", "dumb", "usual"])
def test_the_tree_of_memory_fits_into_80_columns(
    satchel: Run, monkeypatch: pytest.MonkeyPatch, color: str
) -> None:
    """Without a terminal there is no color; recalled text is printed in full."""
    monkeypatch.delenv("COLUMNS", raising=False)
    if color:
        monkeypatch.setenv(color, "1" if color == "NO_COLOR" else "dumb")
    for number in range(3):
        text = f"{number} {LONG} \x1b[31mred"
        assert satchel("remember", text, "--tag", "a" * 60, "--agent", "b" * 60).status == 0
    recalled, tree = satchel("recall", "ferry").out, satchel("amplihack", "tree").out
    assert "Ada" in recalled
    assert "\x1b" not in recalled + tree
    assert [line for line in tree.splitlines() if cell_len(line) > 80] == []
    assert satchel("recall", "ferry", "--json").json["memories"]
    assert satchel("amplihack", "tree", "--json").json


def _terminal_output(*arguments: str, columns: int = 80, **more: str) -> str:
    """Return the output of a command on a terminal."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm", **more}
    for name in ("COLUMNS", "LINES", *({"NO_COLOR"} - more.keys())):
        environment.pop(name, None)
    command = [sys.executable, "-m", "satchel", *arguments]
    with subprocess.Popen(command, env=environment, stdout=its, stderr=its, stdin=its):
        os.close(its)
        found = b""
        with suppress(OSError):  # the other end is closed
            while part := os.read(ours, 1 << 16):
                found += part
        os.close(ours)
    return found.decode().replace("\r\n", "\n")


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


CHINESE = (
    "渡船在第三码头、比这里任何一行都远、艾达在工作日的七点一刻乘坐、周末则更晚一些、她喜欢喝咖啡"
)
NOTES = (
    "Ferry notes:\n"
    "    - tickets are bought early, and at the third pier, by Ada herself and by nobody else\n"
)


def test_on_a_terminal_memories_are_wrapped_between_words(
    satchel: Run,
) -> None:
    """Indented like their lines; no word is broken, and nothing is omitted."""
    for text in (LONG.strip(), f"ferry {CHINESE}", NOTES):
        assert satchel("remember", text).status == 0
    plain = _plain(satchel("recall", "ferry").out)
    assert f"  {LONG.strip()}\n" in plain  # one line, to be searched
    seen = _terminal_output("recall", "ferry", NO_COLOR="1")
    assert re.search(r"\x1b\[[0-9;]*[34][0-9]", seen) is None
    seen = _plain(seen)
    lines = seen.splitlines()
    assert max(map(cell_len, lines)) in range(70, 81)
    assert not any(line.endswith(" ") for line in lines)
    squeezed = re.sub(r"\s", "", seen)
    assert squeezed == re.sub(r"\s", "", plain)
    (at,) = (number for number, line in enumerate(lines) if "- tickets" in line)
    assert lines[at].startswith("      - tickets")
    assert lines[at + 1].startswith("      ")
    words = set(LONG.split())
    (first,) = (number for number, line in enumerate(lines) if line.startswith("  Ada's ferry"))
    assert all(word in words for line in lines[first : first + 3] for word in line.split())


def test_on_a_terminal_a_listing_has_a_line_for_each_memory(satchel: Run) -> None:
    """Truncated to the width of the terminal; with color."""
    for text in (LONG, CHINESE * 3):
        assert satchel("remember", text, "--tag", "travel").status == 0
    lines = _terminal_output("list").splitlines()
    assert [cell_len(_plain(line)) <= 80 for line in lines] == [True, True, True]
    assert all("…" in line for line in lines[1:])
    wide = _terminal_output("list", columns=300)
    assert wide.count("#travel") == 2
    assert "\x1b[2m#travel" in wide
    assert satchel("list").out.count("#travel") == 2


SLOW = """
import sys, time
from pathlib import Path
go = Path(sys.argv[1])
sys.argv = ["satchel", *sys.argv[3:]]

def wait():
    while not go.exists():
        time.sleep(0.01)

PATCH
from satchel.cli.main import main
main()
"""
"""A program called satchel that waits for a file at one point of its run."""

IMPORTING = """
from satchel.ledger.ledger import _Transaction
from satchel.transfer import import_stage as stage
stage.GROUP, append_rows, groups = 100, _Transaction.append_rows, []

def slow(self, *given, **named):
    append_rows(self, *given, **named)
    groups.append(1)
    if len(groups) == 6:
        wait()

_Transaction.append_rows = slow
"""
"""An import stops in the middle of its transaction."""

WAITING = """
from satchel.cli import _operations
opened = _operations._opened

def slow(*given):
    wait()
    return opened(*given)

_operations._opened = slow
"""
"""An operation stops before it starts."""


class Terminal:
    """A command whose standard error is a terminal."""

    def __init__(self, *command: str) -> None:
        self._own, other = pty.openpty()
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=other
        )
        os.close(other)
        self._decoder = codecs.getincrementaldecoder("utf-8")()  # a read may end within a sign
        self.shown = ""

    def read(self) -> bool:
        """Read new output; return whether the command may write more."""
        ready, _, _ = select.select([self._own], [], [], 60)
        assert ready, f"nothing more is shown after {self.shown!r}"
        try:
            data = os.read(self._own, 1 << 16)
        except OSError:  # the other end is closed
            return False
        self.shown += self._decoder.decode(data)
        return bool(data)

    def until(self, pattern: str) -> list[str]:
        """Read until the output matches, and return the matches."""
        while not (found := re.findall(pattern, self.shown)):
            assert self.read(), f"{pattern!r} is not in {self.shown!r}"
        return [str(each) for each in found]

    def end(self) -> int:
        """Read to the end, and return the exit status."""
        while self.read():
            pass
        return self.process.wait()

    def close(self) -> None:
        """Kill the command, and close the terminal."""
        self.process.kill()
        self.process.communicate()
        os.close(self._own)


@contextmanager
def terminal(*command: str) -> Iterator[Terminal]:
    """Run a command on a terminal."""
    made = Terminal(*command)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def program_folder(tmp_path: Path) -> Path:
    """A folder for the program, and for the file it waits for."""
    folder = tmp_path / "slow"
    folder.mkdir()
    return folder


def slow_command(folder: Path, patch: str, *words: str) -> list[str]:
    """Return the command line of the program that waits."""
    path = folder / "satchel"
    path.write_text(SLOW.replace("PATCH", patch))
    # As on a usual command line: the program and its arguments.
    return [sys.executable, "-c", path.read_text(), str(folder / "go"), "satchel", *words]


def write_memories(path: Path, number: int, name: str = "m") -> str:
    """Write a file of memories, and return its path."""
    path.write_text(
        json.dumps([{"id": f"{name}{n}", "memory": f"{name} {n}"} for n in range(number)])
    )
    return str(path)


SATCHEL = (sys.executable, "-m", "satchel")


def test_a_waiting_command_shows_which_process_holds_the_store(
    tmp_path: Path, program_folder: Path
) -> None:
    """The first shows its own progress; the second continues after it."""
    subprocess.run([*SATCHEL, "init", "b"], check=True, capture_output=True)
    big = write_memories(tmp_path / "big.json", 1000)
    words = ("import", big, "--bank", "b")
    with terminal(*slow_command(program_folder, IMPORTING, *words)) as first:
        first.until(r"logging ━+─+  [56]00/1,000")
        who = rf" for satchel\.db, held by process {first.process.pid} \(satchel import "
        with terminal(*SATCHEL, "remember", "Ada drinks tea", "--bank", "b") as second:
            clocks = second.until(rf"waiting (\d:\d\d){who}")
            while len(set(clocks)) < 2:
                assert second.read()
                clocks = second.until(rf"waiting (\d:\d\d){who}")
            (program_folder / "go").touch()
            assert second.end() == 0
        assert first.end() == 0
    with Satchel.open() as store:
        texts = {each.text for each in store.bank("b").list(limit=2000).memories}
    assert len(texts) == 1001
    assert "Ada drinks tea" in texts


def test_an_import_waits_for_another_and_shows_which(tmp_path: Path, program_folder: Path) -> None:
    """Without a terminal it is refused."""
    subprocess.run([*SATCHEL, "init", "b"], check=True, capture_output=True)
    big, other = (
        write_memories(tmp_path / "big.json", 1000),
        write_memories(tmp_path / "more.json", 3, "more"),
    )
    with terminal(*slow_command(program_folder, IMPORTING, "import", big, "--bank", "b")) as first:
        first.until(r"logging ━+─+  [56]00/1,000")
        words = (*SATCHEL, "import", other, "--bank", "b")
        refused = subprocess.run(words, capture_output=True, text=True, check=False)
        assert refused.returncode != 0
        assert f"process {first.process.pid}" in refused.stderr
        with terminal(*words) as second:
            second.until(
                r"waiting \d:\d\d for satchel\.db\.import\.lock, "
                rf"held by process {first.process.pid} \(satchel import "
            )
            (program_folder / "go").touch()
            assert second.end() == 0
        assert first.end() == 0
    with Satchel.open() as store:
        assert store.bank("b").stats().memories == 1003


COMMANDS = {
    "inspecting": ("inspect", "big.json"),
    "undoing": ("undo", "--bank", "b"),
    "migrating": ("migrate", "satchel-home/satchel.db", "new.db"),
    "session list": ("session", "list", "--bank", "b"),
}


@pytest.mark.in_check(1)
@pytest.mark.parametrize("label", COMMANDS)
def test_a_long_command_shows_progress_and_a_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program_folder: Path, label: str
) -> None:
    """Until it can count; nothing of it remains at the end."""
    monkeypatch.chdir(tmp_path)
    big = write_memories(tmp_path / "big.json", 10)
    subprocess.run([*SATCHEL, "import", big, "--bank", "b"], check=True, capture_output=True)
    with terminal(*slow_command(program_folder, WAITING, *COMMANDS[label])) as running:
        clocks = list[str]()
        while len(set(clocks)) < 2:
            clocks = running.until(rf"{label} ─*━─*  (\d:\d\d)")
            assert running.read()
        (program_folder / "go").touch()
        assert running.end() == 0
    lines = running.shown.split("\r\x1b[K")
    assert label not in lines[-1]


def test_progress_is_drawn_only_on_a_capable_terminal(tmp_path: Path, program_folder: Path) -> None:
    """Not on a pipe, with ``--json``, or on a terminal without cursor control."""
    big = write_memories(tmp_path / "big.json", 10)
    (program_folder / "go").touch()
    patch = "import satchel.cli._console as shown; shown._SHOWN_AFTER = 0"
    environments = {"pipe": {}, "json": {}, "dumb": {"TERM": "dumb"}}
    for name, more in environments.items():
        words = ("inspect", big, *(["--json"] if name == "json" else []))
        command = slow_command(program_folder, patch, *words)
        if name == "pipe":
            shown = subprocess.run(command, check=True, capture_output=True).stderr.decode()
        else:
            with pytest.MonkeyPatch.context() as patched:
                for variable, value in more.items():
                    patched.setenv(variable, value)
                with terminal(*command) as running:
                    assert running.end() == 0
            shown = running.shown
        assert "inspecting" not in shown, name
        assert "\x1b[K" not in shown, name
