"""Standard streams, signals and pipes of separate processes, and ``-`` as an output."""

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
    """An empty folder for temporary files."""
    folder = tmp_path / "spool"
    folder.mkdir()
    return folder


def test_completion_prints_a_shell_script(process: Start) -> None:
    """It can be printed, and so installed."""
    shown = process("completion", "bash")
    out, err = shown.communicate(timeout=60)
    assert shown.returncode == 0, err
    assert b"satchel" in out


@pytest.mark.parametrize("words", [["formats"], ["formats", "--json"], ["doctor"]], ids=" ".join)
def test_a_closed_pipe_is_not_an_error(process: Start, words: list[str]) -> None:
    """As with `| head -0`: neither a traceback nor a message at exit."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    started = process(*words, stdout=write_end)
    os.close(write_end)
    _, err = started.communicate(timeout=60)
    assert (started.returncode, err) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["formats"], ["formats", "--json"]], ids=" ".join)
def test_a_full_disk_behind_stdout_is_exit_status_5(
    process: Start, words: list[str]
) -> None:
    """`satchel ... > file` on a full disk must not look like success."""
    with Path("/dev/full").open("wb") as full:
        started = process(*words, stdout=full)
        _, err = started.communicate(timeout=60)
    assert started.returncode == 5
    assert b"No space left" in err
    assert b"Traceback" not in err


def has_open_file(pid: int, folder: Path) -> bool:
    """Return whether a process has a file of a folder open, including one without a name."""
    for handle in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            if str(handle.readlink()).startswith(f"{folder}/"):
                return True
    return False


def test_an_interrupt_exits_with_130_and_leaves_no_file(
    process: Start, spool: Path, tmp_path: Path
) -> None:
    """Control-C during a read: status 130, one word, no file."""
    target = tmp_path / "out.pam"
    words = ("convert", "-", target, "--from", "mem0", "--unsigned")
    started = process(*words, env={"TMPDIR": str(spool)})
    while not has_open_file(started.pid, spool):  # it reads once stdin is spooled
        assert started.poll() is None
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=60)
    assert (started.returncode, err) == (130, b"interrupted\n")
    assert not target.exists()
    assert not any(spool.iterdir())


def test_a_dash_reads_standard_input(process: Start, spool: Path, tmp_path: Path) -> None:
    """The temporary copy is deleted afterwards."""
    out = tmp_path / "out.pam.jsonl"
    started = process("convert", "-", out, "--json", env={"TMPDIR": str(spool)})
    printed, err = started.communicate(b'[{"id":"1","memory":"tea"}]', timeout=60)
    assert started.returncode == 0, err
    found = json.loads(printed)
    assert found["records"] == {"semantic": 1, "sources": 1}
    assert found["input"] == "-"
    assert out.exists()
    assert not any(spool.iterdir())


def test_errors_of_standard_input_name_a_dash(process: Start, tmp_path: Path) -> None:
    """The error names the argument, not a temporary file."""
    started = process("convert", "-", tmp_path / "out.pam", "--from", "mem0", "--json")
    _, err = started.communicate(b'[{"id":"1","memory":"tea"},\n 5]', timeout=60)
    error = json.loads(err.splitlines()[-1])["error"]
    assert started.returncode == 4
    assert error["file"] == "-"
    assert error["line"] == 2


def test_text_outside_the_output_encoding_is_escaped(
    process: Start, tmp_path: Path
) -> None:
    """An ASCII locale gets escapes instead of a traceback."""
    path = tmp_path / "in.json"
    path.write_text(json.dumps([{"memory": "x", "user_id": "東京"}]))
    started = process("inspect", path, env={"PYTHONIOENCODING": "ascii"})
    out, err = started.communicate(timeout=60)
    assert (started.returncode, err) == (0, b"")
    assert rb"\u6771\u4eac" in out
