"""What the suites put formats to the test with: hostile bytes, slow files, full disks."""

import errno
import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import cbor2

from satchel.conformance.subject import Subject, plain_bytes
from satchel.ports.place import Place, Target
from satchel.seal.limits import Limits

SMALL = Limits(line_bytes=2**16, entry_bytes=2**16, document_bytes=2**20)
_HUGE = 3 * 2**20
_DEEP = 200_000


def leaves(value: object) -> Counter[Any]:
    """Return the texts and numbers in a JSON value, how often each."""
    match value:
        case bool() | None:
            return Counter()
        case int() | float():
            return Counter([_number(value)])
        case dict():
            return sum(map(leaves, value.values()), Counter())
        case list():
            return sum(map(leaves, value), Counter())
        case _:
            return Counter([value])


def hostile_versions(subject: Subject, sample: Path) -> Iterator[bytes]:
    """Yield the sample with its longest text made huge, and made a deep nest."""
    data = plain_bytes(sample)
    texts = [leaf for value in subject.parse(data) for leaf in leaves(value)]
    longest = max((leaf for leaf in texts if isinstance(leaf, str)), key=len)
    huge, nest = "x" * _HUGE, b"[" * _DEEP + b"]" * _DEEP
    swaps = [(json.dumps(longest).encode(), json.dumps(huge).encode(), nest)]
    swaps += [(json.dumps(longest, ensure_ascii=False).encode(), *swaps[0][1:])]
    swaps += [(cbor2.dumps(longest), cbor2.dumps(huge), b"\x81" * _DEEP + b"\x00")]
    swaps += [(longest.encode(), huge.encode(), nest)]  # in a database, as it is
    found, *replacements = next(swap for swap in swaps if swap[0] in data)
    for replacement in replacements:
        yield data.replace(found, replacement, 1)


def comparable(value: Any) -> Any:
    """Return a value that is equal when the JSON is: ``true`` is not 1, NaN is itself."""
    match value:
        case dict():
            return {key: comparable(part) for key, part in value.items()}
        case list():
            return [comparable(part) for part in value]
        case bool() | None | str() | bytes():
            return value
        case _:
            return _number(value)


def _number(value: float) -> tuple[str, int]:
    """Return what is equal for 1 and 1.0, for two NaNs, and not for neighbours beyond 2^53."""
    whole = float(value).is_integer()
    return ("", int(value)) if whole else (repr(value), 0)


@dataclass(frozen=True)
class Trickling(Place):
    """A file whose bytes come a few at a time."""

    @property
    def given(self) -> list[int]:
        """How many bytes were handed out, as the one item of a list."""
        return cast("list[int]", self.__dict__.setdefault("_given", [0]))

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the file."""
        with super().open() as stream:
            read = stream.read

            def slowly(size: int = -1) -> bytes:
                data = read(16 if size < 0 else min(size, 16))
                self.given[0] += len(data)
                return data

            yield cast("BinaryIO", type("Slow", (), {"read": staticmethod(slowly)})())


@dataclass(frozen=True)
class FullDisk(Target):
    """A target on a disk that takes no more."""

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Give a file to write that fails at the first byte."""
        with super().open() as stream:
            yield cast("BinaryIO", _Full(stream))


class _Full:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.writelines = self.write

    def write(self, _: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
