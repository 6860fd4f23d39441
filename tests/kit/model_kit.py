"""A chat model behind a local server, with scripted answers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from local_server_kit import LocalServer, QuietHandler


class Model(LocalServer):
    """A local server with scripted answers."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.said = '["short"]'
        outer = self

        class Handler(QuietHandler):
            def do_POST(self) -> None:
                body = json.loads(self.read_body())
                outer.asked.append({"path": self.path, **body})
                outer.keys.append(self.headers["Authorization"])
                sent = json.dumps({"choices": [{"message": {"content": outer.said}}]}).encode()
                self.send_body(sent)

        super().__init__(Handler)
        self.url = f"{self.address}/v1"


@contextmanager
def answering() -> Iterator[Model]:
    """Yield a model with these answers."""
    found = Model()
    yield found
    found.close()
