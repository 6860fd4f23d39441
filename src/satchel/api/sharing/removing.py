"""What has to go from a bank, from Python: memories for good, and personal data in them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from satchel.actions.erasing.choosing import conditions_of
from satchel.actions.erasing.erasing import Erased, EraseOptions, erase
from satchel.actions.erasing.recovering import Recovered, recover, recover_by_identity
from satchel.actions.erasing.redacting import Redacted, RedactOptions, redact
from satchel.actions.opened import OpenBank
from satchel.actions.signing import signing_key
from satchel.api.asked import known
from satchel.api.lifetime import Lifetime


class EraseArguments(TypedDict, total=False):
    """Optional arguments of ``Bank.erase``."""

    where: Mapping[str, str | Sequence[str]]
    """Conditions by name, such as ``{"user": "ada"}``: all have to hold, one of the values each."""

    cascade: bool
    """Whether everything goes that was drawn from what is erased, or is part of it."""

    reason: str | None
    """For whoever reads the log; it is not erased itself."""

    scan: bool
    """Whether all that can be reached is looked through afterwards; it is when not given."""

    receipt: Path | None
    """A file for a copy of the signed report."""

    dry_run: bool


class RedactArguments(TypedDict, total=False):
    """Optional arguments of ``Bank.redact``."""

    where: Mapping[str, str | Sequence[str]]
    """Conditions by name, as for ``Bank.erase``."""

    kinds: Sequence[str]
    """Such as ``email`` or ``name``; all when neither these, texts nor fields are given."""

    texts: Sequence[str]
    """Words that are replaced wherever they stand by themselves."""

    fields: Sequence[str]
    """JSON pointers of members that are replaced as a whole, such as ``/metadata/phone``."""

    detector: str | None
    """What looks for personal data besides our own rules: ``presidio``."""

    recover_for: Sequence[str]
    """Keys for which the originals are kept, sealed: names of keys here, or did:keys."""

    recover_to: Sequence[str]
    """Recipients for whom they are kept as age files: ``age1...``, files, identities here."""

    dry_run: bool


class Removing:
    """What a bank lets go of."""

    _opened: OpenBank
    _lifetime: Lifetime

    def erase(self, ids: str | Sequence[str] = (), **said: Unpack[EraseArguments]) -> Erased:
        """Erase memories for good, current ones too, with their versions and links.

        Args:
            ids: Ids of memories, edges, turns or files; or their first digits.
            **said: See ``EraseArguments``.

        Returns:
            What went, what was looked through afterwards, and what could not be reached;
            ``exit_status`` is 1 when a piece of it is left.

        Raises:
            UsageError: If nothing is asked for, or an id could be that of several.
            UnknownMemoryError: If there is no such record.
            StoreError: If the store cannot be written. Done again, it goes on from there.
        """
        options = known("erase", said, EraseArguments) | _chosen(ids, said.get("where", {}))
        with self._lifetime.use():
            return erase(self._opened, EraseOptions(**options))

    def redact(self, ids: str | Sequence[str] = (), **said: Unpack[RedactArguments]) -> Redacted:
        """Replace personal data and secrets in memories by tokens such as ``[REDACTED:email:1]``.

        Ids, parents, times and standing stay; all versions of a memory are redacted.

        Args:
            ids: Ids of memories, or their first digits.
            **said: See ``RedactArguments``.

        Raises:
            UsageError: If nothing is asked for, a kind is unknown, or a pointer is none.
            UnknownMemoryError: If there is no such memory.
            StoreError: If the store cannot be written. Done again, it goes on from there.
        """
        options = known("redact", said, RedactArguments) | _chosen(ids, said.get("where", {}))
        with self._lifetime.use():
            return redact(self._opened, RedactOptions(**options))

    def recover(
        self, memory: str, *, key_name: str | None = None, passphrase: str | None = None
    ) -> Recovered:
        """Return the original of a redacted memory; in the bank stays its form.

        Args:
            memory: Its id, or the first digits.
            key_name: A key that it was sealed for; when not given an identity of age that is here,
                then the default key.
            passphrase: Of the key.

        Raises:
            UnknownMemoryError: If there is no such memory.
            SigningKeyError: If it is not redacted, or not sealed for this key.
        """
        with self._lifetime.use():
            found = None if key_name is not None else recover_by_identity(self._opened, memory)
            if found is not None:
                return found
            key = signing_key(self._opened.settings, key_name, passphrase=passphrase)[0]
            return recover(self._opened, memory, key)


def _chosen(ids: str | Sequence[str], where: Mapping[str, str | Sequence[str]]) -> dict[str, Any]:
    """Return which records are meant, as options have it."""
    pairs = [
        f"{name}={value}"
        for name, values in where.items()
        for value in ([values] if isinstance(values, str) else values)
    ]
    return {"where": conditions_of(pairs), "ids": [ids] if isinstance(ids, str) else ids}
