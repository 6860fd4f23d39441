"""Whose memory arrives, where it says so."""

import msgspec

from satchel.errors import MalformedError
from satchel.memory.parts import Scope
from satchel.seal.records import Sealed
from satchel.transfer.incoming.plan import owner_of


class _Scoped(msgspec.Struct, gc=False):
    scope: Scope | None = None


_decode = msgspec.json.Decoder(_Scoped).decode


def owner_named(record: Sealed, number: int, file: str) -> str:
    """Return the name of the bank that a record goes into: its user's, or its agent's.

    Args:
        record: What arrived.
        number: How many came before it.
        file: What to call the input in errors.

    Raises:
        MalformedError: If it says not whose it is.
    """
    sort, name = owner_of(_decode(record.body).scope)
    if sort in ("user", "agent") and name.strip():
        return name
    what = "belongs to a run only" if sort == "run" else "says not whose it is"
    raise MalformedError(
        f"this {record.type} memory {what}",
        file=file,
        field=str(number),
        hint="Say which bank everything goes into: --bank NAME.",
    )
