"""What a store does beside its banks: capture, transfers cut short, and receipts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from satchel.api.lazy import lazy
from satchel.api.operations import call, method
from satchel.errors import ReadOnlyStoreError, UsageError

if TYPE_CHECKING:
    from satchel.actions.config import Settings
    from satchel.actions.hosts.watching import Watched
    from satchel.actions.operating import imports, transfers
    from satchel.api.lifetime import Lifetime
    from satchel.seal.signing.key import SigningKey
else:
    imports = lazy("satchel.actions.operating.imports")
    transfers = lazy("satchel.actions.operating.transfers")


class Working:
    """A store as work is done with it."""

    _settings: Settings
    _lifetime: Lifetime
    _passphrase: str | None
    _read_only: bool
    _wanted: str | None

    def _owner(self, name: str | None = None) -> SigningKey:
        from satchel.actions.signing import signing_key

        return signing_key(self._settings, name, passphrase=self._passphrase)[0]

    @contextmanager
    def _imported(self) -> Iterator[imports.ImportTarget]:
        from satchel.actions.operating.imports import ImportTarget

        with self._lifetime.use():
            yield ImportTarget(
                settings=self._settings,
                bank=self._wanted,
                owner=self._owner,
                read_only=self._read_only,
            )

    import_ = method(imports.import_, context=_imported)
    receipts = method(transfers.list_receipts)
    receipt = method(transfers.show_receipt)
    jobs = method(transfers.list_jobs)
    resume_job = method(transfers.resume_job, context=_imported)
    cancel_job = method(transfers.cancel_job)

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
