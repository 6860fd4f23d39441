"""Who presents a token: the chain, proof that it is theirs, and the part of a bank it opens."""

import os
from collections.abc import Mapping
from pathlib import Path

from satchel.config.settings import Settings
from satchel.crypto.keyring import key_from_text
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
"""The actions that a holder can be allowed, each with all the permissions that it needs."""


_KEY, _PASSPHRASE = "SATCHEL_SIGNING_KEY", "SATCHEL_PASSPHRASE"


class Bearer:
    """The holder of a token, for as long as something is open.

    Args:
        held: What was presented.
    """

    def __init__(self, held: VerifiedChain) -> None:
        self.held = held

    @property
    def chain(self) -> Chain:
        """The tokens."""
        return self.held.chain

    @property
    def name(self) -> str:
        """Who it is, for the log: the holder's key; of a bearer token, who issued it."""
        return self.chain.audience or self.chain.leaf.payload.issuer

    def whole(self, ledger: Ledger) -> Ledger:
        """Return the log as its owner has it, of which nothing may be told."""
        return _inner(ledger)

    def unasked(self, ledger: Ledger) -> ScopedLedger:
        """Return the log for no action: nothing is given before one has asked."""
        return ScopedLedger(_inner(ledger), self.held, None)

    def asked(self, ledger: Ledger, action: str) -> ScopedLedger:
        """Return the log as one action has it.

        Raises:
            TokenError, PermissionRefusedError: If the token does not hold, or allow it.
        """
        found = ScopedLedger(_inner(ledger), self.held, NEEDS[action])
        with found.reading():
            return found

    def require_valid(self, ledger: Ledger) -> None:
        """Require that the token holds now, whatever it allows.

        Raises:
            TokenError: If it does not.
        """
        with ScopedLedger(_inner(ledger), self.held, frozenset()).reading():
            return


def _inner(ledger: Ledger) -> Ledger:
    return ledger.inner if isinstance(ledger, ScopedLedger) else ledger


def load_bearer(settings: Settings, environment: Mapping[str, str] | None = None) -> Bearer:
    """Return who presents the token of the settings, once they proved to be its audience.

    The proof is made once for each opening: a verifier's key is made for it, so nothing that was
    signed before, or for anybody else, counts. A server has seen one in the request itself.

    Raises:
        MalformedError, LimitError: If it is no token.
        TokenError: If a signature or a link does not hold.
        SigningKeyError: If the key of its audience is not here.
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
        SatchelError: As ``seal.tokens.chain.opened``.
    """
    if text.lstrip().startswith("{"):
        return open_chain(text.strip().encode("utf-8", "surrogatepass"))
    with open_input(Path(text)) as stream:
        data = stream.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise LimitError(f"a token file can have at most {MOST_BYTES:,} bytes")
        return open_chain(data)


def own_key(settings: Settings, environment: Mapping[str, str]) -> SigningKey:
    """Return the key of who presents the token of the settings.

    Raises:
        SigningKeyError: If the token is anybody's who has it, or the key is not here.
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
    """Return the secret of a token's audience, from the environment or the key ring.

    Raises:
        SigningKeyError: If it is not here.
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
    """Return the keys whose word does not count any more on this machine."""
    return frozenset(key.key for key in settings.registry.listed() if key.state == "revoked")
