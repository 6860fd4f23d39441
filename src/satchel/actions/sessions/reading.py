"""Messages from a file: one JSON object a line, read as often as asked."""

from collections.abc import Iterator
from typing import Any

import msgspec

from satchel.actions.sessions.recording import Spoken
from satchel.continuity.elements import KINDS, NOTE, SUMMARY, WORKING
from satchel.disk.reading import OpenFile
from satchel.errors import EmptyInputError, LimitError, MalformedError, SatchelError
from satchel.memory.messages import Changed, Note, said_from
from satchel.seal.limits import Limits
from satchel.type_info import resolved


class MessagesFile:
    """The messages of a file that is open; each iteration reads it from its first byte.

    A line is a message, ``{"role": ..., "content": ...}`` with whatever else its program writes,
    or a change of what is kept beside the messages: ``{"working_state": ...}``,
    ``{"thread_summary": "..."}`` or ``{"note": {"content": ..., "category": ...}}``.

    Args:
        file: The file.
        limits: The bounds on a line.
    """

    def __init__(self, file: OpenFile, limits: Limits) -> None:
        self._file = file
        self._limits = limits

    def check(self) -> None:
        """Read all of it once, before anything is kept.

        Raises:
            EmptyInputError: If no line says anything.
            MalformedError: If a line is no message.
            LimitError: If one is too long.
        """
        if not sum(1 for _ in self):
            raise EmptyInputError("the file has no messages", file=str(self._file))

    def __iter__(self) -> Iterator[Spoken]:
        most = self._limits.line_bytes
        with self._file.stream() as stream:
            number = 0
            while line := stream.readline(most + 1):
                number += 1
                if len(line) > most:
                    problem = f"a line can have at most {most:,} bytes"
                    raise LimitError(problem, file=str(self._file), line=number)
                if line.strip():
                    try:
                        yield spoken_from(_parsed(line))
                    except SatchelError as error:
                        raise error.located(file=str(self._file), line=number) from None


def spoken_from(value: Any) -> Spoken:
    """Return a line of a conversation that somebody handed over as JSON.

    Raises:
        MalformedError: If it is neither a message nor a change of state.
    """
    if not isinstance(value, dict) or "role" in value or not set(KINDS) & value.keys():
        return said_from(value)
    beyond = sorted(value.keys() - {*KINDS, "created_at"})
    if beyond:
        raise MalformedError("a state change has no such member", field=str(beyond[0]))
    summary, note = value.get(SUMMARY), value.get(NOTE)
    if summary is not None and not isinstance(summary, str):
        raise MalformedError("must be text", field=SUMMARY)
    if isinstance(note, str):
        note = {"content": note}
    try:
        kept = None if note is None else msgspec.convert(note, resolved(Note))
    except msgspec.ValidationError as error:
        raise MalformedError(f"not a note: {error}", field=NOTE) from None
    return Changed(working_state=value.get(WORKING), thread_summary=summary, note=kept)


def _parsed(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(f"not JSON: {error}") from None
