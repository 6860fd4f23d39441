"""What memory files refuse, under the names that the fifth seed gives these errors."""

from typing import Any, ClassVar

from satchel.errors.satchel_error import SatchelError


class MemoryStoreError(SatchelError, RuntimeError):
    """A path, text or key that memory files do not take, or a store that is not what was said.

    Args:
        message: What is wrong.
        path: Which memory file, where it is about one.
        place: As for every error: ``file``, ``hint`` and so on.
    """

    code: ClassVar[str] = "files.refused"
    exit_status: ClassVar[int] = 4
    http_status: ClassVar[int] = 422

    def __init__(self, message: str, *, path: str | None = None, **place: Any) -> None:
        super().__init__(message, **{"field": path, **place})
        self.path = path


class StoreExistsError(MemoryStoreError):
    """A store was to be created where there is one.

    Args:
        address: Its place.
    """

    code: ClassVar[str] = "files.exists"
    http_status: ClassVar[int] = 409

    def __init__(self, address: str) -> None:
        super().__init__(
            "a store of this key already exists",
            file=address,
            hint="Open it with get_or_create, or use another key.",
        )
        self.address = address

    def __reduce__(self) -> tuple[Any, ...]:
        return StoreExistsError, (self.address,)


class NoMemoryFilesError(MemoryStoreError):
    """Nobody wrote memory files of this name yet."""

    code: ClassVar[str] = "files.none"
    http_status: ClassVar[int] = 404


class AccessDenied(MemoryStoreError):  # noqa: N818 - the seed's name
    """The path is reserved, or the store's policy lets nobody write there directly."""

    code: ClassVar[str] = "files.denied"
    exit_status: ClassVar[int] = 3
    http_status: ClassVar[int] = 403


class ConcurrencyError(MemoryStoreError):
    """Somebody else changed the file first; nothing was written.

    Args:
        path: Which memory file.
        expected_sha: What it was to be; empty for "not there yet".
        actual_sha: What it is; empty when it is not there.
        expected_version: What number it was to have, where that was said.
        actual_version: What number it has; 0 when it is not there, None when it was changed
            outside and has none.
        message: What to say instead.
        hint: What to do about it; to read again, by default.
    """

    code: ClassVar[str] = "files.changed"
    exit_status: ClassVar[int] = 1
    http_status: ClassVar[int] = 409

    def __init__(  # noqa: PLR0913 - the facts of one refusal
        self,
        path: str,
        expected_sha: str | None = None,
        actual_sha: str | None = None,
        *,
        expected_version: int | None = None,
        actual_version: int | None = None,
        message: str | None = None,
        hint: str = "Read the file again and repeat the change.",
    ) -> None:
        super().__init__(
            message or _said(expected_sha, actual_sha, expected_version, actual_version),
            path=path,
            hint=hint,
        )
        self.expected_sha = expected_sha
        self.actual_sha = actual_sha
        self.expected_version = expected_version
        self.actual_version = actual_version

    def __reduce__(self) -> tuple[Any, ...]:
        facts = {
            "path": self.path,
            "expected_sha": self.expected_sha,
            "actual_sha": self.actual_sha,
            "expected_version": self.expected_version,
            "actual_version": self.actual_version,
            "message": self.message,
            "hint": self.hint,
        }
        return _rebuilt, (facts,)


class ManyDeletedError(MemoryStoreError):
    """A folder lost so many files at once that it is more likely lost itself."""

    code: ClassVar[str] = "files.many_deleted"
    exit_status: ClassVar[int] = 3
    http_status: ClassVar[int] = 409


def _rebuilt(facts: dict[str, Any]) -> ConcurrencyError:
    return ConcurrencyError(**facts)


def _said(
    expected_sha: str | None, actual_sha: str | None, expected: int | None, actual: int | None
) -> str:
    if expected_sha is not None and expected_sha != actual_sha:
        if not expected_sha:
            return "the file already exists"
        return (
            f"the file has sha256 {actual_sha or '(none: it does not exist)'}, not {expected_sha}"
        )
    return f"the file is at version {'(unknown)' if actual is None else actual}, not {expected}"
