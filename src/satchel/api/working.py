"""What a store does beside its banks: capture, transfers cut short, and receipts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from satchel.api.lazy import lazy
from satchel.api.operations import method

if TYPE_CHECKING:
    from satchel.actions.config import Settings
    from satchel.actions.hosts import watching
    from satchel.actions.operating import imports, transfers
    from satchel.api.lifetime import Lifetime
    from satchel.seal.signing.key import SigningKey
else:
    imports = lazy("satchel.actions.operating.imports")
    watching = lazy("satchel.actions.hosts.watching")
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
    watch = method(watching.watch)
