"""Recovering the original of a redacted memory, for those for whom it was sealed."""

import msgspec

from satchel.actions.memories.naming import find_memory
from satchel.actions.opened import OpenBank
from satchel.actions.permitted.owning import require_owner
from satchel.errors import SigningKeyError, VerificationError
from satchel.ledger.erasure.targets import SEALED
from satchel.memory.parts import JsonObject
from satchel.seal.records import open_record
from satchel.seal.sealed_originals import original
from satchel.seal.signing.key import SigningKey


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """The original of a redacted memory; in the bank stays its form."""

    id: str
    record: JsonObject
    """All of it; its id is the hash of the rest."""


def recover(bank: OpenBank, wanted: str, key: SigningKey) -> Recovered:
    """Return the original of a redacted memory. Nothing is put back.

    Args:
        bank: The bank.
        wanted: Id of the memory, or the first digits of it.
        key: One of those for which it was sealed.

    Raises:
        UnknownMemoryError: If there is no such memory.
        SigningKeyError: If it is not redacted, nothing was kept of it, or not for this key.
        VerificationError: If what was kept is not the original.
    """
    require_owner(bank.settings, "recover")
    with bank.ledger.reading() as view:
        logged = find_memory(view, wanted)
        identity, name = logged.record.id, f"{SEALED}{logged.seq}"
        if view.redaction(identity) is None:
            raise SigningKeyError("the memory is not redacted", field="id")
        sealed = view.side(name).get(name)
    if sealed is None:
        raise SigningKeyError(
            "no original was kept of this memory",
            field="id",
            hint="Only what is redacted with --recover-for can be recovered.",
        )
    record, _ = open_record(original(sealed, key))
    if record.id != identity:
        raise VerificationError("what was kept is the original of another memory")
    return Recovered(id=identity, record=record.value)
