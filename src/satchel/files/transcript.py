"""The transcript: messages in ``messages.json``, with concurrent appends merged."""

import json
from typing import Any

from satchel.errors import ConcurrencyError, MemoryStoreError
from satchel.files.paths import TRANSCRIPT
from satchel.files.transaction import FileTransaction, encoded_text

Messages = list[dict[str, Any]]


def encoded_messages(messages: Any) -> bytes:
    """Encode messages.

    Raises:
        MemoryStoreError: If they are not a list of objects that JSON can represent.
    """
    if not isinstance(messages, list) or not all(isinstance(one, dict) for one in messages):
        raise MemoryStoreError("messages must be a list of dictionaries", path=TRANSCRIPT)
    try:
        text = json.dumps(messages, indent=2, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise MemoryStoreError(
            f"a message cannot be written as JSON: {error}", path=TRANSCRIPT
        ) from None
    return encoded_text(TRANSCRIPT, text)


def decoded_messages(data: bytes | None) -> Messages | None:
    """Return the messages of a file; None if it is not a list of messages."""
    if data is None:
        return []
    try:
        messages = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if isinstance(messages, list) and all(isinstance(message, dict) for message in messages):
        return messages
    return None


class Flush:
    """A save of one writer's messages, merged with those of others.

    If the writer only added messages to those that it read, they are appended to those of others.
    If it changed them, they replace the file, but only if no other writer changed it.

    Args:
        base: The bytes that the writer read; None for no file.
        messages: Its present messages.
        actor: The writer.
    """

    op = "transcript"
    requested_path = TRANSCRIPT
    reason = ""

    def __init__(self, base: bytes | None, messages: Messages, actor: str = "agent") -> None:
        self._base = base
        self._messages = messages
        self.actor = actor

    def apply(self, group: FileTransaction) -> tuple[bytes | None, Messages]:
        """See ``Change``; returns the new bytes, and their messages."""
        state = group.state(TRANSCRIPT)
        if state.data is not None and decoded_messages(state.data) is None:
            group.set_aside(state.sha, state.data)  # damaged; stored before it is replaced
        messages = self._merged(state.data, state.sha)
        if messages is None:
            if state.data is not None and state.row is None:  # of another program
                group.put(TRANSCRIPT, state.data, self, op="sync")
            return state.data, self._messages
        data = encoded_messages(messages)
        if data != state.data:
            group.put(TRANSCRIPT, data, self, op="transcript")
        return data, messages

    def _merged(self, data: bytes | None, sha: str) -> Messages | None:
        """Return what to write; None if nothing."""
        if data == self._base:
            began = decoded_messages(data)
            if began == self._messages and data is not None:
                return None
            return self._messages
        began, theirs = decoded_messages(self._base), decoded_messages(data)
        if began is None or theirs is None:
            if self._messages == (began or []):
                return None
            raise ConcurrencyError(TRANSCRIPT, None, sha, message=_OTHERS)
        if self._messages[: len(began)] != began:
            raise ConcurrencyError(TRANSCRIPT, None, sha, message=_OTHERS)
        added = self._messages[len(began) :]
        return theirs + added


_OTHERS = "another process changed the messages, and these do not continue what was read"
