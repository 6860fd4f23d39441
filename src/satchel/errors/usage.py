"""A request that makes no sense, or asks for what is not there."""

from typing import Any, ClassVar

from satchel.errors.satchel_error import SatchelError


class UsageError(SatchelError):
    """The request itself makes no sense; nothing was read or written."""

    code: ClassVar[str] = "usage"
    exit_status: ClassVar[int] = 2
    http_status: ClassVar[int] = 400


class ConfigError(UsageError):
    """The configuration file or an environment variable is wrong."""

    code: ClassVar[str] = "config.invalid"


class MissingExtraError(UsageError):
    """It needs a package that is not installed; the hint says how to install it."""

    code: ClassVar[str] = "extra.missing"
    http_status: ClassVar[int] = 501


class UnknownFormatError(UsageError):
    """No format of that name is installed, or none recognises the file."""

    code: ClassVar[str] = "format.unknown"
    http_status: ClassVar[int] = 404


class ClosedError(UsageError):
    """It was closed, and is used after that."""

    code: ClassVar[str] = "closed"
    http_status: ClassVar[int] = 410


class UnknownMemoryError(UsageError):
    """There is no such memory in the bank, or the id is that of something else."""

    code: ClassVar[str] = "memory.unknown"
    http_status: ClassVar[int] = 404


class RetiredMemoryError(UsageError):
    """The memory has a newer version, was forgotten, or is held back.

    Args:
        message: As in ``SatchelError``; so are the other arguments.
        current: Id of its current version, where there is one.
        **place: ``field`` and ``hint`` of ``SatchelError``.
    """

    code: ClassVar[str] = "memory.retired"
    http_status: ClassVar[int] = 409

    def __init__(self, message: str, *, current: str | None = None, **place: Any) -> None:
        super().__init__(message, **place)
        self.current = current

    def problem(self) -> dict[str, str | int]:
        """Return the facts of ``SatchelError``, and the current version."""
        more = {} if self.current is None else {"current": self.current}
        return {**super().problem(), **more}


class UnknownBankError(UsageError):
    """There is no such bank here."""

    code: ClassVar[str] = "bank.unknown"
    http_status: ClassVar[int] = 404


class BankExistsError(UsageError):
    """A bank has this name already."""

    code: ClassVar[str] = "bank.exists"
    http_status: ClassVar[int] = 409


class UnknownAgentError(UsageError):
    """The configuration names no such agent."""

    code: ClassVar[str] = "agent.unknown"
    http_status: ClassVar[int] = 404


class UnknownImportError(UsageError):
    """There is no such import into the bank."""

    code: ClassVar[str] = "import.unknown"
    http_status: ClassVar[int] = 404


class UnknownReceiptError(UsageError):
    """There is no such receipt here."""

    code: ClassVar[str] = "receipt.unknown"
    http_status: ClassVar[int] = 404


class UnknownJobError(UsageError):
    """There is no such work under way."""

    code: ClassVar[str] = "job.unknown"
    http_status: ClassVar[int] = 404


class UnknownBackupError(UsageError):
    """There is no such backup."""

    code: ClassVar[str] = "backup.unknown"
    http_status: ClassVar[int] = 404


class UnknownBlobError(UsageError):
    """There is no such blob in the bank."""

    code: ClassVar[str] = "blob.unknown"
    http_status: ClassVar[int] = 404


class UnknownCodeError(UsageError):
    """The bank knows no such symbol, file or source tree, or no code at all."""

    code: ClassVar[str] = "code.unknown"
    http_status: ClassVar[int] = 404


class UnknownSessionError(UsageError):
    """There is no such session in the bank, or no such point in it."""

    code: ClassVar[str] = "session.unknown"
    http_status: ClassVar[int] = 404
