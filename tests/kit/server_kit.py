"""Servers as separate processes, on local ports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx2 as httpx

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE = 60


class Server:
    """A running server, and its clients.

    Args:
        process: Its process.
        address: The address that it listens on.
    """

    def __init__(self, process: subprocess.Popen[bytes], address: str) -> None:
        self.process = process
        self.address = address

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.address.rstrip("/").rpartition(":")[2])

    def client(self) -> httpx.Client:
        """Return a client with its own connection."""
        return httpx.Client(base_url=self.address, timeout=_PATIENCE)

    def workers(self) -> list[int]:
        """Return the worker processes, if there are several."""
        pid = self.process.pid
        with open(f"/proc/{pid}/task/{pid}/children") as children:  # noqa: PTH123 - the kernel's
            return [int(one) for one in children.read().split()]

    def end(self) -> int:
        """Terminate the server, and return its exit status."""
        self.process.terminate()
        return self.process.wait(_PATIENCE)


@contextmanager
def server(*options: str, **more: str) -> Iterator[Server]:
    """Yield a server over the default store; it is terminated with the block.

    Args:
        *options: Options of ``satchel serve``.
        **more: Environment variables.
    """
    command = [sys.executable, "-m", "satchel", "serve", "--port", "0", "--no-log", *options]
    process = subprocess.Popen(
        command, env={**os.environ, **more}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        said = process.stdout.readline().decode()
        found = re.match(r"http://\S+", said)
        assert found, said + process.stderr.read().decode()
        started = Server(process, found[0])
        with started.client() as client:
            assert client.get("/healthz").is_success  # which waits for the first worker
        yield started
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(_PATIENCE)
        process.stdout.close()
        process.stderr.close()
