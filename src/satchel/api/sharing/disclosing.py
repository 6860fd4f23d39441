"""Disclosure of single memories of a bank, from Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

from satchel.api.operations import call

if TYPE_CHECKING:
    from satchel.actions.moving.exported import Export
    from satchel.actions.opened import OpenBank
    from satchel.api.arguments import Roots
    from satchel.api.lifetime import Lifetime
    from satchel.ports.operations import PathText


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
    roots: Roots | None
    """Folders that the path must be in, within those that the operator allows."""


class Disclosing:
    """A bank as single memories of it are disclosed, with proofs."""

    _opened: OpenBank
    _lifetime: Lifetime

    @call
    def disclose(
        self,
        entries: Sequence[str],
        path: PathText,
        **wanted: Unpack[DiscloseArguments],
    ) -> Export:
        """Write entries and all that they were drawn from to an artifact, each with its proof.

        Args:
            entries: Their ids.
            path: The artifact, which ``satchel.verify`` checks without the bank.
            **wanted: Where the path may lead, what is withheld, and how: see
                ``DiscloseArguments``.

        Raises:
            ContainmentError: If the path is outside the roots.
            UnknownMemoryError: If an entry is not there.
            UsageError: If none is named, or the output is no artifact.
        """
        from satchel.actions.encrypting.identities import lock_for
        from satchel.actions.moving.disclosing import disclose
        from satchel.actions.moving.exported import ExportOptions
        from satchel.actions.paths.permission import Permission, file_to_write
        from satchel.actions.signing import signing_key
        from satchel.api.asked import known

        asked = known("disclose", wanted, DiscloseArguments)
        withhold = asked.get("withhold", ())
        if isinstance(entries, str) or isinstance(withhold, str):
            raise TypeError("disclose() takes several ids, not one text")
        roots, settings = asked.get("roots"), self._opened.settings
        permission = Permission(allowed_roots=roots, allow_uncontained=roots is None)
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
