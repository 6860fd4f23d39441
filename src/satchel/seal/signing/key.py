"""A signing key in memory."""

from dataclasses import dataclass, field

from nacl import bindings

from satchel.seal.signing.did import did_of

SEED_BYTES = 32
"""Length of an Ed25519 seed."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """An Ed25519 key that can sign; its secret never shows in a repr, a log or an error."""

    did: str
    _secret: bytes = field(repr=False)

    @classmethod
    def from_seed(cls, seed: bytes) -> "SigningKey":
        """Return the key of a 32-byte seed.

        Raises:
            ValueError: If it has another length.
        """
        public, secret = bindings.crypto_sign_seed_keypair(seed)
        return cls(did_of(public), secret)

    @classmethod
    def generate(cls) -> "SigningKey":
        """Return a new random key."""
        return cls.from_seed(bindings.randombytes(SEED_BYTES))

    @property
    def seed(self) -> bytes:
        """The 32 secret bytes; only for writing the key file."""
        return self._secret[:SEED_BYTES]

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte signature of ``message``."""
        return bindings.crypto_sign(message, self._secret)[:64]
