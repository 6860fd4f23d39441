"""Texts of files in an export of Claude: those of projects, and those too long for a message."""

from collections.abc import Iterator

import msgspec

from satchel.disk.contained import parts_of
from satchel.formats._aletheia.rows import text_files
from satchel.formats._chats.fields import Row
from satchel.memory.parts import Origin
from satchel.memory.records import FileVersion

_LONG = 1 << 17
"""Characters that the attachments of a message may have inside of it; a record holds a mebibyte."""

_TEXT = "extracted_content"


def files_at(path: str, text: str, origin: Origin, created: str | None) -> Iterator[FileVersion]:
    """Yield a text as a file, in as many pieces as it takes.

    Raises:
        PathRefusedError: If the path leads anywhere else than below where it starts.
    """
    parts_of(path)
    for each in text_files(path, text, ""):
        yield msgspec.structs.replace(each, origin=origin, created_at=created)


def long_attachments(kept: Row, message: str) -> Iterator[tuple[str, str]]:
    """Take long texts of attachments out of what is kept of a message; yield paths and texts.

    Args:
        kept: What is kept; each text becomes the path of its file.
        message: The id of the message.
    """
    listed = kept.get("attachments")
    rows = [one for one in listed if type(one) is dict] if type(listed) is list else []
    texts = [one.get(_TEXT) for one in rows]
    if sum(len(text) for text in texts if type(text) is str) <= _LONG:
        return
    kept["attachments"] = made = list(listed or ())
    for number, one in enumerate(made):
        text = one.get(_TEXT) if type(one) is dict else None
        if type(text) is str and text:
            path = f"attachments/{message}/{number}"
            made[number] = {k: v for k, v in one.items() if k != _TEXT} | {"file": path}
            yield path, text
