"""What a bank shares with others, from Python."""

from collections.abc import Sequence
from typing import TypedDict, Unpack

from satchel.actions.encrypting.identities import lock_for
from satchel.actions.importing.imported import Owners
from satchel.actions.moving.disclosing import disclose
from satchel.actions.moving.exported import Export, ExportOptions
from satchel.actions.opened import OpenBank
from satchel.actions.paths.permission import file_to_write
from satchel.actions.signing import signing_key
from satchel.api.arguments import FilePath, Roots
from satchel.api.asked import known, permission_of
from satchel.api.lifetime import Lifetime
from satchel.api.sharing.owning import Owners as OwnersOf
from satchel.api.sharing.tokens import Tokens


class DiscloseArguments(TypedDict, total=False):
    """Optional arguments of ``Bank.disclose``."""

    withhold: Sequence[str]
    """Ids of ancestors that are only named, with their proof."""

    key_name: str | None
    """The signing key; the default one when not given."""

    passphrase: str | None
    encrypt_to: Sequence[str]
    """For whom the file is encrypted: ``age1...``, files with recipients, identities here."""

    file_passphrase: str | None
    """A passphrase that opens the file."""

    overwrite: bool
    allowed_roots: Roots | None
    """Folders that the path may be in; they narrow what the operator has set."""

    allow_uncontained: bool
    """That the path is the caller's own choice and may be anywhere, if no roots are set."""


class Sharing:
    """A bank as its memory is shared: in part, and with proofs."""

    def __init__(self, opened: OpenBank, lifetime: Lifetime, owner: Owners) -> None:
        self._opened = opened
        self._lifetime = lifetime
        self._owner = owner

    @property
    def tokens(self) -> Tokens:
        """Its capability tokens: what others may do with which part of it."""
        return Tokens(self._opened, self._lifetime, self._owner)

    @property
    def owners(self) -> OwnersOf:
        """Who owns it, and how many of them have to sign what is decided about it."""
        return OwnersOf(self._opened, self._lifetime)

    def disclose(
        self,
        entries: Sequence[str],
        path: FilePath,
        **wanted: Unpack[DiscloseArguments],
    ) -> Export:
        """Write entries and all that they were drawn from to an artifact, each with its proof.

        Args:
            entries: Their ids.
            path: The artifact, which ``satchel.verify`` checks without the bank.
            **wanted: Where the path may lead, what is withheld, and how: see
                ``DiscloseArguments``.

        Raises:
            ContainmentError: If the path is not where it may be, or nothing says where.
            UnknownMemoryError: If an entry is not there.
            UsageError: If none is named, or the output is no artifact.
        """
        asked = known("disclose", wanted, DiscloseArguments)
        withhold = asked.get("withhold", ())
        if isinstance(entries, str) or isinstance(withhold, str):
            raise TypeError("disclose() takes several ids, not one text")
        permission, settings = permission_of(asked), self._opened.settings
        with self._lifetime.use(), file_to_write(settings, path, permission) as output:
            key, _ = signing_key(
                settings, asked.get("key_name"), passphrase=asked.get("passphrase")
            )
            options = ExportOptions(
                key=key,
                lock=lock_for(settings, asked.get("encrypt_to", ()), asked.get("file_passphrase")),
                overwrite=asked.get("overwrite", False),
            )
            return disclose(self._opened, entries, output, options, withhold=withhold)
