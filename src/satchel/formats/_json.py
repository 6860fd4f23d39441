"""Writing what a record carries as the JSON that it came as: numbers as they were written."""

import base64
import json
import os
import re
from typing import Any

from satchel.ports.report import Report
from satchel.seal.encoding.carry import restore, unheld_number
from satchel.seal.encoding.notation import NUMBERS, with_numbers

_MARK = f"number-{os.urandom(16).hex()}-"
_MARKED = re.compile(f'"{_MARK}([-+.0-9eE]+)"')
_NAMED = "numbers that JSON cannot represent (NaN, Infinity) are written as in Python"


def as_json(
    value: Any, report: Report, *, compact: bool = False, indent: int | None = None
) -> bytes:
    """Encode as Python's own JSON does, large integers and numbers beyond a double included.

    Args:
        value: The value, in the reversible form of ``seal.encoding.carry``.
        report: Where is counted what JSON cannot hold.
        compact: Leave out all white space.
        indent: How far to indent; None for one line.
    """

    def other(part: object) -> str:
        if isinstance(part, bytes):
            report.lost("metadata", "bytes become base64 text")
            return base64.b64encode(part).decode()
        raise TypeError(type(part).__name__)

    if type(value) is dict and NUMBERS in value:
        rest = {name: part for name, part in value.items() if name != NUMBERS}
        value = with_numbers(rest, value[NUMBERS])
    marked = _Marked()
    plain = restore(marked.of(value))
    text = json.dumps(
        plain,
        ensure_ascii=False,
        default=other,
        separators=(",", ":") if compact else None,
        indent=indent,
    )
    if marked.found:
        text = _MARKED.sub(r"\1", text)
    if marked.named:
        report.note(_NAMED)
    return text.encode()


class _Marked:
    """Puts texts in the place of numbers that no double holds, to be numbers again when written."""

    def __init__(self) -> None:
        self.found = False
        self.named = False
        """Whether one is named, since it is no number in JSON."""

    def of(self, value: Any) -> Any:
        """Return a value with its marks; one that needs none is returned as it is."""
        if type(value) is list:
            return self._list(value)
        if type(value) is not dict:
            return value
        text = unheld_number(value)
        if text is not None:
            if text[-1:].isdigit():
                self.found = True
                return f"{_MARK}{text}"
            self.named = True
            return value
        made = None
        for name, part in value.items():
            if type(part) is dict or type(part) is list:
                again = self.of(part)
                if again is not part:
                    made = dict(value) if made is None else made
                    made[name] = again
        return value if made is None else made

    def _list(self, value: list[Any]) -> list[Any]:
        made = [self.of(part) for part in value]
        same = all(one is other for one, other in zip(made, value, strict=True))
        return value if same else made
