"""A bounded load on a local server: each connection sends its next request after a response."""

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

_PATIENCE = 60.0
_PATH = "/v1/banks/load"
_Request = tuple[str, str, bytes]


@dataclass
class Load:
    """Statuses and seconds of the requests of a load."""

    statuses: dict[str, int] = field(default_factory=dict)
    """Answers, by kind of request and status."""

    unsaid: int = 0
    """Answers of 503 or 429 that do not say when to come again."""

    broken: int = 0
    """Connections that ended in the middle of an answer."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    """How long each answer took that was none to come again, by kind."""

    written: list[str] = field(default_factory=list)
    """Ids of the memories whose keeping was acknowledged."""


class _Client:
    """One connection, open until the server closes it."""

    def __init__(self, port: int, load: Load, kind: str) -> None:
        self._port = port
        self._load = load
        self._kind = kind
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def go_on(self, until: float, make_request: Callable[[], _Request]) -> None:
        """Ask again and again, until a moment."""
        counted = Counter[str]()
        seconds = self._load.seconds.setdefault(self._kind, [])
        while time.monotonic() < until:
            began = time.monotonic()
            try:
                status, headers, body = await asyncio.wait_for(
                    self._ask(*make_request()), _PATIENCE
                )
            except (OSError, asyncio.IncompleteReadError):
                self._load.broken += 1
                await self.close()
                continue
            counted[f"{self._kind} {status}"] += 1
            if status in (429, 503):
                if "retry-after" not in headers:
                    self._load.unsaid += 1
                await asyncio.sleep(min(float(headers.get("retry-after", 1)), 5.0))
                continue
            seconds.append(time.monotonic() - began)
            if status == 201:
                self._load.written.append(json.loads(body)["id"])
        await self.close()
        for name, number in counted.items():
            self._load.statuses[name] = self._load.statuses.get(name, 0) + number

    async def _ask(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
            "Content-Type: application/json\r\n\r\n"
        )
        writer.write(head.encode() + body)
        try:
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise
            await self.close()  # it was idle for too long: the next request has a new one
            return await self._ask(method, path, body)
        pairs = (line.partition(":") for line in lines[1:] if line)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        answer = await reader.readexactly(int(headers["content-length"]))
        if headers.get("connection") == "close":
            await self.close()
        return int(lines[0].split(" ")[1]), headers, answer

    async def close(self) -> None:
        """Hang up."""
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].close()


async def laid_on(port: int, readers: int, writers: int, seconds: float) -> Load:
    """Ask a server that has a bank ``load``: so many who recall, and so many who keep memories."""
    load, until = Load(), time.monotonic() + seconds

    def recall(number: int) -> Callable[[], _Request]:
        asked = json.dumps({"text": f"what is noted of topic {number % 50}?"}).encode()
        return lambda: ("POST", f"{_PATH}/recall", asked)

    def remember(number: int) -> Callable[[], _Request]:
        count = iter(range(10**9))

        def made() -> _Request:
            text = f"writer {number} noted {next(count)} of topic {number % 50}"
            return "POST", f"{_PATH}/entries", json.dumps({"text": text}).encode()

        return made

    async with asyncio.TaskGroup() as group:
        for number in range(readers):
            group.create_task(_Client(port, load, "recall").go_on(until, recall(number)))
        for number in range(writers):
            group.create_task(_Client(port, load, "remember").go_on(until, remember(number)))
    return load


def percentile(times: list[float], share: float) -> float:
    """Return what a share of times is not above."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def main() -> int:
    """Lay it on, and print what came of it as JSON."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    for name, kind in (("port", int), ("readers", int), ("writers", int), ("seconds", float)):
        arguments.add_argument(f"--{name}", type=kind, required=True)
    asked: dict[str, Any] = vars(arguments.parse_args())
    json.dump(asdict(asyncio.run(laid_on(**asked))), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
