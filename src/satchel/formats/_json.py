"""Writing what a record carries as the JSON that it came as: numbers as they were written."""

import base64
import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from satchel.crypto.canonical import ABSENT, decode_foreign, unheld_number
from satchel.crypto.json_reader import NUMBERS, float_spellings, with_numbers
from satchel.errors import MalformedError
from satchel.ports.losses import Report

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
    plain = decode_foreign(marked.of(value))
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


def text_in(row: Mapping[str, Any], name: str) -> str:
    """Return a member that has to be a text.

    Raises:
        MalformedError: If it is none.
    """
    part = row.get(name)
    if type(part) is not str:
        problem = "is missing" if name not in row else "is not text"
        raise MalformedError(f"`{name}` {problem}", field=name)
    return part


_MISSING = object()


def differences(found: dict[str, Any], written: dict[str, Any]) -> dict[str, Any]:
    """Return the members to keep so that ``reproduce`` gives ``found`` back.

    Args:
        found: The source's record.
        written: What the writer makes of the mapped record.
    """
    kept = {
        name: part
        for name, part in found.items()
        # Most are the very same object, or plain texts.
        if (other := written.get(name, _MISSING)) is not part
        and (other is _MISSING or not _same(part, other))
    }
    kept.update(dict.fromkeys(written.keys() - found.keys(), ABSENT))
    return kept | float_spellings(found)


def reproduce(written: dict[str, Any], kept: dict[str, Any]) -> dict[str, Any]:
    """Return the source's record again, from what the writer made and what was kept."""
    out = {name: part for name, part in written.items() if kept.get(name) != ABSENT}
    out.update({name: part for name, part in kept.items() if part != ABSENT})
    return with_numbers(out, out.pop(NUMBERS, None))


def settled(
    written: dict[str, Any],
    kept: dict[str, Any],
    again: Callable[[dict[str, Any]], dict[str, Any]],
    now: dict[str, Any],
    means: Mapping[str, str],
) -> dict[str, Any]:
    """Return what ``reproduce`` does, without what would say something else than the record does.

    Args:
        written: What the writer made of the record.
        kept: What was kept of the source's record.
        again: Gives what a record says that is made of a row.
        now: What the record says.
        means: The member of a record that says what a member of a row says.
    """
    row = reproduce(written, kept)
    then = again(row)
    stale = {name for name in then if name in now and then[name] != now[name]}
    if not stale:
        return row
    return reproduce(written, {k: v for k, v in kept.items() if means.get(k) not in stale})


def _same(one: Any, other: Any) -> bool:
    """Tell whether two JSON values are the same; ``1`` and ``true`` are not."""
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is str:
        return bool(one == other)
    if kind is dict:
        return len(one) == len(other) and all(
            key in other and (part is other[key] or _same(part, other[key]))
            for key, part in one.items()
        )
    if kind is list:
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
