"""The memories in a folder of notes."""

from collections.abc import Iterator

from satchel.errors import InputError, MalformedError
from satchel.formats._chats.archive import Archive, File
from satchel.formats._notes.fact import entry_of
from satchel.formats._notes.folder import text_in
from satchel.formats._notes.index import INDEX, MOST_KEPT, index_in, notes_of
from satchel.memory.entries import Entry
from satchel.ports.format import Reading
from satchel.ports.place import Place

ENDING = ".md"
KEPT = "index"
"""Where, among the fields around the records, the index is as it was."""


def memories_in(
    archive: Archive, reading: Reading, place: Place, top: str | None = None
) -> Iterator[Entry]:
    """Yield the memories of a folder of notes; files that are none are counted as lost.

    Args:
        archive: The input.
        reading: The bounds, and where bad files go.
        place: What to call the input in errors.
        top: The start of paths that is no part of what notes are called; where the index is, if
            it is not given.
    """
    alone = len(archive.files) == 1 and archive.files[0].info is None
    if alone and not archive.files[0].name.endswith(ENDING):
        problem = "not an archive, and not a Markdown file by its name"
        raise MalformedError(problem, file=place.name, byte=0, hint="Use the folder.")
    start = _top_of(archive) if top is None and not alone else top or ""
    notes = list[File]()
    for file in archive.files:
        if alone or (file.name.endswith(ENDING) and not _is_hidden(file, start)):
            notes.append(file)
        elif not _is_hidden(file, start):
            ending = file.name.rpartition(".")[2] if "." in file.name else "file"
            reading.report.lost(f"*.{ending}", "not a note", example=file.path)
    names = {one.path.removeprefix(start) for one in notes}
    for file in notes:
        try:
            text = text_in(archive, file, reading, place)
        except InputError as error:
            reading.refuse(error)
            continue
        path = file.path.removeprefix(start)
        if file.name == INDEX:
            yield from _of_the_index(text, path, names, reading)
        elif text or not alone:
            yield entry_of(path, text)


def _of_the_index(text: str, path: str, names: set[str], reading: Reading) -> Iterator[Entry]:
    found = index_in(text, names, path.rpartition("/")[0])
    if path == INDEX and len(text) <= MOST_KEPT:
        reading.container[KEPT] = text
    yield from notes_of(found, path)


def _is_hidden(file: File, top: str) -> bool:
    """Tell whether a file is of a program that keeps the folder, such as ``.git``."""
    return any(part.startswith(".") for part in file.path.removeprefix(top).split("/"))


def _top_of(archive: Archive) -> str:
    """Return the folder that all notes are in, with its slash, where it has an index."""
    notes = [one.path for one in archive.files if one.name.endswith(ENDING)]
    tops = [path.removesuffix(INDEX) for path in notes if f"/{path}".endswith(f"/{INDEX}")]
    top = min(tops, key=len, default="")
    return top if all(path.startswith(top) for path in notes) else ""
