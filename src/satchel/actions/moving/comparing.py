"""Comparing two memories: banks of the store, or files of any readable format."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from satchel.actions.config import Settings
from satchel.actions.opened import find_bank, opened_bank
from satchel.actions.paths.permission import file_to_read
from satchel.actions.verifying import VerifyOptions, refusal, verify
from satchel.actions.wiring import has_store, opened_store
from satchel.disk.reading import OpenFile
from satchel.errors import EmptyInputError, UnknownBankError, UsageError
from satchel.ledger.view import View
from satchel.ports.format import Reading
from satchel.ports.place import Place
from satchel.ports.registry import formats
from satchel.ports.rows import Filter
from satchel.ports.taking import taken
from satchel.seal.records import Sealed
from satchel.seal.verify.verification import Outcome
from satchel.transfer.comparing import Comparing, Comparison
from satchel.transfer.writing import NEVER

MOST_SHOWN = 10_000
"""Differences of each kind that can be named at once; the numbers are of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """One of the two, opened."""

    name: str
    records: Iterator[Sealed]
    notes: list[str]


def compare(settings: Settings, a: str, b: str, *, limit: int = 20) -> Comparison:
    """Compare the current entries of two memories.

    Args:
        settings: Where the store is.
        a: A bank, as ``find_bank`` takes it, or a file.
        b: The other.
        limit: How many differences of each kind to name.

    Raises:
        UsageError: If a name could be either, or too many are to be named.
        UnknownBankError: If it is neither.
        InputError: If a file cannot be read.
        VerificationError: If a bank or a sealed file does not verify.
    """
    if not 0 <= limit <= MOST_SHOWN:
        raise UsageError(f"from 0 to {MOST_SHOWN} differences can be named", field="limit")
    notes = []
    with Comparing() as comparing:
        for letter, text in (("a", a), ("b", b)):
            with _opened(settings, text) as side:
                comparing.add("a" if letter == "a" else "b", side.records)
                notes += [f"{side.name}: {note}" for note in side.notes]
        found = comparing.compare(a, b, limit=limit)
    if not (found.a_entries or found.b_entries):
        raise EmptyInputError("there is no memory in either of them", file=f"{a}, {b}")
    return msgspec.structs.replace(found, notes=notes)


@contextmanager
def _opened(settings: Settings, text: str) -> Iterator[_Side]:
    bank, path = _bank_called(settings, text), Path(text)
    is_there = _exists(path)
    if bank is not None and is_there:
        raise UsageError(
            f"{text!r} is a bank, and a file too",
            hint=f"Write ./{text} for the file, or the bank's id: {bank}",
        )
    if bank is not None:
        with (
            opened_bank(settings, bank) as found,
            found.asked("diff").ledger.reading() as view,
        ):
            yield _Side(name=text, records=_current(view), notes=list(view.notes))
    elif is_there:
        with file_to_read(settings, path) as file:
            yield _of_file(settings, file)
    else:
        raise UnknownBankError(
            f"there is no bank and no file {text!r}", hint="See: satchel bank list."
        )


def _bank_called(settings: Settings, text: str) -> str | None:
    if not has_store(settings):
        return None
    with opened_store(settings, read_only=True, for_holder=True) as store:
        try:
            return find_bank(store, text)
        except UnknownBankError:
            return None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _current(view: View) -> Iterator[Sealed]:
    return (logged.record for logged in view.scan(Filter()))


def _of_file(settings: Settings, file: OpenFile) -> _Side:
    place = Place(file.path, held=file)
    reader, notes = formats[formats.recognise(place)], list[str]()
    if reader.info.traits.sealed:
        verdict = verify(file, settings, VerifyOptions(deep=True, remember=False))
        if verdict.outcome in NEVER:
            raise refusal(verdict, place.name)
        if verdict.outcome is not Outcome.GOOD:
            notes.append(f"{verdict.outcome}: {verdict.findings[0].message}")
    reading = Reading(limits=settings.options.limits)
    return _Side(name=place.name, records=taken(reader, place, reading), notes=notes)
