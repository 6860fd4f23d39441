"""Redacts with the real Presidio, without a network; prints its findings and the redacted text.

The packages of the calling environment are appended to its path.
"""

import json
import socket
import sys
from typing import Any


def _refused(*_: Any, **__: Any) -> Any:
    raise RuntimeError("something asked the network")


def main(location: str, *texts: str) -> None:
    """Remember texts in a bank, redact it, and print its content."""
    socket.socket.connect = socket.getaddrinfo = _refused  # type: ignore[method-assign]
    import satchel

    with satchel.Satchel.open(location) as home:
        bank = home.bank("tea")
        ids = [bank.remember(text).id for text in texts]
        done = bank.redact(ids, detector="presidio")
        left = [bank.show(identity).record["text"] for identity in ids]
    print(json.dumps({"notes": done.notes, "kinds": done.kinds, "left": left}))


main(*sys.argv[1:])
