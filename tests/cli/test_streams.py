"""Standard streams, signals and pipes of separate processes, and ``-`` as an output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from whole_agents_kit import agent_file

from satchel.config.settings import load_settings
from satchel.transfer.verification import verify

if TYPE_CHECKING:
    from tests.cli.conftest import CommandResult, Run


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


@pytest.mark.in_check(1)
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
def test_a_full_disk_behind_stdout_is_exit_status_5(process: Start, words: list[str]) -> None:
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


def test_text_outside_the_output_encoding_is_escaped(process: Start, tmp_path: Path) -> None:
    """An ASCII locale gets escapes instead of a traceback."""
    path = tmp_path / "in.json"
    path.write_text(json.dumps([{"memory": "x", "user_id": "東京"}]))
    started = process("inspect", path, env={"PYTHONIOENCODING": "ascii"})
    out, err = started.communicate(timeout=60)
    assert (started.returncode, err) == (0, b"")
    assert rb"\u6771\u4eac" in out


_ADA = "Ada is allergic to hazelnuts"


@pytest.fixture
def memory_id(satchel: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The ID of a memory in the bank `b`; the working directory is empty."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return str(satchel("remember", _ADA, "--bank", "b", "--json").json["id"])


def _document(ran: CommandResult) -> Any:
    """Return the document on standard output; no file was created."""
    assert ran.status == 0, ran.err
    assert list(Path.cwd().iterdir()) == []
    return json.loads(ran.out)


def _assert_verifies(path: Path, text: str) -> None:
    path.write_text(text)
    found = verify(path, load_settings())
    assert found.outcome.value in ("good", "trusted", "valid"), found


@pytest.mark.parametrize("more", [(), ("--json",)])
@pytest.mark.usefixtures("memory_id")
def test_the_configuration_of_a_bank_is_written_to_standard_output(
    satchel: Run, more: tuple[str, ...]
) -> None:
    """The same document as in a file; the report goes to standard error."""
    assert satchel("bank", "config", "set", "b", "recall_limit=20").status == 0
    ran = satchel("bank", "config", "export", "b", "-", *more)
    assert "recall_limit" in json.dumps(_document(ran))
    assert '"output": "-"' in ran.err if more else ran.err == ""
    assert satchel("bank", "config", "export", "b", "c.json").status == 0
    assert Path("c.json").read_text() == ran.out


@pytest.mark.parametrize("more", [(), ("--json",)])
@pytest.mark.usefixtures("memory_id")
def test_memory_files_are_written_to_standard_output(satchel: Run, more: tuple[str, ...]) -> None:
    """The report with their number goes to standard error."""
    assert satchel("file", "write", "user/a.md", "likes tea\n").status == 0
    ran = satchel("file", "export", *more)
    (found,) = _document(ran)["data"]
    assert (found["path"], found["content"]) == ("/user/a.md", "likes tea\n")
    assert "moved" in ran.err


@pytest.mark.parametrize("more", [(), ("--json",)])
@pytest.mark.usefixtures("memory_id")
def test_an_agent_is_written_to_standard_output(
    satchel: Run, tmp_path: Path, more: tuple[str, ...]
) -> None:
    """As an agent file by default; it can be imported."""
    source = agent_file(tmp_path / "first.agent.json")
    brought = satchel("agent", "import", "--no-embed", "--json", source)
    name = brought.json["agent"]
    ran = satchel("agent", "export", name, "--output", "-", *more)
    document = _document(ran)
    assert document["nous"]["id"] == json.loads(source.read_bytes())["nous"]["id"]
    assert name in ran.err
    again = tmp_path / "again.agent.json"
    again.write_text(ran.out)
    words = ("--on-conflict", "rename", "--dry-run")
    assert satchel("agent", "import", "--no-embed", *words, again).status == 0


@pytest.mark.usefixtures("memory_id")
def test_a_sealed_agent_is_written_to_standard_output(satchel: Run, tmp_path: Path) -> None:
    """In the given format."""
    source = agent_file(tmp_path / "first.agent.json")
    name = satchel("agent", "import", "--no-embed", "--json", source).json["agent"]
    ran = satchel("agent", "export", name, "--output", "-", "--to", "pam_jsonl")
    assert ran.status == 0
    assert all(json.loads(line) for line in ran.out.splitlines())
    _assert_verifies(tmp_path / "a.pam.jsonl", ran.out)


@pytest.mark.usefixtures("memory_id")
def test_an_agent_for_amplihack_is_written_to_standard_output(satchel: Run) -> None:
    """``amplihack export`` prints JSON, and its report on standard error."""
    shown = satchel("amplihack", "export", "--agent", "b", "--output", "-")
    document = _document(shown)
    assert document["agent_name"] == "b"
    assert _ADA in json.dumps(document)
    assert "Exported memory" in shown.err


def test_a_disclosure_is_written_to_standard_output(
    satchel: Run, memory_id: str, tmp_path: Path
) -> None:
    """It verifies without the bank."""
    ran = satchel("disclose", "--entry", memory_id, "--bank", "b", "--output", "-")
    assert (ran.status, list(Path.cwd().iterdir())) == (0, [])
    _assert_verifies(tmp_path / "d.pam", ran.out)


@pytest.mark.usefixtures("memory_id")
def test_token_revocations_are_written_to_standard_output(satchel: Run) -> None:
    """The signed list only."""
    ran = satchel("token", "revocations", "--bank", "b", "--output", "-")
    assert "0 revoked" in ran.err
    assert _document(ran)["format"] == "satchel-revocations/1"


def test_a_redacted_memory_is_recovered_to_standard_output(satchel: Run, memory_id: str) -> None:
    """By ``-`` and by default; an age file needs a file name."""
    words = ("redact", memory_id, "--field", "/text", "--bank", "b", "--recover-for", "default")
    assert satchel(*words).status == 0
    ran = satchel("recover", memory_id, "--bank", "b", "--output", "-")
    assert _document(ran)["text"] == _ADA
    assert satchel("recover", memory_id, "--bank", "b").out == ran.out
    assert satchel("recover", memory_id, "--bank", "b", "--sealed").status == 2


def test_a_failed_export_prints_nothing_to_standard_output(satchel: Run) -> None:
    """Only an error on standard error."""
    for words in (("bank", "config", "export", "none", "-"), ("agent", "export", "x", "-o", "-")):
        ran = satchel(*words)
        assert (ran.status != 0, ran.out) == (True, "")
