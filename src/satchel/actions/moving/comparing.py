"""Comparing two memories: banks of the store, or files of any readable format."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from satchel.actions.config import Settings
from satchel.actions.opened import find_bank, open_bank_in, opened_bank
from satchel.actions.paths.permission import file_to_read
from satchel.actions.verifying import VerifyOptions, refusal, verify
from satchel.actions.wiring import has_store, is_there, opened_store
from satchel.disk.reading import OpenFile
from satchel.errors import EmptyInputError, TokenError, UnknownBankError, UsageError
from satchel.ledger.view import View
from satchel.ports.format import Reading
from satchel.ports.operations import Option, Options, operation
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


@dataclass(frozen=True, slots=True)
class DiffOptions(Options):
    """What to compare."""

    a: Annotated[str, Option("Bank, or a file in any format.", argument=True, values="bank")]
    b: Annotated[str, Option("Bank or file to compare it with.", argument=True, values="bank")]
    _: KW_ONLY
    a_as_of: Annotated[
        int | None,
        Option("Use bank A as of this many log records.", minimum=0),
    ] = None
    b_as_of: Annotated[
        int | None,
        Option("Use bank B as of this many log records.", minimum=0),
    ] = None
    limit: Annotated[
        int,
        Option(
            "Maximum number of differences of each kind to name; all are counted.",
            minimum=0,
            maximum=MOST_SHOWN,
        ),
    ] = 20


@operation(
    DiffOptions,
    name="diff",
    example="satchel diff assistant memory.pam.jsonl",
    absent={"mcp": "Banks and files are compared by people, not by a model."},
)
def diff(settings: Settings, options: DiffOptions, *, banks_only: bool = False) -> Comparison:
    """Compare the current memories of two banks or files, or of a bank at two moments.

    Memories are the same when they say the same, whatever their IDs. The command exits with status
    0 when they are the same, and 1 when they differ.

    Args:
        settings: Where the store is.
        options: What to compare.
        banks_only: Take no name for that of a file.

    Raises:
        UsageError: If a name could be either.
        UnknownBankError: If it is neither.
        InputError: If a file cannot be read.
        VerificationError: If a bank or a sealed file does not verify.
    """
    notes = []
    sides = (("a", options.a, options.a_as_of), ("b", options.b, options.b_as_of))
    with Comparing() as comparing:
        for letter, text, as_of in sides:
            with _opened(settings, text, as_of, banks_only=banks_only) as side:
                comparing.add("a" if letter == "a" else "b", side.records)
                notes += [f"{side.name}: {note}" for note in side.notes]
        found = comparing.compare(options.a, options.b, limit=options.limit)
    if not (found.a_entries or found.b_entries):
        raise EmptyInputError("neither contains a memory", file=f"{options.a}, {options.b}")
    return msgspec.structs.replace(found, notes=notes)


@contextmanager
def _opened(
    settings: Settings, text: str, as_of: int | None, *, banks_only: bool
) -> Iterator[_Side]:
    path = Path(text)
    is_file = not banks_only and _exists(path)
    # A file is read as well where the store vanished, as what is left of it may be compared.
    bank = _bank_called(settings, text) if is_there(settings.store) or not is_file else None
    if bank is not None and is_file:
        raise UsageError(
            f"{text!r} is both a bank and a file",
            hint=f"Write ./{text} for the file, or the bank ID: {bank}",
        )
    if bank is not None:
        with (
            opened_bank(settings, bank) as found,
            found.asked("diff").ledger.reading() as view,
        ):
            yield _Side(name=text, records=_current(view, as_of), notes=list(view.notes))
    elif is_file:
        if as_of is not None:
            raise UsageError(f"{text!r} is a file, which has no earlier states", field="as_of")
        with file_to_read(settings, path) as file:
            yield _of_file(settings, file)
    else:
        what = "no bank" if banks_only else "no bank or file named"
        raise UnknownBankError(f"there is {what} {text!r}", hint="See: satchel bank list.")


def _bank_called(settings: Settings, text: str) -> str | None:
    """Return the ID of the bank that a name or ID means; None for none.

    Of other banks than its own, the holder of a token does not learn whether they exist.
    """
    if not has_store(settings):
        return None
    with opened_store(settings, read_only=True, for_holder=True) as store:
        if settings.token is not None:
            try:
                return open_bank_in(settings, store, text).id
            except TokenError as error:
                if error.field != "bank":
                    raise
                return None
        try:
            return find_bank(store, text)
        except UnknownBankError:
            return None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _current(view: View, as_of: int | None) -> Iterator[Sealed]:
    return (logged.record for logged in view.scan(Filter(as_of=as_of)))


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
