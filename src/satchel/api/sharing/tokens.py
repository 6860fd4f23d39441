"""The capability tokens of a bank, from Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from satchel.api.lazy import lazy
from satchel.api.operations import method

if TYPE_CHECKING:
    from satchel.actions.importing.imported import Owners
    from satchel.actions.opened import OpenBank
    from satchel.actions.tokens import issuing, judging, revoking
    from satchel.api.lifetime import Lifetime
else:
    issuing = lazy("satchel.actions.tokens.issuing")
    judging = lazy("satchel.actions.tokens.judging")
    revoking = lazy("satchel.actions.tokens.revoking")


class Tokens:
    """The capability tokens of a bank; ``Bank.tokens`` gives it. Only its owner may use it."""

    def __init__(self, opened: OpenBank, lifetime: Lifetime, owner: Owners) -> None:
        self._opened = opened
        self._lifetime = lifetime
        self._owner = owner

    @contextmanager
    def _context(self) -> Iterator[OpenBank]:
        with self._lifetime.use():
            yield self._opened

    def _internal(self, options: Any) -> Mapping[str, Any]:
        return owner_unless_named(self._owner, options)

    issue = method(issuing.issue_token)
    inspect = method(judging.inspect_token)
    verify = method(judging.verify_token)
    revoke = method(revoking.revoke_token)
    list = method(revoking.list_tokens)
    write_revocations = method(revoking.write_revocations)


def owner_unless_named(owner: Owners, options: Any) -> Mapping[str, Any]:
    """Supply the owner's key with which a store was opened, where a call names no other."""
    named = options.signing_key is not None or options.passphrase is not None
    return {} if named else {"owner": owner}
