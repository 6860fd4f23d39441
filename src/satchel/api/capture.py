"""What a store does beside its banks: capture, transfers cut short, and receipts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from satchel.api.operations import lazy, method

if TYPE_CHECKING:
    from satchel.bank.lifetime import Lifetime
    from satchel.config.settings import Settings
    from satchel.crypto.keys import SigningKey
    from satchel.receipts import archive
    from satchel.setup import watch as watching
    from satchel.transfer import import_operations
else:
    archive = lazy("satchel.receipts.archive")
    watching = lazy("satchel.setup.watch")
    import_operations = lazy("satchel.transfer.import_operations")


class TransferCalls:
    """A store as work is done with it."""

    _settings: Settings
    _lifetime: Lifetime
    _passphrase: str | None
    _read_only: bool
    _wanted: str | None

    def _owner(self, name: str | None = None) -> SigningKey:
        from satchel.bank.signing_keys import signing_key

        return signing_key(self._settings, name, passphrase=self._passphrase)[0]

    @contextmanager
    def _imported(self) -> Iterator[import_operations.ImportTarget]:
        from satchel.transfer.import_operations import ImportTarget

        with self._lifetime.use():
            yield ImportTarget(
                settings=self._settings,
                bank=self._wanted,
                owner=self._owner,
                read_only=self._read_only,
            )

    import_ = method(import_operations.import_, context=_imported)
    receipts = method(archive.list_receipts)
    receipt = method(archive.show_receipt)
    jobs = method(import_operations.list_jobs)
    resume_job = method(import_operations.resume_job, context=_imported)
    cancel_job = method(import_operations.cancel_job)
    watch = method(watching.watch)
