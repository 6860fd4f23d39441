"""What a store was asked to do before: transfers cut short, and receipts of the others."""

from satchel.actions.config import Settings
from satchel.actions.importing import jobs
from satchel.actions.importing.imported import Imported
from satchel.actions.importing.jobs import Cancelled
from satchel.actions.receipts import finding
from satchel.actions.receipts.finding import Receipt, ReceiptLine
from satchel.actions.signing import signing_key
from satchel.api.lifetime import Lifetime
from satchel.jobs.job import Job
from satchel.seal.signing.key import SigningKey


class Working:
    """A store as work is done with it."""

    _settings: Settings
    _lifetime: Lifetime
    _passphrase: str | None

    def _owner(self) -> SigningKey:
        return signing_key(self._settings, passphrase=self._passphrase)[0]

    def receipts(self, bank: str | None = None, *, limit: int = 100) -> list[ReceiptLine]:
        """Return the newest receipts of this machine, or of a bank; see ``satchel receipts``.

        Raises:
            UnknownBankError: If there is no such bank.
        """
        with self._lifetime.use():
            return finding.list_receipts(self._settings, bank, limit=limit)

    def receipt(self, wanted: str) -> Receipt:
        """Return a receipt, and whether its signature holds.

        Args:
            wanted: Its id, or six of the first digits or more.

        Raises:
            UnknownReceiptError: If there is none.
        """
        with self._lifetime.use():
            return finding.find_receipt(self._settings, wanted)

    def jobs(self) -> list[Job]:
        """Return the imports that are under way or were cut short; see ``satchel jobs``."""
        with self._lifetime.use():
            return jobs.list_jobs(self._settings)

    def resume_job(self, job: str) -> Imported:
        """Go on with an import that was cut short.

        Args:
            job: Its id, or six of the first digits or more.

        Raises:
            UnknownJobError: If there is none.
            UsageError: If its input is not known, or is another one now.
            SatchelError: As ``Bank.import_``.
        """
        with self._lifetime.use():
            return jobs.resume_job(self._settings, job, self._owner)

    def cancel_job(self, job: str, *, reason: str | None = None) -> Cancelled:
        """Take back what an import logged that was cut short; nobody had seen any of it.

        Raises:
            UnknownJobError: If there is none.
            LockedError: If an import is running.
        """
        with self._lifetime.use():
            return jobs.cancel_job(self._settings, job, reason=reason)
