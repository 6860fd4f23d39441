"""A format under test: its samples, and helpers to read and write with it."""

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cbor2
import pytest

from satchel.artifact.encodings import GZIP_MAGIC, MAGIC, ArtifactBuilder, Header
from satchel.crypto.canonical import DEFAULT_LIMITS, Limits
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import Sealed, seal, seeded_nonces
from satchel.model.records import Model, Source
from satchel.ports.drafts import read_records
from satchel.ports.format import Format, Location, ReadContext, Target, WriteContext
from satchel.ports.record_set import RecordSet, Report, open_record_set

KEY = SigningKey.from_seed(bytes(range(32)))
"""Signs the sealed files of the suite; it is public, so never trust it."""

_THEN = "2026-01-02T03:04:05.000000Z"
_CBOR_MAPS = range(0xA0, 0xC0)


def plain_bytes(path: Path) -> bytes:
    """Return a file's bytes, decompressed if they are gzip."""
    data = path.read_bytes()
    return gzip.decompress(data) if data.startswith(GZIP_MAGIC) else data


def parsed(data: bytes) -> list[Any]:
    """Return the JSON values in a file: one, one per line, or CBOR; compressed or not."""
    if data.startswith(GZIP_MAGIC):
        return parsed(gzip.decompress(data))
    if data.startswith(MAGIC) or data[0] in _CBOR_MAPS:
        return [cbor2.loads(data.removeprefix(MAGIC))]
    try:
        return [json.loads(data.decode("utf-8-sig"))]
    except json.JSONDecodeError:
        return [json.loads(line) for line in data.decode("utf-8-sig").splitlines()]


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The records and losses of a file that was read."""

    records: list[Sealed]
    container: dict[str, Any]
    report: Report

    @property
    def contents(self) -> list[dict[str, Any]]:
        """The contents of the records, without ID and nonce; links among them are positions."""
        names = {record.id: f"#{place}" for place, record in enumerate(self.records)}
        return [
            _renamed({k: v for k, v in record.value.items() if k not in _OWN}, names)
            for record in self.records
        ]


_OWN = frozenset({"id", "nonce", "at"})


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [_renamed(part, names) for part in value]
    if isinstance(value, dict):
        return {key: _renamed(part, names) for key, part in value.items()}
    return value


@dataclass(frozen=True, slots=True)
class Subject:
    """A format under test and the folder of its samples.

    Args:
        name: Its name in the registry.
        adapter: The format.
        samples: The folder with ``good-*``, ``bad-*`` and an ``expect-*.json`` for each good one.
        parse: Returns the JSON values in a sample, for formats that are not JSON.
    """

    name: str
    adapter: Format
    samples: Path
    parse: Callable[[bytes], list[Any]] = parsed

    def good(self) -> list[Path]:
        """Return the samples that must be read; there is at least one."""
        return self._samples_like("good-*")

    def bad(self) -> list[Path]:
        """Return the samples that must be refused; there is at least one."""
        return self._samples_like("bad-*")

    def expectation(self, sample: Path) -> Path:
        """Return the file with the expected records of a good sample."""
        return self.samples / f"expect-{sample.name.removesuffix('.json')}.json"

    def need(self, trait: str) -> None:
        """Skip the running test unless the format claims ``trait``."""
        if not getattr(self.adapter.info.traits, trait):
            pytest.skip(f"{self.name} does not claim `{trait}`")

    def take(self, location: Path | Location, limits: Limits = DEFAULT_LIMITS) -> ReadResult:
        """Read a file as an import does: everything, sealed."""
        location = location if isinstance(location, Location) else Location(location)
        reading = ReadContext(limits=limits)
        nonces = seeded_nonces(bytes(32))
        records = list(read_records(self.adapter, location, reading, nonces=nonces))
        return ReadResult(records, reading.container, reading.report)

    def take_bytes(self, data: bytes, *, like: Path, limits: Limits = DEFAULT_LIMITS) -> ReadResult:
        """Read bytes as a file of this name."""
        with self.folder() as folder:
            path = folder / like.name
            path.write_bytes(data)
            return self.take(path, limits)

    def write(self, records: RecordSet, target: Target) -> Report:
        """Write records, and return the losses."""
        writing = WriteContext(
            keys=(KEY,),
            header=Header(extra={"created_at": _THEN}),
            compress=target.path.name.endswith(".gz"),
        )
        self.adapter.write(records, target, writing)
        return writing.report

    @contextmanager
    def written(self, records: RecordSet, name: str = "out") -> Iterator[tuple[Path, Report]]:
        """Yield a file with the records, and the losses."""
        with self.folder() as folder:
            path = folder / (name if "." in name else name + self.suffix)
            report = self.write(records, Target(path))
            yield path, report

    @property
    def suffix(self) -> str:
        """A file name ending of the format, or of its first good sample."""
        return (*self.adapter.info.suffixes, *("".join(path.suffixes) for path in self.good()))[0]

    @staticmethod
    @contextmanager
    def folder() -> Iterator[Path]:
        """Yield a new folder; a fixture would be shared by all examples of a property."""
        with TemporaryDirectory(prefix="satchel-conformance-") as folder:
            yield Path(folder)

    def _samples_like(self, pattern: str) -> list[Path]:
        found = sorted(self.samples.glob(pattern))
        assert found, f"no {pattern} in {self.samples}"
        return found


@contextmanager
def sealed(records: Iterable[Model | Sealed]) -> Iterator[RecordSet]:
    """Yield records as a set, with the same nonces every time."""
    nonces = seeded_nonces(bytes(32))
    with ArtifactBuilder() as builder:
        for record in records:
            builder.add(record if isinstance(record, Sealed) else seal(record, nonces=nonces))
        yield RecordSet(*builder.finish())


@contextmanager
def record_set(subject: Subject, sample: Path) -> Iterator[RecordSet]:
    """Yield the records of a sample, ready to be written, as a conversion does.

    An artifact keeps its seal; for others, a record names the source file.
    """
    traits = subject.adapter.info.traits
    if traits.sealed and traits.exact:
        with open_record_set(sample, DEFAULT_LIMITS) as records:
            yield records
        return
    found = subject.take(sample)
    with sealed([*found.records, source_of(subject.name, found.container)]) as records:
        yield records


def source_of(name: str, container: dict[str, Any]) -> Model:
    """Return the record of an import."""
    return Source(at=_THEN, provider=name, format=name, container=container)
