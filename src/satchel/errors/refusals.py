"""Verification or permission says no."""

from collections.abc import Sequence
from typing import Any, ClassVar

from satchel.errors.satchel_error import SatchelError


class RefusedError(SatchelError):
    """Verification or permission says no."""

    code: ClassVar[str] = "refused"
    exit_status: ClassVar[int] = 3
    http_status: ClassVar[int] = 403


class VerificationError(RefusedError):
    """A sealed file did not verify well enough for what was asked."""

    code: ClassVar[str] = "verify.refused"


class UnfinishedCopyError(VerificationError):
    """A bank is here without a signed head: it was brought in part only, or the head was taken."""

    code: ClassVar[str] = "store.unfinished_copy"
    http_status: ClassVar[int] = 409


class WitnessError(RefusedError):
    """What was witnessed of a bank is damaged, or a head contradicts it."""

    code: ClassVar[str] = "witness.refused"
    http_status: ClassVar[int] = 409


class ErasureRefusedError(RefusedError):
    """What was to be erased has to stay, or what was erased has to stay away."""

    code: ClassVar[str] = "erasure.refused"
    http_status: ClassVar[int] = 409


class RedactionRefusedError(RefusedError):
    """What was to be redacted is not there any more, or the form is not one of it."""

    code: ClassVar[str] = "redaction.refused"
    http_status: ClassVar[int] = 409


class SigningKeyError(RefusedError):
    """A key is missing, unusable, wrongly protected, or its passphrase is wrong."""

    code: ClassVar[str] = "key.refused"


class ThresholdError(SigningKeyError):
    """Fewer owners of a bank signed than it wants.

    Args:
        drawn: The canonical bytes of what they are to sign, signed by those who did.
        (The others as for every error.)
    """

    code: ClassVar[str] = "key.threshold"

    def __init__(self, message: str, *, drawn: Sequence[bytes] = (), **place: Any) -> None:
        super().__init__(message, **place)
        self.drawn = list(drawn)


class EncryptionError(RefusedError):
    """A file cannot be decrypted: nothing here opens it, or it was cut or altered."""

    code: ClassVar[str] = "encryption.refused"


class RolledBackError(VerificationError):
    """A store is older than what this machine saw of it, or a bank that was here is missing."""

    code: ClassVar[str] = "verify.rolled_back"


class ForkedError(VerificationError):
    """A store and this machine's witness of it went different ways."""

    code: ClassVar[str] = "verify.forked"


class AdoptedError(VerificationError):
    """A bank of this machine was adopted by a key that it does not trust."""

    code: ClassVar[str] = "verify.adopted"


class TokenError(RefusedError):
    """A capability token does not hold: its signatures, its chain, its bank, or who presents it."""

    code: ClassVar[str] = "token.refused"


class TokenTimeError(TokenError):
    """A capability token has ended, or has not begun."""

    code: ClassVar[str] = "token.expired"


class TokenRevokedError(TokenError):
    """A capability token was revoked, or one that it was made from."""

    code: ClassVar[str] = "token.revoked"


class PermissionRefusedError(RefusedError):
    """The token that was presented does not allow this; the error says nothing of what is there."""

    code: ClassVar[str] = "permission.refused"
