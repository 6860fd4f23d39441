"""A chat model behind a local server, with scripted answers."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Model:
    """A local server with scripted answers."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.said = '["short"]'
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append({"path": self.path, **body})
                outer.keys.append(self.headers["Authorization"])
                sent = json.dumps({"choices": [{"message": {"content": outer.said}}]}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, *_args: object) -> None:
                """Log nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"


@contextmanager
def answering() -> Iterator[Model]:
    """Yield a model with these answers."""
    found = Model()
    thread = threading.Thread(target=found.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join()
