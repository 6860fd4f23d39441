"""A message of Claude Design, which the export keeps apart from the other conversations."""

from satchel.formats._chats.fields import Row, moment_of, rest_of, text_in, text_or_none
from satchel.formats._chats.threads import origin_at
from satchel.memory.records import SessionEvent

_NAME = "claude"


def designed(row: Row, conversation: str, number: int) -> SessionEvent:
    """Return a message as an event: what is said is inside of what the product kept of it.

    Args:
        row: The message.
        conversation: The id of its conversation.
        number: Its place there, for one without an id.

    Raises:
        MalformedError: If nobody said it.
    """
    role, inside = text_in(row, "role"), row.get("content")
    kept = rest_of(row, known=("uuid", "role", "content"), times=("created_at",))
    said = inside.get("content") if type(inside) is dict else inside
    text = said if type(said) is str else None
    if text is not None and type(inside) is dict:
        same = ("content", "role") if inside.get("role") == role else ("content",)
        more = rest_of(inside, known=same)
        kept |= {"content": more} if more else {}
    identity = text_or_none(row.get("uuid")) or f"{conversation}/{number}"
    return SessionEvent(
        event="message",
        role=role,
        text="" if inside is None else text,
        content=None if text is not None else inside,
        created_at=moment_of(row.get("created_at")),
        origin=origin_at(_NAME, identity, None, kept),
    )
