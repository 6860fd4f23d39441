"""Numbered, signed lists of revoked tokens, for verifiers that do not read the bank's log.

Source: docs/spec/6-keys-and-tokens.md, 6.4.
"""

from collections.abc import Collection
from datetime import timedelta
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from satchel.errors import MalformedError, TokenError, TokenTimeError, UsageError
from satchel.memory.parts import Id, Time, check_times
from satchel.memory.records import KeyId
from satchel.seal.encoding.jcs import canonical_checked, decode_canonical
from satchel.seal.records import shape_problem
from satchel.seal.signing.envelope import PayloadType, check, parse_signatures, sign
from satchel.seal.signing.key import SigningKey
from satchel.seal.tokens.chain import SKEW
from satchel.seal.tokens.token import shifted
from satchel.type_info import resolved

FORMAT = "satchel-revocations/1"
MOST_TOKENS = 100_000
MOST_BYTES = 16 * 2**20
LONGEST = timedelta(days=90)


class RevocationList(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tokens of a bank that are revoked at a moment."""

    v: Literal[1]
    bank: Id
    issuer: KeyId
    number: Annotated[int, Meta(ge=1)]
    """Higher in each later list; the size of the log that it was read from."""

    issued_at: Time
    expires_at: Time
    """From when on nobody may rely on it: there is a newer one, or nobody knows."""

    tokens: Annotated[tuple[Id, ...], Meta(max_length=MOST_TOKENS)]
    """Ids, sorted."""

    def __post_init__(self) -> None:
        check_times(self, ("issued_at", "expires_at"))
        if not self.issued_at < self.expires_at <= shifted(self.issued_at, LONGEST):
            raise ValueError(f"a revocation list can be valid for at most {LONGEST.days} days")
        if list(self.tokens) != sorted(set(self.tokens)):
            raise ValueError("`tokens` must be sorted, each once")


def signed_list(
    bank: str, owner: SigningKey, number: int, tokens: Collection[str], times: tuple[str, str]
) -> bytes:
    """Return the bytes of a file with a signed list.

    Args:
        bank: Whose tokens.
        owner: Signs it.
        number: Higher than that of every list before.
        tokens: Ids of those that are revoked.
        times: When it was issued, and until when it counts.

    Raises:
        UsageError: If it cannot say that.
    """
    issued_at, expires_at = times
    said = {
        "v": 1,
        "bank": bank,
        "issuer": owner.did,
        "number": number,
        "issued_at": issued_at,
        "expires_at": expires_at,
        "tokens": sorted(set(tokens)),
    }
    try:
        msgspec.convert(said, resolved(RevocationList))
    except msgspec.ValidationError as error:
        problem, field = shape_problem(error)
        raise UsageError(f"not a valid revocation list: {problem}", field=field) from None
    signatures = msgspec.to_builtins(sign(PayloadType.REVOCATIONS, said, [owner]))
    return canonical_checked({"format": FORMAT, "payload": said, "signatures": signatures}) + b"\n"


def opened_list(
    data: bytes, bank: str, owners: Collection[str], *, moment: str, least: int = 0
) -> RevocationList:
    """Return a list of revocations that counts now.

    Args:
        data: The bytes of its file.
        bank: Whose tokens are asked about.
        owners: Keys that own the bank.
        moment: Now.
        least: The number of the newest list that was seen before.

    Raises:
        MalformedError: If it is no such list.
        TokenError: If it is another bank's, not an owner's, not signed, or older than one seen.
        TokenTimeError: If it has ended, or is from the future.
    """
    value: Any = decode_canonical(data.strip(b"\r\n")) if len(data) <= MOST_BYTES else None
    members = {"format", "payload", "signatures"}
    if not isinstance(value, dict) or value.keys() != members or value["format"] != FORMAT:
        raise MalformedError("not a revocation list", field="format")
    try:
        found = msgspec.convert(value["payload"], resolved(RevocationList))
    except msgspec.ValidationError as error:
        problem, field = shape_problem(error)
        raise MalformedError(f"not a revocation list: {problem}", field=field) from None
    signatures = parse_signatures(value["signatures"], 1)
    if [signature.key for signature in signatures] != [found.issuer]:
        raise TokenError("the list is not signed by its issuer", field="signatures")
    if found.bank != bank or found.issuer not in owners:
        raise TokenError("the list is not issued by an owner of this bank", field="issuer")
    if not check(PayloadType.REVOCATIONS, value["payload"], signatures)[0].valid:
        raise TokenError("the signature of the list is not valid", field="signatures")
    if found.number < least:
        raise TokenError("a newer revocation list was seen here", field="number")
    if found.issued_at > shifted(moment, SKEW) or found.expires_at <= shifted(moment, -SKEW):
        raise TokenTimeError("the revocation list is not valid now", field="expires_at")
    return found
