"""Who owns a bank, and how many of them have to sign what is decided about it, from Python."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict, Unpack

from satchel.actions.keys import owners as actions
from satchel.actions.keys import proposing
from satchel.actions.keys.owners import BankOwners
from satchel.actions.keys.proposing import Matter
from satchel.actions.keys.told import Owners as Signing
from satchel.actions.opened import OpenBank
from satchel.actions.signing import owner_keys
from satchel.api.arguments import FilePath
from satchel.api.asked import known
from satchel.api.lifetime import Lifetime
from satchel.errors import ThresholdError

__all__ = ["BankOwners", "Matter", "Owners"]


class DecideArguments(TypedDict, total=False):
    """Who signs what is decided about a bank."""

    key_name: str | None
    """Name of an owner's key; the default one when not given."""

    also: Sequence[str]
    """Names of other owners' keys, which sign as well."""

    passphrase: str | None
    """Of those that have one."""


class Owners:
    """The owners of a bank; ``Bank.owners`` gives it. Only they may use it.

    Where more of them have to sign, whose keys are elsewhere, a call ends in a ``ThresholdError``.
    ``propose`` writes what they are to sign, each of them signs it with ``sign``, and ``enact``
    notes it in the log.
    """

    def __init__(self, opened: OpenBank, lifetime: Lifetime) -> None:
        self._opened = opened
        self._lifetime = lifetime

    def list(self) -> BankOwners:
        """Return the owners by the log, which is proved, and how many of them have to sign."""
        with self._lifetime.use():
            return actions.owners_in(self._opened.settings, self._opened.store, self._opened.id)

    def add(self, key: str, **said: Unpack[DecideArguments]) -> BankOwners:
        """Make a key one of the owners. It has to agree: its secret is here, or it is proposed.

        Args:
            key: A did:key, or the name of a key here or trusted.
            **said: Who signs: see ``DecideArguments``.

        Raises:
            ThresholdError: If more have to sign, or the key itself, whose secret is elsewhere.
            UsageError: If the key ended in this bank, or there are as many as there may be.
            SigningKeyError: If the key that signs is not that of an owner.
        """
        settings, asked = self._opened.settings, known("add", said, DecideArguments)
        with self._lifetime.use():
            newcomer = None
            if key in settings.keyring.names():
                newcomer = owner_keys(settings, key, passphrase=asked.get("passphrase"))[0]
            return actions.add_owner_in(
                settings,
                (self._opened.store, self._opened.id),
                self._signing(**said),
                key,
                newcomer,
            )

    def set_threshold(self, threshold: int, **said: Unpack[DecideArguments]) -> BankOwners:
        """Say how many owners have to sign; as many as before have to sign this.

        Raises:
            ThresholdError: If more have to sign.
            UsageError: If there are fewer owners, or it is below one.
            SigningKeyError: If the key that signs is not that of an owner.
        """
        known("set_threshold", said, DecideArguments)
        place = (self._opened.store, self._opened.id)
        with self._lifetime.use():
            settings = self._opened.settings
            return actions.set_threshold_in(settings, place, self._signing(**said), threshold)

    def propose(self, refused: ThresholdError, path: FilePath) -> None:
        """Write what more owners are to sign to a new file, as a call was refused for it.

        Raises:
            TargetExistsError: If the file is there.
        """
        proposing.write_proposal(self._opened.settings, Path(path), refused.drawn)

    def read(self, path: FilePath) -> Sequence[Matter]:
        """Return what a file proposes, and whose signatures hold."""
        return proposing.read_proposal(self._opened.settings, Path(path))

    def sign(
        self, path: FilePath, *, key_name: str | None = None, passphrase: str | None = None
    ) -> Sequence[Matter]:
        """Sign what a file proposes; it is not decided by this."""
        settings = self._opened.settings
        (key,) = owner_keys(settings, key_name, passphrase=passphrase)
        return proposing.sign_proposal(settings, Path(path), key)

    def enact(self, path: FilePath) -> Sequence[Matter]:
        """Note in the log what enough owners signed; what is there already stays.

        Raises:
            ThresholdError: If more have to sign.
            UsageError: If it is of another bank, or was made for another state of it.
        """
        opened = self._opened
        with self._lifetime.use():
            return proposing.enact_in(opened.settings, opened.store, opened.id, Path(path))

    def _signing(self, **said: Unpack[DecideArguments]) -> Signing:
        return owner_keys(
            self._opened.settings,
            said.get("key_name"),
            said.get("also", ()),
            passphrase=said.get("passphrase"),
        )
