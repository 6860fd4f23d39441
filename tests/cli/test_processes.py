"""What only a process of its own can show: signals, pipes, a full disk behind stdout."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """A folder for temporary files that nothing else uses."""
    folder = tmp_path / "spool"
    folder.mkdir()
    return folder


def test_completion_for_shells_is_offered(process: Start) -> None:
    """Completion can be shown, and so installed."""
    shown = process("completion", "bash")
    out, err = shown.communicate(timeout=60)
    assert shown.returncode == 0, err
    assert b"satchel" in out


@pytest.mark.parametrize("words", [["formats"], ["formats", "--json"], ["doctor"]], ids=" ".join)
def test_a_reader_that_goes_away_is_no_error(process: Start, words: list[str]) -> None:
    """As with `| head -0`: no traceback, no complaint at exit."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    started = process(*words, stdout=write_end)
    os.close(write_end)
    _, err = started.communicate(timeout=60)
    assert (started.returncode, err) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["formats"], ["formats", "--json"]], ids=" ".join)
def test_a_full_disk_behind_stdout_is_an_error_with_a_status(
    process: Start, words: list[str]
) -> None:
    """`satchel ... > file` on a full disk must not look like success."""
    with Path("/dev/full").open("wb") as full:
        started = process(*words, stdout=full)
        _, err = started.communicate(timeout=60)
    assert started.returncode == 5
    assert b"No space left" in err
    assert b"Traceback" not in err


def has_open_in(pid: int, folder: Path) -> bool:
    """Tell whether a process has a file of a folder open, be it one without a name."""
    for handle in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            if str(handle.readlink()).startswith(f"{folder}/"):
                return True
    return False


def test_an_interrupt_ends_with_130_and_leaves_nothing(
    process: Start, spool: Path, tmp_path: Path
) -> None:
    """Control-C in the middle of reading: status 130, one word, no file."""
    target = tmp_path / "out.pam"
    words = ("convert", "-", target, "--from", "mem0", "--unsigned")
    started = process(*words, env={"TMPDIR": str(spool)})
    while not has_open_in(started.pid, spool):  # it is at work once stdin has a place to go
        assert started.poll() is None
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=60)
    assert (started.returncode, err) == (130, b"interrupted\n")
    assert not target.exists()
    assert not any(spool.iterdir())


def test_stdin_is_read_for_a_dash(process: Start, spool: Path, tmp_path: Path) -> None:
    """`... | satchel convert - OUT`, and the temporary copy is gone afterwards."""
    out = tmp_path / "out.pam.jsonl"
    started = process("convert", "-", out, "--json", env={"TMPDIR": str(spool)})
    printed, err = started.communicate(b'[{"id":"1","memory":"tea"}]', timeout=60)
    assert started.returncode == 0, err
    found = json.loads(printed)
    assert found["records"] == {"semantic": 1, "sources": 1}
    assert found["input"] == "-"
    assert out.exists()
    assert not any(spool.iterdir())


def test_errors_of_standard_input_name_it(process: Start, tmp_path: Path) -> None:
    """The place in the message is one that the person knows, not a temporary name."""
    started = process("convert", "-", tmp_path / "out.pam", "--from", "mem0", "--json")
    _, err = started.communicate(b'[{"id":"1","memory":"tea"},\n 5]', timeout=60)
    error = json.loads(err.splitlines()[-1])["error"]
    assert started.returncode == 4
    assert error["file"] == "-"
    assert error["line"] == 2


def test_text_that_the_terminal_cannot_show_does_not_end_the_program(
    process: Start, tmp_path: Path
) -> None:
    """An old locale gets escapes instead of a traceback."""
    path = tmp_path / "in.json"
    path.write_text(json.dumps([{"memory": "x", "user_id": "東京"}]))
    started = process("inspect", path, env={"PYTHONIOENCODING": "ascii"})
    out, err = started.communicate(timeout=60)
    assert (started.returncode, err) == (0, b"")
    assert rb"\u6771\u4eac" in out
