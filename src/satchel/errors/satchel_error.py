"""What every error has."""

from typing import ClassVar

from satchel.errors.addresses import shown_place, shown_text


class SatchelError(Exception):
    """The root; catch it to catch everything this package raises on purpose.

    Args:
        message: What is wrong, in one sentence, without the place.
        file: The file, or another name for the place the bytes came from.
        line: 1-based line number, where the input has lines.
        byte: 0-based byte offset, where it has not.
        field: The member at fault, as a JSON pointer without the leading slash or a plain name.
        hint: What the person can do now.

    Passwords in addresses are taken out of all of them.
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
        self.message = shown_text(message)
        super().__init__(self.message)
        self.file = None if file is None else shown_place(file)
        self.line = line
        self.byte = byte
        self.field = field
        self.hint = None if hint is None else shown_text(hint)
        self.command_hint: str | None = None
        """The hint as it names commands, where ``hint`` names calls of Python."""

    def located(
        self, *, file: str | None = None, line: int | None = None, byte: int | None = None
    ) -> "SatchelError":
        """Fill in what is not yet known of the place, and return the same error."""
        self.file = self.file or (None if file is None else shown_place(file))
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
            "hint": self.command_hint or self.hint,
        }
        return {name: fact for name, fact in facts.items() if fact is not None}

    def public(self) -> dict[str, str | int]:
        """Return what somebody elsewhere may know: as ``problem``, but no name of this machine's.

        So no file, and no hint, which may name one.
        """
        known = ("code", "message", "line", "byte", "field")
        return {name: fact for name, fact in self.problem().items() if name in known}
