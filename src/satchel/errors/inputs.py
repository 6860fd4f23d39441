"""What cannot be read, or is not taken in."""

from typing import Any, ClassVar

from satchel.errors.satchel_error import SatchelError


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


class NoOwnerError(MalformedError):
    """A file names neither a user nor an agent, and there is no bank to import it into."""

    code: ClassVar[str] = "input.no_owner"


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
