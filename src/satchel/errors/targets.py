"""What could not be written, or was in the way."""

from typing import ClassVar

from satchel.errors.satchel_error import SatchelError


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


class AgentExistsError(ConflictError):
    """There is an agent of that id already, and nobody said what to do about it."""

    code: ClassVar[str] = "agent.exists"


class ChangedError(SatchelError):
    """What somebody was going to change was changed by somebody else first; nothing was done."""

    code: ClassVar[str] = "bank.changed"
    http_status: ClassVar[int] = 409
