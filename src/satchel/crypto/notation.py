"""How a source wrote its numbers, where canonical bytes do not say it: ``1.0`` and ``-0.0``.

Beside the value is kept, by JSON pointer, which integral numbers were floats; a writer of the same
format writes those as floats again. Source: docs/decisions/0003-exact-round-trips-by-difference.md.
"""

import math
import re
from collections.abc import Iterable
from typing import Any

from satchel.crypto.canonical import SMALLEST
from satchel.crypto.value_domain import MAX_INTEGER

NUMBERS = "$numbers"
"""The member that says which integral numbers were written as floats, by JSON pointer.

RFC 8785 writes ``1.0`` as ``1``, so the record cannot say it. No source has a member of this name:
in the carried form a key that starts with ``$`` has one more.
"""

_ALL = "float[]"
_INTEGRAL = re.compile(r"-?[0-9]+\.0")


def numbers_of(found: dict[str, Any]) -> dict[str, Any]:
    """Return the member of what is kept that says which numbers a source wrote as ``1.0``."""
    numbers = dict[str, str]()
    if not has_odd_numbers(found.values()):  # most rows; pointers are made for the others alone
        return {}
    for name, part in found.items():
        if type(part) is float or type(part) is dict or type(part) is list:
            _note_numbers(part, _step(name), numbers)
    return {NUMBERS: numbers} if numbers else {}


def with_numbers(row: dict[str, Any], numbers: Any) -> dict[str, Any]:
    """Write numbers as a source wrote them, where they still are the same.

    Args:
        row: What is written; it is changed, but for what it shares with a record.
        numbers: What was kept under ``NUMBERS``; None where nothing was.
    """
    if type(numbers) is dict:
        for pointer, text in numbers.items():
            _write_number(row, pointer, text)
    return row


def has_odd_numbers(parts: Iterable[Any]) -> bool:
    """Tell whether canonical bytes write a float among JSON values in another way than an encoder.

    That is an integral one, or one with an exponent.
    """
    for part in parts:
        kind = type(part)
        if kind is str:
            continue
        if kind is float:
            if part.is_integer() or not SMALLEST <= abs(part) <= MAX_INTEGER:
                return True
        elif kind is dict:
            if has_odd_numbers(part.values()):
                return True
        elif kind is list and has_odd_numbers(part):
            return True
    return False


def _note_numbers(value: Any, pointer: str, numbers: dict[str, str]) -> None:
    """Note the integral floats in a value, which canonical bytes do not tell from integers."""
    if type(value) is float:
        if value.is_integer():
            numbers[pointer] = repr(value)
    elif type(value) is dict:
        for name, part in value.items():
            _note_numbers(part, pointer + _step(name), numbers)
    elif type(value) is list:
        if _is_vector(value):
            numbers[pointer] = _ALL
            return
        for place, part in enumerate(value):
            if type(part) is float or type(part) is dict or type(part) is list:
                _note_numbers(part, f"{pointer}/{place}", numbers)


def _write_number(row: dict[str, Any], pointer: str, text: Any) -> None:
    """Write a number as it was, where it still is the same one; the row alone is changed."""
    steps = [one.replace("~1", "/").replace("~0", "~") for one in pointer.split("/")[1:]]
    if type(text) is not str or not steps or not (text == _ALL or _INTEGRAL.fullmatch(text)):
        return
    holder: Any = row
    try:
        for step in steps[:-1]:
            key = int(step) if type(holder) is list else step
            part = holder[key]
            # What is shared with the record stays as it is.
            holder[key] = part = part.copy() if type(part) in (dict, list) else part
            holder = part
        key = int(steps[-1]) if type(holder) is list else steps[-1]
        there = holder[key]
        if text == _ALL and type(there) is list:
            holder[key] = [float(one) if type(one) is int else one for one in there]
        elif type(there) in (int, float) and there == float(text):
            holder[key] = float(text)
    except (KeyError, IndexError, TypeError, ValueError):
        return


def _is_vector(value: list[Any]) -> bool:
    """Tell whether all of a list are floats, of which no sign is lost."""
    if not all(type(one) is float for one in value):
        return False
    return any(one.is_integer() for one in value) and not any(
        one == 0 and math.copysign(1, one) < 0 for one in value
    )


def _step(name: str) -> str:
    return "/" + name.replace("~", "~0").replace("/", "~1")
