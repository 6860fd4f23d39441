"""A web server that receives webhooks."""

from __future__ import annotations

import threading

from local_server_kit import LocalServer, QuietHandler

NEVER = 0
"""In place of a status: no answer at all."""


class Receiver(LocalServer):
    """A local web server with scripted answers."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []
        self.over = threading.Event()
        receiver = self

        class Handler(QuietHandler):
            def do_POST(self) -> None:
                body = self.read_body()
                receiver.got.append((dict(self.headers), body))
                status = receiver.answers.pop(0) if receiver.answers else 204
                if status == NEVER:
                    receiver.over.wait(60)
                    return
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", receiver.address + "/elsewhere")
                self.end_headers()

        super().__init__(Handler)

    def close(self) -> None:
        """Stop the server."""
        self.over.set()
        super().close()
