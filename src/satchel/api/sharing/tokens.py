"""Capability tokens from Python: those of a bank, and a part of one handed on by its holder."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from satchel.actions.config import Settings, load_settings
from satchel.actions.importing.imported import Owners
from satchel.actions.opened import OpenBank
from satchel.actions.tokens import issuing, judging, revoking
from satchel.api.lifetime import Lifetime
from satchel.api.operations import function, method

__all__ = ["Tokens", "attenuate"]


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


@contextmanager
def _settings() -> Iterator[Settings]:
    yield load_settings()


attenuate = function(issuing.attenuate_token, _settings)
