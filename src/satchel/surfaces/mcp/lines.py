"""Standard input of the server, read strictly before the SDK reads it.

The SDK takes the last of two members of one name in silence, so that what a host showed its user
could be another call than the one that is made. A call that is refused here keeps its id, so that
its caller is answered.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from satchel.errors import MalformedError
from satchel.seal.encoding.strict_json import plain_value

REFUSED = "\x00refused"
"""The one argument of a call that is refused: what is wrong with it."""


class StrictLines:
    """Lines of a stream, each a JSON document, or what stands for one that is refused.

    Args:
        stream: Where they come from.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readline(self) -> str:
        """Return the next line; empty at the end."""
        line = self._stream.readline()
        try:
            if line.strip():
                plain_value(line)
        except MalformedError as error:
            return _refused(line, error) or line.decode(errors="replace")
        return line.decode()


def _refused(line: bytes, error: MalformedError) -> str | None:
    """Return a request of the same id that is answered with an error; None where it has no id."""
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None  # the SDK says what is wrong with what is no JSON at all
    if not isinstance(found, dict) or not isinstance(found.get("id"), str | int):
        return None
    params = found.get("params")
    name = params.get("name") if isinstance(params, dict) else None
    if found.get("method") != "tools/call" or not isinstance(name, str):
        return json.dumps({"jsonrpc": "2.0", "id": found["id"], "method": "refused"}) + "\n"
    field = f" ({error.field})" if error.field else ""
    arguments = {REFUSED: f"{error.message}{field}"}
    request = {"name": name, "arguments": arguments}
    said = {"jsonrpc": "2.0", "id": found["id"], "method": "tools/call", "params": request}
    return json.dumps(said) + "\n"


@contextmanager
def standard_lines() -> Iterator[StrictLines]:
    """Give the lines of standard input; what the server starts meanwhile finds it empty."""
    private = os.dup(sys.stdin.fileno())
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, sys.stdin.fileno())
        # A thread may still wait for a line when the server has ended: the descriptor stays open.
        yield StrictLines(os.fdopen(private, "rb", closefd=False))
    finally:
        os.close(nothing)
        os.dup2(private, sys.stdin.fileno())
