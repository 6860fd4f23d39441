"""What a store does beside its banks: capture, transfers cut short, and receipts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from satchel.api.operations import call
from satchel.errors import ReadOnlyStoreError, UsageError

if TYPE_CHECKING:
    from satchel.actions.config import Settings
    from satchel.actions.hosts.watching import Watched
    from satchel.actions.importing.imported import Imported
    from satchel.actions.importing.jobs import Cancelled
    from satchel.actions.receipts.finding import Receipt, ReceiptLine
    from satchel.api.lifetime import Lifetime
    from satchel.jobs.job import Job
    from satchel.seal.signing.key import SigningKey


class Working:
    """A store as work is done with it."""

    _settings: Settings
    _lifetime: Lifetime
    _passphrase: str | None
    _read_only: bool

    def _owner(self, name: str | None = None) -> SigningKey:
        from satchel.actions.signing import signing_key

        return signing_key(self._settings, name, passphrase=self._passphrase)[0]

    @call
    def receipts(self, bank: str | None = None, *, limit: int = 100) -> list[ReceiptLine]:
        """Return the newest receipts of this machine, or of a bank; see ``satchel receipt list``.

        Raises:
            UnknownBankError: If there is no such bank.
        """
        from satchel.actions.receipts import finding

        with self._lifetime.use():
            return finding.list_receipts(self._settings, bank, limit=limit)

    @call
    def receipt(self, wanted: str) -> Receipt:
        """Return a receipt, and whether its signature holds.

        Args:
            wanted: Its id, or six of the first digits or more.

        Raises:
            UnknownReceiptError: If there is none.
        """
        from satchel.actions.receipts import finding

        with self._lifetime.use():
            return finding.find_receipt(self._settings, wanted)

    @call
    def jobs(self) -> list[Job]:
        """Return the imports that are under way or were cut short; see ``satchel job``."""
        from satchel.actions.importing import jobs

        with self._lifetime.use():
            return jobs.list_jobs(self._settings)

    @call
    def resume_job(self, job: str) -> Imported:
        """Go on with an import that was cut short.

        Args:
            job: Its id, or six of the first digits or more.

        Raises:
            UnknownJobError: If there is none.
            UsageError: If its input is not known, or is another one now.
            SatchelError: As ``Bank.import_``.
        """
        from satchel.actions.importing import jobs

        with self._lifetime.use():
            return jobs.resume_job(self._settings, job, self._owner)

    @call
    def cancel_job(self, job: str, *, reason: str | None = None) -> Cancelled:
        """Take back what an import logged that was cut short; nobody had seen any of it.

        Raises:
            UnknownJobError: If there is none.
            LockedError: If an import is running.
        """
        from satchel.actions.importing import jobs

        with self._lifetime.use():
            return jobs.cancel_job(self._settings, job, reason=reason)

    @call
    def watch(
        self,
        *hosts: str,
        folders: Sequence[str | Path] = (),
        bank: str | None = None,
        dry_run: bool = False,
    ) -> Watched:
        """Capture, once, what agent hosts keep of conversations before they delete it.

        Only what changed since the last time is looked at, only what is new is added, and what is
        gone at the host stays here; secrets are replaced. See ``satchel watch``, which also says
        how to have it done again and again.

        Args:
            hosts: Such as ``claude-code`` or ``codex``; all that are here, where neither hosts nor
                folders are named.
            folders: Folders with transcripts or exports of any format that is known.
            bank: Where it goes, made if it is not there; the configured one, or ``transcripts``.
            dry_run: Only say what would be looked at.

        Returns:
            What was captured, what was not, with the reason, and what is gone. One file that cannot
            be taken is no error: it is in ``missed``, and tried again the next time.

        Raises:
            ContainmentError: If roots are set.
            UsageError: If there is no such host.
            UnreadableError: If there is nothing to watch.
            LockedError: If another one is at it.
            ReadOnlyStoreError: If the store was opened for reading.
        """
        from satchel.actions.hosts.known import Host
        from satchel.actions.hosts.watching import WatchOptions, watch_once
        from satchel.actions.paths.permission import Permission, require_uncontained

        unknown = sorted(set(hosts) - set(Host))
        if unknown:
            known = ", ".join(Host)
            raise UsageError(f"no host {unknown[0]!r}", field="hosts", hint=f"Known: {known}.")
        places = [*map(str, folders), *hosts] or ["the hosts that are here"]
        permission = Permission(allow_uncontained=True)
        for place in places:
            require_uncontained(self._settings, place, permission)
        asked = WatchOptions(
            hosts=tuple(map(Host, hosts)),
            folders=tuple(map(Path, folders)),
            bank=bank,
            dry_run=dry_run,
        )
        with self._lifetime.use():
            if self._read_only and not dry_run:
                raise ReadOnlyStoreError("opened for reading", file="watch")
            return watch_once(self._settings, asked, self._owner)
