"""Capability tokens from Python: those of a bank, and a part of one handed on by its holder."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict, Unpack

from satchel.actions.config import load_settings
from satchel.actions.importing.imported import Owners
from satchel.actions.opened import OpenBank
from satchel.actions.tokens import issuing, judging, revoking
from satchel.actions.tokens.issuing import TokenAsked
from satchel.actions.tokens.judging import Judging, TokenVerdict
from satchel.actions.tokens.revoking import RevocationsWritten, Revoked
from satchel.actions.tokens.revoking import Tokens as Listed
from satchel.actions.tokens.told import ChainTold
from satchel.api.arguments import FilePath
from satchel.api.asked import known
from satchel.api.lifetime import Lifetime

__all__ = ["ChainTold", "Listed", "Revoked", "TokenVerdict", "Tokens"]


class TokenArguments(TypedDict, total=False):
    """What a token says; see ``satchel token issue``."""

    audience: str | None
    """Whose it is to be: a did:key, the name of a key here, or a file. None for whoever has it."""

    permissions: Sequence[str]
    """Of read, write, derive, redact, export, rehydrate; ``["read"]`` when not given."""

    entries: Sequence[str]
    components: Sequence[str]
    any_of: Sequence[str]
    """Tags of which an entry has to have one."""

    all_of: Sequence[str]
    none_of: Sequence[str]
    everything: bool
    expires: str | None
    """A moment, or ``30m``, ``12h``, ``7d``, ``2w`` from now."""

    not_before: str | None
    root_hash: str | None
    """The one artifact that it counts for, and no bank."""

    output: Path | None
    """A file for it, which only its owner may read."""

    overwrite: bool


class Tokens:
    """The capability tokens of a bank; ``Bank.tokens`` gives it. Only its owner may use it."""

    def __init__(self, opened: OpenBank, lifetime: Lifetime, owner: Owners) -> None:
        self._opened = opened
        self._lifetime = lifetime
        self._owner = owner

    def issue(self, **said: Unpack[TokenArguments]) -> ChainTold:
        """Sign a token as an owner of the bank, and note it in the log.

        Args:
            **said: What it says: see ``TokenArguments``. ``text`` of the answer is what its
                holder presents: ``Satchel.open(token=...)`` takes it, or its file.

        Raises:
            UsageError: If no token can say that.
            SigningKeyError: If the key is not that of an owner.
        """
        asked, output, overwrite = _asked("issue", known("issue", said, TokenArguments))
        with self._lifetime.use():
            return issuing.issue_token(
                self._opened, asked, self._owner(), output=output, overwrite=overwrite
            )

    def list(self, *, everything: bool = False, limit: int = 100) -> Listed:
        """Return the tokens that were issued, the newest first; with ``everything`` past ones."""
        with self._lifetime.use():
            return revoking.list_tokens(self._opened, everything=everything, limit=limit)

    def revoke(self, token: str, *, reason: str | None = None) -> Revoked:
        """End a token, and with it all that were made from it.

        Args:
            token: Its id, six of the first digits or more, or its file.
            reason: For whoever reads the log.

        Raises:
            UsageError: If no token is meant.
        """
        with self._lifetime.use():
            return revoking.revoke_token(self._opened, token, self._owner(), reason=reason)

    def verify(
        self,
        token: str,
        *,
        permissions: Sequence[str] = (),
        entry: str | None = None,
        revocations: FilePath | None = None,
        artifact: str | None = None,
    ) -> TokenVerdict:
        """Tell whether a token holds now, and allows and covers what is asked for.

        Args:
            token: Its file, or its JSON.
            permissions: It has to allow all of these.
            entry: It has to cover this entry.
            revocations: A signed list of revoked tokens.
            artifact: Root hash of the artifact that it is presented for.

        Raises:
            MalformedError: If it is no token.
            TokenError: If a signature or a link does not hold.
        """
        asked = Judging(
            permissions=permissions,
            entry=entry,
            revocations=None if revocations is None else Path(revocations),
            artifact=artifact,
        )
        with self._lifetime.use():
            return judging.verify_token(self._opened.settings, token, asked)

    def write_revocations(
        self, path: FilePath, *, expires: str = "7d", overwrite: bool = False
    ) -> RevocationsWritten:
        """Write a signed list of the revoked tokens, for verifiers without the bank's log."""
        with self._lifetime.use():
            return revoking.write_revocations(
                self._opened, Path(path), self._owner(), expires=expires, overwrite=overwrite
            )


def attenuate(token: str, **said: Unpack[TokenArguments]) -> ChainTold:
    """Hand a part of a capability token on, as its holder, whose key is here.

    Args:
        token: Its file, or its JSON.
        **said: What the part is: see ``TokenArguments``. It can only narrow.

    Raises:
        UsageError: If it would say more.
        SigningKeyError: If the holder's key is not here.
        TokenError: If the token itself does not hold.
    """
    asked, output, overwrite = _asked("attenuate", known("attenuate", said, TokenArguments))
    return issuing.attenuate_token(
        load_settings(), token, asked, output=output, overwrite=overwrite
    )


def _asked(verb: str, said: dict[str, object]) -> tuple[TokenAsked, Path | None, bool]:
    output, overwrite = said.pop("output", None), bool(said.pop("overwrite", False))
    for name in ("permissions", "entries", "components", "any_of", "all_of", "none_of"):
        if isinstance(said.get(name), str):
            raise TypeError(f"{verb}() takes several texts as {name}, not one")
    path = None if output is None else Path(str(output))
    return TokenAsked(**said), path, overwrite  # type: ignore[arg-type]  # its names were looked at
