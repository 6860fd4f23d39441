"""Files of one JSON object a line, read line by line; a bad line leaves the next one readable."""

from collections.abc import Callable
from io import BytesIO
from typing import Any

from satchel.errors import InputError, LimitError, MalformedError, UnreadableError
from satchel.formats._sniffing import BOM
from satchel.formats._unpacking import Unpacked
from satchel.seal.encoding.foreign_json import ForeignReader, ordinary_values

_SPACE = b" \t\r\n"


class Lines:
    """The lines of a file that are not blank.

    Args:
        source: Where the bytes come from.
    """

    def __init__(self, source: Unpacked) -> None:
        self.number = 0
        """Of the last line."""

        self.broken = False
        """Whether nothing can be read any more."""

        self._source = source
        self._chunk = b""
        self._at = 0
        self._ended = False

    def next(self, bound: int) -> bytes | None:
        """Return the next line, or None at the end.

        Raises:
            LimitError: If it is longer than ``bound`` bytes; the next call goes on behind it.
        """
        while not self._ended:
            line = self._line(bound)
            if self.number == 1:
                line = line.removeprefix(BOM)
            line = line.strip(_SPACE)
            if line:
                return line
        return None

    def _line(self, bound: int) -> bytes:
        self.number += 1
        parts, size = list[bytes](), 0
        while True:
            end = self._chunk.find(b"\n", self._at)
            piece = self._chunk[self._at : end if end >= 0 else None]
            self._at = end + 1
            size += len(piece)
            if size <= bound:
                parts.append(piece)
            else:
                parts.clear()
            if end >= 0 or not self._fill():
                break
        if size > bound:
            raise LimitError(f"a line is longer than {bound} bytes")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _fill(self) -> bool:
        """Go to the next bytes; tell whether there are any."""
        try:
            self._chunk, self._at = self._source.read(), 0
        except InputError:
            self._ended = self.broken = True
            raise
        except OSError as error:
            self._ended = self.broken = True
            raise UnreadableError(f"reading failed: {error.strerror}") from error
        self._ended = not self._chunk
        return not self._ended


def json_object(
    line: bytes, bound: int, mending: Callable[[], None] | None = None
) -> dict[str, Any]:
    """Return the object that a line is.

    Args:
        line: Its bytes.
        bound: Largest value in it, in characters.
        mending: Called where there are halves of characters in it, as ``ForeignReader`` does.

    Raises:
        MalformedError: If it is not one JSON object.
        LimitError: If it is too large or too deep.
    """
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise MalformedError(f"the text is not UTF-8 at byte {error.start} of the line") from None
    found = ordinary_values(text)
    if found is None or len(found) != 1:
        reader = ForeignReader(BytesIO(line), "", item_bytes=bound, mending=mending)
        found = [reader.value()]
        reader.end()
    if type(found[0]) is not dict:
        raise MalformedError("the line is not a JSON object")
    return found[0]
