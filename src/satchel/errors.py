"""Every error that satchel raises on purpose: one tree, stable codes, exit and HTTP statuses.

A message says what was wrong, where (file, line, byte, field) and what to do about it.
"""

from typing import Any, ClassVar


class SatchelError(Exception):
    """The root; catch it to catch everything this package raises on purpose.

    Args:
        message: What is wrong, in one sentence, without the place.
        file: The file, or another name for the place the bytes came from.
        line: 1-based line number, where the input has lines.
        byte: 0-based byte offset, where it has not.
        field: The member at fault, as a JSON pointer without the leading slash or a plain name.
        hint: What the person can do now.
    """

    code: ClassVar[str] = "satchel"
    exit_status: ClassVar[int] = 1
    http_status: ClassVar[int] = 500

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        byte: int | None = None,
        field: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.line = line
        self.byte = byte
        self.field = field
        self.hint = hint

    def located(
        self, *, file: str | None = None, line: int | None = None, byte: int | None = None
    ) -> "SatchelError":
        """Fill in what is not yet known of the place, and return the same error."""
        self.file = self.file or file
        if self.line is None and self.byte is None:
            self.line, self.byte = line, byte
        return self

    @property
    def place(self) -> str:
        """File, line or byte, and field, joined for a person; empty when nothing is known."""
        parts = [self.file] if self.file else []
        if self.line is not None:
            parts.append(f"line {self.line}")
        if self.byte is not None:
            parts.append(f"byte {self.byte}")
        if self.field:
            parts.append(f"field {self.field}")
        return ", ".join(parts)

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}" if self.place else self.message
        return f"{text}. {self.hint}" if self.hint else text

    def problem(self) -> dict[str, str | int]:
        """Return code, message, place and hint as one JSON object; absent facts are left out."""
        facts: dict[str, str | int | None] = {
            "code": self.code,
            "message": self.message,
            "file": self.file,
            "line": self.line,
            "byte": self.byte,
            "field": self.field,
            "hint": self.hint,
        }
        return {name: fact for name, fact in facts.items() if fact is not None}

    def public(self) -> dict[str, str | int]:
        """Return what somebody elsewhere may know: as ``problem``, but no name of this machine's.

        So no file, and no hint, which may name one.
        """
        known = ("code", "message", "line", "byte", "field")
        return {name: fact for name, fact in self.problem().items() if name in known}


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


class InputError(SatchelError):
    """What was handed in cannot be used."""

    code: ClassVar[str] = "input"
    exit_status: ClassVar[int] = 4
    http_status: ClassVar[int] = 422


class UnreadableError(InputError):
    """The file is missing, a directory, not permitted, or the disk failed while reading."""

    code: ClassVar[str] = "input.unreadable"
    http_status: ClassVar[int] = 404


class MalformedError(InputError):
    """The bytes are not what the format says they are."""

    code: ClassVar[str] = "input.malformed"


class EmptyInputError(InputError):
    """There is nothing in the input; nothing to do is never reported as success."""

    code: ClassVar[str] = "input.empty"


class ShortInputError(InputError):
    """The input says itself that it lacks something: it is cut, or one page of several."""

    code: ClassVar[str] = "input.short"


class LimitError(InputError):
    """A bound on size, count or depth was reached."""

    code: ClassVar[str] = "input.limit"
    http_status: ClassVar[int] = 413


class ValueRefusedError(InputError):
    """A value has no canonical form: a type, number or text that JSON memory cannot hold."""

    code: ClassVar[str] = "value.refused"


class PathRefusedError(InputError, ValueError):
    """A path leads out of its folder, or what is there is a link or not a file of our own."""

    code: ClassVar[str] = "path.refused"


class ContainmentError(PathRefusedError):
    """A path leads out of the folders that are allowed, or nothing says which are.

    Args:
        message: As in ``SatchelError``; so are the other arguments.
        roots: The folders that are allowed, for who may know.
        **place: ``file`` and ``hint`` of ``SatchelError``.
    """

    code: ClassVar[str] = "path.uncontained"
    exit_status: ClassVar[int] = 3

    def __init__(self, message: str, *, roots: tuple[str, ...] = (), **place: Any) -> None:
        super().__init__(message, **place)
        self.roots = roots

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text}. Allowed: {', '.join(self.roots)}" if self.roots else text

    def problem(self) -> dict[str, Any]:
        """Return the facts of ``SatchelError``, and the roots."""
        return {**super().problem(), **({"roots": list(self.roots)} if self.roots else {})}

    def public(self) -> dict[str, str | int]:
        """Return the facts of ``SatchelError``, and the hint, which names no folder here."""
        return {**super().public(), **({"hint": self.hint} if self.hint else {})}


