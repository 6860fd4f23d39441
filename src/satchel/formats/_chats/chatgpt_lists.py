"""The list of its files that an export of ChatGPT brings along: what is on it and not there."""

from typing import Any

from satchel.errors import InputError
from satchel.formats._chats.archive import Archive
from satchel.ports.format import Reading

_LIST, _FILES, _TALKS = "export_manifest.json", "logical_files", "conversations.json"


def count_missing(archive: Archive, reading: Reading) -> None:
    """Say which files of conversations an export lists and does not have.

    Args:
        archive: The export.
        reading: Where that is noted.
    """
    there = {file.name for file in archive.files}
    missing = {one for one in _listed(archive, reading) if one.rpartition("/")[2] not in there}
    for one in sorted(missing):
        reading.report.note(f"the export lists {one[:80]!r}, and it is missing")
    reading.missing += len(missing)


def _listed(archive: Archive, reading: Reading) -> list[str]:
    """Return the names of the files with conversations; none where there is no list of them."""
    found = []
    for file in archive.files:
        if file.name == _LIST and file.info is not None:
            try:
                with archive.document(file, reading) as document:
                    found += _names_in(document.value())
            except InputError:
                reading.report.note(
                    f"{file.path[:80]!r} cannot be read: missing files cannot be determined"
                )
    return found


def _names_in(value: Any) -> list[str]:
    for name in (_FILES, _TALKS, "files"):
        value = value.get(name) if type(value) is dict else None
    return [one for one in value if type(one) is str] if type(value) is list else []
