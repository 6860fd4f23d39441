"""Receipts: accounts that are signed, as records that a log or a file can hold.

A receipt is a ``receipt`` record (docs/spec/2-records.md): its id covers all of it, and its
signatures cover it without id and signatures (docs/spec/3-artifact.md, SEAL-3.36). A file of
receipts has one a line.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from satchel.crypto.canonical import DEFAULT_LIMITS
from satchel.crypto.keys import (
    PayloadType,
    SignatureCheck,
    SigningKey,
    check,
    parse_signatures,
    sign,
    signed_part,
)
from satchel.crypto.sealed_records import Sealed, open_shape, seal
from satchel.errors import InputError, LimitError, MalformedError
from satchel.model.records import Receipt
from satchel.model.values import resolved
from satchel.receipts.account import ReceiptBody
from satchel.runtime.files import open_input
from satchel.runtime.output import Outlet

_MOST_SIGNATURES = 16
_MOST_IN_FILE = 100_000


def receipt_of(
    account: ReceiptBody, key: SigningKey | None, *, action: str | None = None
) -> Sealed:
    """Return the receipt of an account.

    Args:
        account: What happened.
        key: Who signs; None for nobody.
        action: The record's action, where it is not the kind of transfer.
    """
    result = msgspec.to_builtins(account)
    return signed_receipt(
        Receipt(action=action or account.kind, result=result, at=account.ended), key
    )


def signed_receipt(draft: Receipt, key: SigningKey | None) -> Sealed:
    """Return a receipt that stands for itself, away from the log as well.

    Args:
        draft: What it says, without signatures.
        key: Who signs; None for nobody.
    """
    unsigned = seal(draft)
    if key is None:
        return unsigned
    signatures = sign(PayloadType.RECEIPT, signed_part(unsigned.value), [key])
    whole = msgspec.structs.replace(
        draft,
        nonce=unsigned.value["nonce"],
        signatures=tuple(msgspec.to_builtins(signature) for signature in signatures),
    )
    return seal(whole)


def account_in(record: Sealed) -> ReceiptBody | None:
    """Return the account that a record holds; None where it is another kind of receipt.

    Raises:
        MalformedError: If it is no receipt.
    """
    model = record.model
    if not isinstance(model, Receipt):
        raise MalformedError("not a receipt", field="type")
    try:
        return msgspec.convert(model.result, resolved(ReceiptBody))
    except msgspec.ValidationError:
        return None


def signatures_of(record: Sealed) -> list[SignatureCheck]:
    """Check the signatures of a receipt; nothing is raised for a bad one.

    Raises:
        MalformedError: If what stands there are no signatures.
    """
    found = parse_signatures(record.value.get("signatures", []), _MOST_SIGNATURES)
    return check(PayloadType.RECEIPT, signed_part(record.value), found)


def receipts_in(path: Path) -> Iterator[tuple[Sealed, ReceiptBody | None]]:
    """Yield the receipts of a file; ids and signatures are left to the caller.

    Raises:
        MalformedError: If one is no account of a transfer, and nobody signed it either.
        LimitError: If one is too large, or these are too many.
        UnreadableError: If the file cannot be read.
    """
    longest = DEFAULT_LIMITS.entry_bytes
    with open_input(path) as stream:
        number = 0
        while line := stream.readline(longest + 2):
            number += 1
            try:
                yield _receipt(line, number, longest)
            except InputError as error:
                raise error.located(file=str(path), line=number) from None
    if not number:
        raise MalformedError("the file is empty", file=str(path))


def _receipt(line: bytes, number: int, longest: int) -> tuple[Sealed, ReceiptBody | None]:
    if len(line) > longest + 1 or number > _MOST_IN_FILE:
        raise LimitError("too large for a receipt")
    record, _ = open_shape(line.removesuffix(b"\n"))
    account = account_in(record)
    if account is None and not record.value.get("signatures"):
        raise MalformedError("not a report of a transfer", field="result")
    return record, account


def write_receipts(output: Outlet, receipts: list[Sealed]) -> None:
    """Write receipts to a file, whole or not at all.

    Raises:
        TargetError: If it cannot be written.
    """
    with output.writing(overwrite=False) as stream:
        stream.writelines(record.body + b"\n" for record in receipts)
