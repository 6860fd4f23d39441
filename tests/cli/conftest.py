"""The command line, run in this process or in a separate one."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from satchel.cli.main import run

MEM0 = [{"id": "1", "memory": "likes tea"}, {"id": "2", "memory": "lives in 東京"}]


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Exit status and output of a command."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, parsed as one JSON value."""
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """The error on standard error, which must be one line of JSON."""
        return json.loads(self.err)["error"]


Run = Callable[..., CommandResult]


@pytest.fixture
def satchel(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in this process; its standard input is empty."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))

    def call(*arguments: str | Path) -> CommandResult:
        capsys.readouterr()
        status = run([str(argument) for argument in arguments])
        found = capsys.readouterr()
        return CommandResult(status, found.out, found.err)

    return call


def _restore_interrupts() -> None:
    """Reset SIGINT, which a shell ignores for programs in its background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def process() -> Callable[..., "subprocess.Popen[bytes]"]:
    """Start a command as a separate process."""

    def start(*arguments: str | Path, **options: Any) -> "subprocess.Popen[bytes]":
        environment = {**os.environ, **options.pop("env", {})}
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        command = [sys.executable, "-m", "satchel", *map(str, arguments)]
        return subprocess.Popen(
            command,
            env=environment,
            preexec_fn=_restore_interrupts,  # noqa: PLW1509 - it only restores a signal
            **{**pipes, **options},
        )

    return start


@pytest.fixture
def mem0(tmp_path: Path) -> Path:
    """A small Mem0 file."""
    path = tmp_path / "mem0.json"
    path.write_text(json.dumps(MEM0))
    return path


@pytest.fixture
def sealed(satchel: Run, mem0: Path, tmp_path: Path) -> Path:
    """A file sealed with the default key of the test's home."""
    path = tmp_path / "memory.pam.jsonl"
    assert satchel("convert", mem0, path).status == 0
    return path
