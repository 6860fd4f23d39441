"""Recovering the original of a redacted memory, for those for whom it was sealed."""

from collections.abc import Callable

import msgspec

from satchel.actions.erasing.options import RecoverOptions
from satchel.actions.memories.naming import find_memory
from satchel.actions.opened import OpenBank
from satchel.actions.options import NOT_FOR_MODELS, SECRETS
from satchel.actions.paths.permission import file_to_write
from satchel.actions.permitted.owning import require_owner
from satchel.actions.signing import signer_of
from satchel.errors import SigningKeyError, UsageError, VerificationError
from satchel.ledger.erasure.targets import SEALED
from satchel.memory.parts import JsonObject
from satchel.ports.operations import operation, path_text
from satchel.seal.encoding.jcs import canonical_checked
from satchel.seal.records import open_record
from satchel.seal.sealed_originals import age_file, original, original_by
from satchel.seal.signing.key import SigningKey


class Recovered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The original of a redacted memory. The bank still has the redacted form."""

    id: str
    record: JsonObject = {}
    """All of it, unless it was written to a file; its ID is the hash of the rest."""

    output: str | None = None
    """The file that was written."""


@operation(
    RecoverOptions,
    name="recover",
    example="satchel recover 3f9a2c --output original.json",
    absent={**NOT_FOR_MODELS, "http": SECRETS},
)
def recover(
    bank: OpenBank, options: RecoverOptions, *, owner: Callable[[], SigningKey] | None = None
) -> Recovered:
    """Show the original of a redacted memory. This needs a key that it was sealed for.

    Nothing is restored: the bank keeps the redacted form. The original is verified by its ID. An
    age file is opened by an identity that is stored here, or named before the command:
    `satchel --identity FILE recover`.

    Args:
        bank: The bank.
        options: Which memory.
        owner: Returns the key that it was sealed for, if no identity opens it.

    Raises:
        UnknownMemoryError: If there is no such memory.
        SigningKeyError: If it is not redacted, nothing was kept of it, or not for this key.
        VerificationError: If what was kept is not the original.
    """
    output = path_text(options.output)
    if options.sealed:
        if output is None:
            raise UsageError(
                "an age file must be written to a file", field="sealed", hint="Add --output."
            )
        identity, content = kept_age_file(bank, options.memory)
        return _written(bank, identity, content, output, options)
    found = None if options.signing_key is not None else recover_by_identity(bank, options.memory)
    if found is None:
        found = recover_by_key(bank, options.memory, signer_of(bank.settings, options, owner))
    if output is None:
        return found
    return _written(bank, found.id, canonical_checked(found.record) + b"\n", output, options)


def _written(
    bank: OpenBank, identity: str, content: bytes, output: str, options: RecoverOptions
) -> Recovered:
    with (
        file_to_write(bank.settings, output) as outlet,
        outlet.writing(overwrite=options.overwrite) as stream,
    ):
        stream.write(content)
    return Recovered(id=identity, output=output)


def recover_by_key(bank: OpenBank, wanted: str, key: SigningKey) -> Recovered:
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
    identity, sealed = _kept(bank, wanted)
    return _recovered(identity, original(sealed, key))


def recover_by_identity(bank: OpenBank, wanted: str) -> Recovered | None:
    """Return the original of a redacted memory, by an age identity that is here or was named.

    None where it is no age file, or none of the identities opens it.

    Raises:
        UnknownMemoryError: If there is no such memory.
        SigningKeyError: If it is not redacted, or nothing was kept of it.
        EncryptionError: If what was kept was changed.
        VerificationError: If it is not the original.
    """
    require_owner(bank.settings, "recover")
    identity, sealed = _kept(bank, wanted)
    if age_file(sealed) is None:
        return None
    body = original_by(sealed, list(bank.settings.unlocking.identities()))
    return None if body is None else _recovered(identity, body)


def kept_age_file(bank: OpenBank, wanted: str) -> tuple[str, bytes]:
    """Return the id of a redacted memory, and its original as the age file that was kept.

    Raises:
        UnknownMemoryError: If there is no such memory.
        SigningKeyError: If it is not redacted, or nothing was kept of it for a recipient of age.
    """
    require_owner(bank.settings, "recover")
    identity, sealed = _kept(bank, wanted)
    found = age_file(sealed)
    if found is None:
        raise SigningKeyError(
            "the original is stored for signing keys only",
            field="id",
            hint="Only memories redacted with --recover-to are stored as an age file.",
        )
    return identity, found


def _kept(bank: OpenBank, wanted: str) -> tuple[str, bytes]:
    """Return the id of a redacted memory, and its original as it was sealed."""
    with bank.ledger.reading() as view:
        logged = find_memory(view, wanted)
        identity, name = logged.record.id, f"{SEALED}{logged.seq}"
        if view.redaction(identity) is None:
            raise SigningKeyError("the memory is not redacted", field="id")
        sealed = view.side(name).get(name)
    if sealed is None:
        raise SigningKeyError(
            "the original of this memory was not stored",
            field="id",
            hint="Only memories redacted with --recover-for or --recover-to can be recovered.",
        )
    return identity, sealed


def _recovered(identity: str, body: bytes) -> Recovered:
    record, _ = open_record(body)
    if record.id != identity:
        raise VerificationError("the stored original is that of another memory")
    return Recovered(id=identity, record=record.value)
