"""What an import under way has to remember, beside the log until it is complete."""

import os
from collections.abc import Iterator
from typing import Any

import msgspec

from satchel.ledger.view import View
from satchel.memory.times import now
from satchel.type_info import resolved

SIDE = "import/"
"""What the names of the values begin with; the id of the source record follows."""


class Journal(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """What an import under way has to remember; kept beside the log, gone when it is complete."""

    asked: str
    """What was asked for: the digest of the input and the options."""

    seed: bytes
    """Of all nonces."""

    at: str
    """When it began."""

    source: str = ""
    """Id of its source record, once that is logged."""

    records: int = 0
    """How many records it is going to log."""

    request: dict[str, Any] = {}
    """How it was asked for, so that it can be gone on with: the file, and the options by name."""


def new_journal(asked: str, request: dict[str, Any] | None = None) -> Journal:
    """Return the journal of an import that begins."""
    return Journal(asked=asked, seed=os.urandom(32), at=now(), request=request or {})


def journals(view: View) -> Iterator[Journal]:
    """Yield those of the imports into a bank that are under way, or were killed."""
    under_way = {one.source for one in view.imports() if not (one.complete or one.undone)}
    for name, value in view.side(SIDE).items():
        journal = msgspec.json.decode(value, type=resolved(Journal))
        if name == SIDE + journal.source and journal.source in under_way:
            yield journal
