"""What is made to be looked at: 80 columns, no color without a terminal, JSON when asked."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

if TYPE_CHECKING:
    from tests.cli.conftest import Run

LONG = (
    "Ada's ferry 咖啡 leaves the third pier, which is further from here than any line is wide. " * 3
)


@pytest.mark.parametrize("color", ["NO_COLOR", "TERM", ""], ids=["off", "dumb", "usual"])
def test_the_tree_of_memory_fits_into_80_columns(
    satchel: Run, monkeypatch: pytest.MonkeyPatch, color: str
) -> None:
    """Without a terminal there is no color either; what is recalled is given whole."""
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


def _shown(*arguments: str, columns: int = 80, **more: str) -> str:
    """Return what a command puts on a terminal."""
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
    """As far in as their lines begin; no word is broken, and nothing is wider or left out."""
    for text in (LONG.strip(), f"ferry {CHINESE}", NOTES):
        assert satchel("remember", text).status == 0
    plain = _plain(satchel("recall", "ferry").out)
    assert f"  {LONG.strip()}\n" in plain  # one line, to be searched
    seen = _shown("recall", "ferry", NO_COLOR="1")
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
    """Cut to its width, which a wider one has room for; color only where it is wanted."""
    for text in (LONG, CHINESE * 3):
        assert satchel("remember", text, "--tag", "travel").status == 0
    lines = _shown("list").splitlines()
    assert [cell_len(_plain(line)) <= 80 for line in lines] == [True, True, True]
    assert all("…" in line for line in lines[1:])
    wide = _shown("list", columns=300)
    assert wide.count("#travel") == 2
    assert "\x1b[2m#travel" in wide
    assert satchel("list").out.count("#travel") == 2
