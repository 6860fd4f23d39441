"""Redacted forms: an entry without its nonce, with tokens in the place of chosen values.

A form keeps the id of the entry, which is not that of its bytes; that it may stand there is said by
a redaction record of the log, by the hash of the form. Source: docs/spec/7, 7.2.
"""

import msgspec

from satchel.crypto.sealed_records import Sealed, digest, has_valid_id, open_shape, seal
from satchel.crypto.signatures import PayloadType, SigningKey, sign, signed_part
from satchel.errors import MalformedError
from satchel.model.records import TIMES, Entry, Model, Redaction

_KEPT = ("parent_ids", *TIMES)


def open_redacted_form(body: bytes, result: str) -> tuple[Sealed, Model]:
    """Return the redacted form that has a hash, as a log says, from its canonical bytes.

    Where the log says that the whole entry is back, that is the form.

    Raises:
        MalformedError: If it is another one.
    """
    if digest(body) != result:
        raise MalformedError("it was redacted, and is not in its logged form")
    record, model = open_shape(body)
    if not isinstance(model, Entry) or (model.nonce is not None and not has_valid_id(record)):
        raise MalformedError("not a redacted form", field="nonce")
    return record, model


def signed_redaction(draft: Redaction, key: SigningKey) -> Sealed:
    """Return a redaction record that a key of the bank signed."""
    unsigned = seal(draft)
    signatures = sign(PayloadType.REDACTION, signed_part(unsigned.value), [key])
    whole = msgspec.structs.replace(
        draft,
        nonce=unsigned.value["nonce"],
        signatures=tuple(msgspec.to_builtins(signature) for signature in signatures),
    )
    return seal(whole)


def is_redacted_form(body: bytes) -> bool:
    """Tell whether canonical bytes are a redacted form, or claim to be: there is no nonce.

    Raises:
        MalformedError: If they are no record.
    """
    _, model = open_shape(body)
    return isinstance(model, Entry) and model.nonce is None


def require_form_of(form: Model, entry: Model) -> None:
    """Require that a form keeps what a redaction may not change.

    Raises:
        MalformedError: If it has another id, type, parents or times; ``field`` says which.
    """
    if type(form) is not type(entry) or form.id != entry.id:
        raise MalformedError("the redacted form of another entry", field="id")
    for name in _KEPT:
        if getattr(form, name) != getattr(entry, name):
            raise MalformedError("a redaction cannot change this member", field=name)
