"""The transcript: messages in ``messages.json``, which only grow as far as others are concerned."""

import json
from typing import Any

from satchel.errors import ConcurrencyError, MemoryStoreError
from satchel.files.paths import TRANSCRIPT
from satchel.files.transaction import FileTransaction, encoded_text

Messages = list[dict[str, Any]]


def encoded_messages(messages: Any) -> bytes:
    """Return messages as they are kept.

    Raises:
        MemoryStoreError: If they are not a list of objects that JSON has a form for.
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
    """Return the messages in a file; None where it is no list of messages."""
    if data is None:
        return []
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if isinstance(found, list) and all(isinstance(one, dict) for one in found):
        return found
    return None


class Flush:
    """The messages of one holder of a store, brought together with those of others.

    Who began with the same messages and added some adds them behind those of others. Who holds
    other messages than it began with replaces them, but only if nobody else changed them.

    Args:
        base: The bytes that the holder began with, None for no file.
        messages: What it has now.
        actor: Who it is.
    """

    op = "transcript"
    said = TRANSCRIPT
    reason = ""

    def __init__(self, base: bytes | None, messages: Messages, actor: str = "agent") -> None:
        self._base = base
        self._messages = messages
        self.actor = actor

    def apply(self, group: FileTransaction) -> tuple[bytes | None, Messages]:
        """See ``Change``; gives the bytes that are there now, and the messages in them."""
        state = group.state(TRANSCRIPT)
        if state.data is not None and decoded_messages(state.data) is None:
            group.set_aside(state.sha, state.data)  # damaged; not to be lost when it is replaced
        messages = self._merged(state.data, state.sha)
        if messages is None:
            if state.data is not None and state.row is None:  # one that something else wrote
                group.put(TRANSCRIPT, state.data, self, op="sync")
            return state.data, self._messages
        data = encoded_messages(messages)
        if data != state.data:
            group.put(TRANSCRIPT, data, self, op="transcript")
        return data, messages

    def _merged(self, there: bytes | None, sha: str) -> Messages | None:
        """Return what to write; None where there is nothing to."""
        if there == self._base:
            began = decoded_messages(there)
            if began == self._messages and there is not None:
                return None
            return self._messages
        began, found = decoded_messages(self._base), decoded_messages(there)
        if began is None or found is None:
            if self._messages == (began or []):
                return None
            raise ConcurrencyError(TRANSCRIPT, None, sha, message=_OTHERS)
        if self._messages[: len(began)] != began:
            raise ConcurrencyError(TRANSCRIPT, None, sha, message=_OTHERS)
        added = self._messages[len(began) :]
        return found + added


_OTHERS = "another process changed the messages, and these do not continue what was read"
