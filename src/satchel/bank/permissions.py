"""The holder of a token: the token chain, proof of possession, and the part of a bank it opens."""

import os
from collections.abc import Mapping
from pathlib import Path

from satchel.config.settings import Settings
from satchel.crypto.key_files import key_from_text
from satchel.crypto.keys import SigningKey
from satchel.crypto.token_chain import MOST_BYTES, Chain, open_chain, prove, require_possession
from satchel.crypto.tokens import Permission
from satchel.errors import LimitError, SigningKeyError
from satchel.ledger.ledger import Ledger
from satchel.ledger.scope import ScopedLedger, VerifiedChain
from satchel.model.values import now
from satchel.runtime.files import open_input

_READ = frozenset({Permission.READ})
_CHANGE = frozenset({Permission.READ, Permission.WRITE})

NEEDS: dict[str, frozenset[Permission]] = {
    "list": _READ,
    "show": _READ,
    "history": _READ,
    "stats": _READ,
    "recall": _READ,
    "rehydrate": frozenset({Permission.REHYDRATE}),
    "duplicates": _READ,
    "diff": _READ,
    "links": _READ,
    "path": _READ,
    "remember": frozenset({Permission.WRITE}),
    "derive": frozenset({Permission.DERIVE, Permission.READ}),
    "update": _CHANGE,
    "correct": _CHANGE,
    "forget": _CHANGE,
    "restore": _CHANGE,
    "redact": frozenset({Permission.REDACT}),
    "export": frozenset({Permission.EXPORT, Permission.READ}),
    "disclose": frozenset({Permission.EXPORT, Permission.READ}),
    "read files": _READ,
    "change files": _CHANGE,
}
"""Actions that a token can allow, with all the permissions that each needs."""


_KEY, _PASSPHRASE = "SATCHEL_SIGNING_KEY", "SATCHEL_PASSPHRASE"


class Bearer:
    """The holder of a token, while a bank is open.

    Args:
        held: The verified token chain.
    """

    def __init__(self, held: VerifiedChain) -> None:
        self.held = held

    @property
    def chain(self) -> Chain:
        """The tokens."""
        return self.held.chain

    @property
    def name(self) -> str:
        """The holder's key, for the log; for a bearer token, the issuer's."""
        return self.chain.audience or self.chain.leaf.payload.issuer

    def whole(self, ledger: Ledger) -> Ledger:
        """Return the log as its owner sees it; none of it may be returned to the holder."""
        return _inner(ledger)

    def unasked(self, ledger: Ledger) -> ScopedLedger:
        """Return a log that permits nothing, until an action calls ``asked``."""
        return ScopedLedger(_inner(ledger), self.held, None)

    def asked(self, ledger: Ledger, action: str) -> ScopedLedger:
        """Return the log as an action may see it.

        Raises:
            TokenError: If the token is not valid.
            PermissionRefusedError: If it does not allow the action.
        """
        scoped = ScopedLedger(_inner(ledger), self.held, NEEDS[action])
        with scoped.reading():
            return scoped

    def require_valid(self, ledger: Ledger) -> None:
        """Require that the token is valid now, whatever it allows.

        Raises:
            TokenError: If it is not.
        """
        with ScopedLedger(_inner(ledger), self.held, frozenset()).reading():
            return


def _inner(ledger: Ledger) -> Ledger:
    return ledger.inner if isinstance(ledger, ScopedLedger) else ledger


def load_bearer(settings: Settings, environment: Mapping[str, str] | None = None) -> Bearer:
    """Return the holder of the token in the settings, after proof of possession.

    Each opening makes a new proof, for a new verifier key, so no earlier signature can be replayed.
    A server has verified a proof in the request already.

    Raises:
        MalformedError, LimitError: If it is not a token.
        TokenError: If a signature or a link of it is not valid.
        SigningKeyError: If the key of its audience is not on this machine.
    """
    env = os.environ if environment is None else environment
    chain = read_chain(settings.token or "")
    if chain.audience is not None and not settings.proven:
        verifier, at = SigningKey.generate().did, now()
        proof = prove(chain, holder_key(settings, chain.audience, env), verifier, at)
        require_possession(chain, proof, verifier, now())
    return Bearer(VerifiedChain(chain, lambda: revoked_keys(settings)))


def read_chain(text: str) -> Chain:
    """Return the chain of a token: a file, or the JSON itself.

    Raises:
        UnreadableError: If there is no such file.
        SatchelError: As for ``open_chain``.
    """
    if text.lstrip().startswith("{"):
        return open_chain(text.strip().encode("utf-8", "surrogatepass"))
    with open_input(Path(text)) as stream:
        data = stream.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise LimitError(f"a token file can have at most {MOST_BYTES:,} bytes")
        return open_chain(data)


def own_key(settings: Settings, environment: Mapping[str, str]) -> SigningKey:
    """Return the key of the holder of the token in the settings.

    Raises:
        SigningKeyError: If it is a bearer token, or the key is not on this machine.
    """
    audience = read_chain(settings.token or "").audience
    if audience is None:
        raise SigningKeyError(
            "the holder of a bearer token has no key to sign with",
            field="audience",
            hint="Do not sign: --unsigned, or unsigned=True.",
        )
    return holder_key(settings, audience, environment)


def holder_key(
    settings: Settings, audience: str, environment: Mapping[str, str] | None = None
) -> SigningKey:
    """Return the signing key of a token's audience, from the environment or the key ring.

    Raises:
        SigningKeyError: If it is not on this machine.
    """
    env = os.environ if environment is None else environment
    if env.get(_KEY):
        key = key_from_text(env[_KEY])
        if key.did == audience:
            return key
    for name in settings.keyring.names():
        if settings.keyring.read(name).key == audience:
            return settings.keyring.load(name, passphrase=env.get(_PASSPHRASE))
    raise SigningKeyError(
        "the token is for a key that is not on this machine",
        field="audience",
        hint="Only its holder can present it. See: satchel key list.",
    )


def revoked_keys(settings: Settings) -> frozenset[str]:
    """Return the keys that are revoked on this machine."""
    return frozenset(key.key for key in settings.registry.listed() if key.state == "revoked")
