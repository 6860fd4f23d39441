"""Profile ``pam-sdk-1.0``: reading a file of the published SDK, entry by entry.

Nothing is verified here but form: JSON or CBOR without a second meaning, exactly the SDK's
members, ids that occur once.
"""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Literal, NoReturn, Protocol

from satchel.disk.reading import ToRead, reading
from satchel.errors import LimitError, MalformedError
from satchel.seal.artifact.opening import MAGIC, plain_bytes
from satchel.seal.encoding.cbor import CborReader
from satchel.seal.encoding.strict_json import JsonReader
from satchel.seal.limits import Limits
from satchel.seal.profiles.pam_sdk_shape import (
    COMPONENTS,
    ENVELOPE_MEMBERS,
    MAX_BYTES,
    check_entry,
    check_envelope,
    shown,
)

_MAX_DIGITS = 4300
_OURS = frozenset({"statement", "signatures", "components"})


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise MalformedError("an object has the same key twice", field=shown(key))
        members[key] = value
    return members


def _integer(token: str) -> int:
    if len(token) > _MAX_DIGITS:
        raise MalformedError(f"an integer has more than {_MAX_DIGITS} digits")
    return int(token)


def _float(token: str) -> float:
    value = float(token)
    if not math.isfinite(value):
        raise MalformedError("a number is beyond the range of a double")
    return value


def _constant(name: str) -> NoReturn:
    raise MalformedError(f"{name} is not JSON")


# Unlike our own files, 1.0 and 1 are two values here: the SDK hashes CPython's text of a number.
_JSON = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
)


class _FloatKeepingReader(JsonReader):
    """The strict JSON reader, with floats left as they are."""

    def __init__(self, stream: BinaryIO, name: str, item_bytes: int) -> None:
        super().__init__(stream, name, item_bytes=item_bytes)
        self._scan_once = _JSON.scan_once  # type: ignore[attr-defined]  # typeshed has no name for it

    def where(self) -> dict[str, int]:
        """Return the place of the next token."""
        self.peek()
        return {"line": self.line}

    def _taken(self, value: Any, end: int) -> Any:
        self._at = end
        return value  # surrogates and depth are looked at with the types, without recursion


class _AnyCborReader(CborReader):
    """CBOR in any layout; what it may hold is looked at with the types."""

    def where(self) -> dict[str, int]:
        """Return the place of the next item."""
        return {"byte": self.byte}


class _Reader(Protocol):
    """What the JSON and the CBOR reader have in common."""

    def where(self) -> dict[str, int]: ...

    def members(self) -> Iterator[str]: ...

    def elements(self) -> Iterator[int]: ...

    def value(self) -> Any: ...

    def end(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SdkEntry:
    """One entry of a file, as it stands there."""

    component: str
    index: int
    value: dict[str, Any]
    place: dict[str, int]
    """``line`` or ``byte`` at which it starts."""

    @property
    def id(self) -> str:
        """The id that it claims."""
        return str(self.value["id"])

    @property
    def pointer(self) -> str:
        """Where it is in the document."""
        return f"{self.component}/{self.index}"


@dataclass(slots=True)
class SdkDocument:
    """A file being read: entries stream by, the envelope is complete after the last one."""

    name: str
    encoding: Literal["json", "cbor"]
    reader: _Reader
    envelope: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    _ids: set[str] = field(default_factory=set)

    def entries(self) -> Iterator[SdkEntry]:
        """Yield the entries in the file's order; the whole file is checked for form on the way.

        Raises:
            MalformedError: Naming file, line or byte, and member.
            LimitError: If a value is too large.
        """
        where = self.reader.where()
        for member in self.reader.members():
            where = self.reader.where()
            if member in COMPONENTS:
                yield from self._array(member, where)
            elif member in ENVELOPE_MEMBERS:
                with self._placed(member, where):
                    value = self.reader.value()
                    check_envelope(member, value)
                self.envelope[member] = value
            else:
                self._stray(member, where)
        self.reader.end()
        missing = [
            member
            for member in (*ENVELOPE_MEMBERS, *COMPONENTS)
            if member not in self.envelope and member not in self.counts
        ]
        if missing:
            raise MalformedError(
                "a member is missing; the SDK writes all of them", field=missing[0]
            ).located(file=self.name, **where)

    def _array(self, component: str, where: dict[str, int]) -> Iterator[SdkEntry]:
        self.counts[component] = 0
        with self._placed(component, where):
            elements = self.reader.elements()
            index = next(elements, None)
        while index is not None:
            yield self._entry(component, index)
            self.counts[component] += 1
            with self._placed(component, self.reader.where()):
                index = next(elements, None)

    def _entry(self, component: str, index: int) -> SdkEntry:
        where = self.reader.where()
        with self._placed(f"{component}/{index}", where):
            value = self.reader.value()
            check_entry(component, value)
            if value["id"] in self._ids:
                raise MalformedError("duplicate ID", field="id")
            self._ids.add(value["id"])
        return SdkEntry(component, index, value, where)

    def _stray(self, member: str, where: dict[str, int]) -> NoReturn:
        message = (
            "both a satchel artifact and a file of the SDK"
            if member in _OURS
            else "the SDK writes no such member"
        )
        raise MalformedError(message, field=shown(member)).located(file=self.name, **where)

    @contextmanager
    def _placed(self, pointer: str, where: dict[str, int]) -> Iterator[None]:
        try:
            yield
        except (MalformedError, LimitError) as error:
            error.field = f"{pointer}/{error.field}" if error.field else pointer
            raise error.located(file=self.name, **where) from None


@contextmanager
def opening_sdk_file(path: ToRead, limits: Limits) -> Iterator[SdkDocument]:
    """Open a file of the published SDK, plain or gzip; it can be read inside the block.

    Raises:
        UnreadableError: If the file cannot be read.
        MalformedError: If it starts like no such file.
        LimitError: If it is larger than the SDK reads, or than ``limits.document_bytes``.
    """
    name = str(path)
    with reading(path) as raw, plain_bytes(raw, limits) as (handle, _):
        size = handle.seek(0, 2)
        handle.seek(0)
        bound = min(limits.document_bytes, MAX_BYTES)
        if size > bound:
            raise LimitError(f"a file of {size} bytes is over the limit of {bound}", file=name)
        first = handle.read(1)
        handle.seek(0)
        if first == MAGIC[:1]:
            raise MalformedError("the SDK's CBOR has no magic bytes", file=name, byte=0)
        if first and 0xA0 <= first[0] <= 0xBF:  # noqa: PLR2004 - a CBOR map
            yield SdkDocument(
                name, "cbor", _AnyCborReader(handle, name, item_bytes=limits.line_bytes)
            )
        else:
            reader = _FloatKeepingReader(handle, name, limits.line_bytes)
            yield SdkDocument(name, "json", reader)
