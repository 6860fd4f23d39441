"""What the members of an export's rows have to be, and times as products write them."""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, NoReturn, Protocol

from satchel.crypto.canonical import escape_keys
from satchel.crypto.json_reader import ForeignReader
from satchel.errors import EmptyInputError, InputError, MalformedError, UsageError
from satchel.formats._chats.archive import ArchiveFile, ChatArchive
from satchel.model.records import Model
from satchel.model.values import format_time, read_time
from satchel.ports.format import Place, ReadContext

Row = dict[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_SECONDS = 253_402_300_799
_NANOSECONDS = 1_000_000_000
_NUMBER = re.compile(r"\d{9,19}(?:\.\d{1,20})?", re.ASCII)
_FINER = re.compile(r"([.,]\d{6})\d{1,12}(?!\d)", re.ASCII)
_OF_THE_ACCOUNT = frozenset(
    {
        *("user.json", "users.json", "user_settings.json", "export_manifest.json", "chat.html"),
        *("message_feedback.json", "model_comparisons.json", "shared_conversations.json"),
        *("conversation_asset_file_names.json", "shopping.json", "sora.json", "group_chats.json"),
        *("library_files.json", "tasks.json"),
    }
)
_MANIFEST = re.compile(r"(export_)?manifest(-\d+)?\.json")
"""Names of lists of the files of an export."""

_MEDIA = frozenset(
    {
        *("png", "jpg", "jpeg", "gif", "webp", "heic", "svg", "bmp", "tif", "tiff"),
        *("wav", "mp3", "m4a", "ogg", "opus", "flac", "aac", "mp4", "mov", "webm", "dat"),
    }
)
"""Endings of pictures, sounds and films; a message names those that it has."""

_LIST = "conversations"
_FEW = 32
"""How many files of one kind in a folder are named one by one."""


def row_in(value: Any, what: str) -> Row:
    """Return an object.

    Raises:
        MalformedError: If it is none.
    """
    if type(value) is not dict:
        raise MalformedError(f"{what} is not an object")
    return value


def text_in(row: Row, name: str) -> str:
    """Return a text that has to be there.

    Raises:
        MalformedError: If it is not, or empty.
    """
    found = row.get(name)
    if type(found) is not str or not found:
        raise MalformedError(f"`{name}` is missing, or not text", field=name)
    return found


def list_in(row: Row, name: str) -> list[Any]:
    """Return a list; one that is not there is empty.

    Raises:
        MalformedError: If it is something else.
    """
    found = row.get(name)
    if found is None:
        return []
    if type(found) is not list:
        raise MalformedError(f"`{name}` is not a list", field=name)
    return found


def text_or_none(value: Any) -> str | None:
    """Return a text that says something, or None."""
    return value if type(value) is str and value else None


def moment_of(value: Any) -> str | None:
    """Return a time as canonical text; None for no moment.

    That is ISO 8601, to microseconds, or what has passed since 1970: seconds, or as much more as
    milliseconds, microseconds and nanoseconds are.
    """
    if type(value) is str and not _NUMBER.fullmatch(value):
        return read_time(_FINER.sub(r"\1", value))
    if type(value) is str:
        value = float(value)
    if type(value) not in (int, float) or not 0 < value < _MOST_SECONDS * _NANOSECONDS:
        return None
    while value > _MOST_SECONDS:
        value /= 1_000
    return format_time(_EPOCH + timedelta(microseconds=round(value * 1_000_000)))


def rest_of(row: Row, *, known: tuple[str, ...], times: tuple[str, ...] = ()) -> Row:
    """Return the members that nothing else holds, to be kept as they are.

    Args:
        row: What was found.
        known: Members that are somewhere else, as they are.
        times: Members that are somewhere else as canonical times; kept where that is another text.
    """
    return {
        name: part
        for name, part in row.items()
        if name not in known and not (name in times and moment_of(part) == part)
    }


class RowParser(Protocol):
    """Makes records of one row; some rows give none."""

    def __call__(self, row: Row) -> Iterator[Model]: ...


def rows_of(
    document: ForeignReader, file: str, reading: ReadContext, make: RowParser
) -> Iterator[Model]:
    """Yield what is made of the rows of a list; bad ones are refused.

    The list may be a member ``conversations`` of an object; an object without it is a row itself,
    and others may follow it, each on a line.

    Args:
        document: Where it starts.
        file: What to call it in errors; empty for the input itself.
        reading: Where bad rows go.
        make: What makes records of one.
    """
    if document.peek() != "{":
        yield from _made(document.values(), document, file, reading, make)
    else:
        around, listed = Row(), False
        for name in document.members():
            if name == _LIST and document.peek() == "[":
                listed = True
                yield from _made(document.values(), document, file, reading, make)
            else:
                around.update(escape_keys([(name, document.value())]))
        if listed:
            for name in around:
                reading.report.lost(name, "a member next to the conversations")
        else:
            yield from _made(iter((around,)), document, file, reading, make)
            yield from _made(document.following(), document, file, reading, make, first=1)
    document.end()


def _made(
    rows: Iterator[Any],
    document: ForeignReader,
    file: str,
    reading: ReadContext,
    make: RowParser,
    *,
    first: int = 0,
) -> Iterator[Model]:
    for number, value in enumerate(rows, first):
        try:
            found = list(make(row_in(value, "this")))
        except InputError as error:
            where = f"{file}/{number}" if file else str(number)
            error.field = f"{where}/{error.field}" if error.field else where
            reading.refuse(error.located(line=document.value_line))  # type: ignore[arg-type]
            continue
        yield from found


def from_files(
    archive: ChatArchive,
    reading: ReadContext,
    place: Place,
    by_file: dict[str, RowParser | None],
    *,
    other_products: Collection[str] = (),
) -> Iterator[Model]:
    """Yield what is made of the files of an export; one that is damaged is refused by itself.

    Args:
        archive: The export.
        reading: Where bad files go, and what has no place is counted.
        place: What to call it in errors.
        by_file: What makes records of the rows of each file; None for one that is no memory. Files
            that are not in it are left to whoever asks.
        other_products: Paths of files that hold no memory of this product.
    """
    left = Counter(_folder_of(one) for one in archive.files if by_file.get(one.path, 0) is None)
    for file in archive.files:
        if file.path not in by_file:
            continue
        make = by_file[file.path]
        if make is None:
            is_one_of_many = left[_folder_of(file)] > _FEW
            kind = _folder_of(file) if is_one_of_many else _kind_of(file)
            if file.path in other_products or _holds_none(file):
                reading.report.ignore(kind)
            else:
                reading.report.lost(kind, "not a memory file")
            continue
        try:
            with archive.document(file, reading) as document:
                yield from rows_of(document, archive.file_of(file), reading, make)
        except InputError as error:
            error.field = error.field or archive.file_of(file) or None
            reading.refuse(error.located(file=place.name))  # type: ignore[arg-type]


def _folder_of(file: ArchiveFile) -> str:
    """Return what many files like this one are counted as: their folder, and their ending."""
    folder, ending = file.path.rpartition("/")[0], file.name.rpartition(".")[2]
    return f"{folder}/*.{ending}" if folder else f"*.{ending}"


def _holds_none(file: ArchiveFile) -> bool:
    """Tell whether a file holds no memory: of the account, the product's page, or a medium."""
    name = file.name.lower()
    is_listed = name in _OF_THE_ACCOUNT or _MANIFEST.fullmatch(name) is not None
    return is_listed or name.rpartition(".")[2] in _MEDIA


def _kind_of(file: ArchiveFile) -> str:
    """Return what a file without memory is counted as: its own name, or its ending."""
    ending = file.name.rpartition(".")[2] if "." in file.name else "file"
    return file.name if ending in ("json", "html") else f"*.{ending}"


def require_some(some: bool, place: Place) -> None:  # noqa: FBT001 - it is all that is asked
    """Refuse an export with nothing in it.

    Raises:
        EmptyInputError: If there was nothing.
    """
    if not some:
        raise EmptyInputError("the export contains no memories", file=place.name)


def read_only(title: str) -> NoReturn:
    """Refuse to write what only its product writes.

    Raises:
        UsageError: Always.
    """
    raise UsageError(
        f"{title} is read-only: no product imports it",
        field="format",
        hint="Write another format; `satchel formats` lists them.",
    )


_BLANK = re.compile(r"\n[ \t]*(?:\n[ \t]*)*\n")
_BOLD = re.compile(r"\*\*[^*\n]+\*\*:?")
_HASHES = re.compile(r"#{1,6}[ \t]+\S[^\n]*")


class Paragraph(NamedTuple):
    """A stretch of text between blank lines."""

    heading: str | None
    """The line above it, as it was written."""

    number: int
    """From 1, below that heading."""

    text: str


def paragraphs(text: str) -> Iterator[Paragraph]:
    """Yield the paragraphs of a text; joined again, nothing but blank lines is missing.

    A heading with nothing below it is a paragraph.
    """
    heading, waiting, number = None, False, 0
    for part in _BLANK.split(text.replace("\r\n", "\n").strip("\n")):
        first, _, below = part.partition("\n")
        if _is_heading(first):
            if waiting and heading is not None:
                yield Paragraph(None, 1, heading)
            heading, waiting, number = first, True, 0
            words = below
        else:
            words = part
        if words.strip():
            waiting, number = False, number + 1
            yield Paragraph(heading, number, words)
    if waiting and heading is not None:
        yield Paragraph(None, 1, heading)


def words_of(heading: str) -> str:
    """Return a heading without its marks."""
    return heading.strip("#*: \t")


def _is_heading(line: str) -> bool:
    return bool(_BOLD.fullmatch(line) or _HASHES.fullmatch(line))
