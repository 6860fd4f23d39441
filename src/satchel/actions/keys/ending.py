"""Letting keys go: one whose word was good is retired, one that was stolen is revoked."""

from typing import Any

import msgspec

from satchel.actions.config import Settings
from satchel.actions.keys.told import BankTold, Owners, decider, each_bank
from satchel.actions.permitted.owning import require_owner
from satchel.actions.signing import named_key
from satchel.actions.wiring import writer_key
from satchel.errors import SigningKeyError
from satchel.ledger.authority import Authority
from satchel.ports.store import Store
from satchel.seal.keys.ended import RETIRED, REVOKED
from satchel.seal.signing.key import SigningKey
from satchel.seal.signing.keyring import revocation
from satchel.seal.signing.trust import TrustedKey


class KeyEnded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key that counts no more on this machine, and in these banks."""

    entry: TrustedKey
    """What the registry says of it now."""

    statement: dict[str, Any] | None = None
    """For others; see ``revoke_key``."""

    banks: list[BankTold] = []
    """The banks of the store that it was a key of."""

    proposal: str | None = None
    """The file with what more owners have to sign."""

    @property
    def is_whole(self) -> bool:
        """Whether every bank knows."""
        return not any(bank.problem for bank in self.banks)


def retire_key(
    settings: Settings, key: str, *, reason: str | None = None, owners: Owners = ()
) -> KeyEnded:
    """Let a key go whose word was good: what it signed stays so, and it signs no more.

    Where a bank of the store cannot do without it, nothing changes on this machine.

    Args:
        settings: Where the registry and the store are.
        key: A did:key, or the name of a key in the registry.
        reason: Why.
        owners: Keys of other owners, for the banks that it is a key of.

    Raises:
        UsageError: If no key, or more than one, has that name, or it was revoked.
    """
    require_owner(settings, "keys")
    ended = named_key(settings, key)
    known = settings.registry.find(ended)
    if known is None or known.state == "revoked":
        settings.registry.retire(ended)  # refuses
    told = each_bank(settings, _Ending(settings, RETIRED, ended, owners, reason).tell)
    if known is None or not any(bank.problem for bank in told):
        known = settings.registry.retire(ended, reason)
    return KeyEnded(entry=known, banks=told)


def revoke_key(
    settings: Settings,
    key: str,
    *,
    reason: str | None = None,
    signer: SigningKey | None = None,
    owners: Owners = (),
) -> KeyEnded:
    """Stop believing a key, for good, on this machine and in the banks that it is a key of.

    Args:
        settings: Where the registry and the store are.
        key: A did:key, or the name of a key in the registry.
        reason: Why.
        signer: Signs a statement for others, when given.
        owners: Keys of other owners, for the banks.

    Raises:
        UsageError: If no key, or more than one, has that name.
    """
    require_owner(settings, "keys")
    ended = named_key(settings, key)
    entry = settings.registry.revoke(ended, reason)
    statement = revocation(signer, [ended], reason) if signer else None
    told = each_bank(settings, _Ending(settings, REVOKED, ended, owners, reason).tell)
    return KeyEnded(entry=entry, statement=statement, banks=told)


class _Ending:
    """Ends a key in the banks that it is, or was, a key of."""

    def __init__(
        self,
        settings: Settings,
        action: str,
        key: str,
        owners: Owners,
        reason: str | None,
    ) -> None:
        self.settings, self.action, self.key = settings, action, key
        self.owners, self.reason = owners, reason

    def tell(self, store: Store, bank: str, authority: Authority) -> bool | None:
        """Note it in one bank; None where it was no key of it."""
        known = authority.keys.ending(self.key)
        if known is None and not authority.admits(self.key):
            return None
        if known is not None and (known.action == REVOKED or self.action == RETIRED):
            return False
        owners = tuple(
            one for one in self.owners if one.did != self.key and one.did in authority.owners
        )
        if not owners:
            raise SigningKeyError(
                "another owner of the bank must sign this",
                field="key",
                hint="Sign with another owner's key: --signing-key NAME. If there is none, replace"
                " the key first: satchel key rotate.",
            )
        writer = writer_key(self.settings)
        is_usable = writer.did != self.key and authority.admits(writer.did)
        signer = writer if is_usable else owners[0]
        return decider(self.settings, store, bank, owners, signer).end(
            self.action, self.key, self.reason
        )
