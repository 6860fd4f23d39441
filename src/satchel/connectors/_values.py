"""What was unpickled, as JSON has it."""

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from satchel.errors import LimitError, MalformedError
from satchel.formats._unpickling import UUID_CLASS, Model

_MOST_NODES = 300_000
_DEEPEST = 100


def as_json(value: Any) -> Any:
    """Return an unpickled value as JSON has it, as Qdrant itself would show it.

    Bytes, and numbers that JSON cannot hold, stay as they are.

    Raises:
        LimitError: If it goes too deep, or a part that is named often makes it endless.
        MalformedError: If something in it has no form in JSON.
    """
    return _Shown().of(value, 0)


class _Shown:
    """Counts what was looked at."""

    def __init__(self) -> None:
        self._left = _MOST_NODES

    def of(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            raise LimitError(
                "a value of a point is nested too deeply, or repeats references too often"
            )
        if isinstance(value, dict):
            return {self._key(key): self.of(part, depth + 1) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [self.of(part, depth + 1) for part in value]
        if isinstance(value, set | frozenset):
            return sorted((self.of(part, depth + 1) for part in value), key=repr)
        return _leaf(value)

    def _key(self, key: Any) -> str:
        self._left -= 1
        found = _leaf(key)
        if isinstance(found, str):
            return found
        if isinstance(found, bool):
            return str(found).lower()
        if found is None or isinstance(found, int | float):
            return str(found)
        raise MalformedError("a member name of a point is not text")


def _leaf(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int | float | bytes):
        return value
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Model) and value.cls == UUID_CLASS:
        return _uuid(value)
    raise MalformedError("a point contains a value that JSON cannot represent")


def _uuid(model: Model) -> str:
    number = model.members.get("int")
    if type(number) is not int or not 0 <= number < 1 << 128:
        raise MalformedError("a damaged UUID in a point")
    return str(UUID(int=number))