class RefusedError(SatchelError):
    """Verification or permission says no."""

    code: ClassVar[str] = "refused"
    exit_status: ClassVar[int] = 3
    http_status: ClassVar[int] = 403


class VerificationError(RefusedError):
    """A sealed file did not verify well enough for what was asked."""

    code: ClassVar[str] = "verify.refused"


class WitnessError(RefusedError):
    """What was witnessed of a bank is damaged, or a head contradicts it."""

    code: ClassVar[str] = "witness.refused"
    http_status: ClassVar[int] = 409


class ErasureRefusedError(RefusedError):
    """What was to be erased has to stay, or what was erased has to stay away."""

    code: ClassVar[str] = "erasure.refused"
    http_status: ClassVar[int] = 409


class SigningKeyError(RefusedError):
    """A key is missing, unusable, wrongly protected, or its passphrase is wrong."""

    code: ClassVar[str] = "key.refused"


class TargetError(SatchelError):
    """Writing failed; what was at the target before is still there, untouched."""

    code: ClassVar[str] = "target.failed"
    exit_status: ClassVar[int] = 5
    http_status: ClassVar[int] = 507


class TargetExistsError(TargetError):
    """There is something at the target already and overwriting was not asked for."""

    code: ClassVar[str] = "target.exists"
    http_status: ClassVar[int] = 409


class InferenceError(SatchelError):
    """A model does not answer, or not with what it was asked for."""

    code: ClassVar[str] = "inference.failed"
    exit_status: ClassVar[int] = 5
    http_status: ClassVar[int] = 502


class LockedError(SatchelError):
    """Another process is using it; the message names the process when that is known."""

    code: ClassVar[str] = "locked"
    exit_status: ClassVar[int] = 5
    http_status: ClassVar[int] = 423


class LossError(SatchelError):
    """Something would not survive and the caller asked for all or nothing."""

    code: ClassVar[str] = "transfer.loss"
    exit_status: ClassVar[int] = 1
    http_status: ClassVar[int] = 409


class StoreError(SatchelError):
    """A store cannot be used, or does not do what it was asked."""

    code: ClassVar[str] = "store.failed"
    exit_status: ClassVar[int] = 5
    http_status: ClassVar[int] = 503


class StoreBusyError(StoreError):
    """Another process is writing and did not end in time."""

    code: ClassVar[str] = "store.busy"


class StoreFullError(StoreError):
    """There is no more space for it; what was acknowledged before is there, the rest is not."""

    code: ClassVar[str] = "store.full"
    http_status: ClassVar[int] = 507


class StoreVersionError(StoreError):
    """The store was made by a newer version, by an older one and is only read, or is not ours."""

    code: ClassVar[str] = "store.version"


class ReadOnlyStoreError(StoreError):
    """The store was opened for reading, or by somebody who may not add to it."""

    code: ClassVar[str] = "store.read_only"
    exit_status: ClassVar[int] = 3
    http_status: ClassVar[int] = 403


class StoreDamagedError(StoreError):
    """The store's own files are damaged, so far that the engine says so itself."""

    code: ClassVar[str] = "store.damaged"


class SlotTakenError(SatchelError):
    """There is a current record for the same thing already."""

    code: ClassVar[str] = "slot.taken"
    http_status: ClassVar[int] = 409


class ConflictError(SatchelError):
    """What arrives is another version of what a bank has, and that was not to be."""

    code: ClassVar[str] = "transfer.conflict"
    http_status: ClassVar[int] = 409


class ChangedError(SatchelError):
    """What somebody was going to change was changed by somebody else first; nothing was done."""

    code: ClassVar[str] = "bank.changed"
    http_status: ClassVar[int] = 409


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


class UnknownBlobError(UsageError):
    """There is no such blob in the bank."""

    code: ClassVar[str] = "blob.unknown"
    http_status: ClassVar[int] = 404


class RolledBackError(VerificationError):
    """A store is older than what this machine saw of it, or a bank that was here is missing."""

    code: ClassVar[str] = "verify.rolled_back"


class ForkedError(VerificationError):
    """A store and this machine's witness of it went different ways."""

    code: ClassVar[str] = "verify.forked"


class AdoptedError(VerificationError):
    """A bank of this machine goes on under the key of somebody whom it does not know."""

    code: ClassVar[str] = "verify.adopted"
