"""A web server that receives webhooks."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

NEVER = 0
"""In place of a status: no answer at all."""


class Receiver:
    """A local web server with scripted answers."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []
        self.over = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append((dict(self.headers), body))
                status = receiver.answers.pop(0) if receiver.answers else 204
                if status == NEVER:
                    receiver.over.wait(60)
                    return
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", receiver.address + "/elsewhere")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the server."""
        self.over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
