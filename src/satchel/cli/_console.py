"""Printing: data on stdout, messages on stderr, JSON when asked for, nothing a file can abuse."""

import json
import os
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from satchel.cli._progress import activity, amount_of_bytes
from satchel.errors import SatchelError

_GIST, _SHORT, _LEAST_ROOM = 100, 12, 20

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from satchel.config.settings import Settings

_COLOURING = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")


class ReaderGoneError(Exception):
    """Nobody reads stdout any more; the frameworks have exit statuses of their own for that."""


@cache
def _console(*, stderr: bool) -> "Console":
    """Return the one that colours; it takes longer to import than some commands take to run."""
    from rich.console import Console

    class Passing(Console):
        """Leaves a broken pipe to the command line."""

        def on_broken_pipe(self) -> NoReturn:
            raise ReaderGoneError

    return Passing(stderr=stderr, highlight=False, soft_wrap=True)


def _is_plain(stream: TextIO) -> bool:
    """Tell whether nobody who looks at colours reads a stream."""
    return not stream.isatty() and not any(os.environ.get(name) for name in _COLOURING)


@dataclass(slots=True)
class GlobalOptions:
    """The options that stand before the verb."""

    home: Path | None = None
    config: Path | None = None
    store: str | None = None
    backend: str | None = None
    token: str | None = None
    identities: tuple[Path, ...] = ()
    passphrase_file: Path | None = None
    debug: bool = False
    json: bool = False
    data_on_stdout: bool = False
    """Whether standard output is the file that was asked for; reports go to standard error."""

    held: ExitStack = field(default_factory=ExitStack)
    """What an operation needs open until it is done, such as the file that it reads."""

    _settings: "list[Settings]" = field(default_factory=list)

    def reset(self, *, json: bool) -> None:
        """Forget what an earlier command of the same process was told."""
        self.home, self.config, self.store, self.backend = None, None, None, None
        self.token, self.identities, self.passphrase_file = None, (), None
        self.debug, self.json, self.data_on_stdout = False, json, False
        self._settings.clear()

    @property
    def settings(self) -> "Settings":
        """The settings, read once."""
        if not self._settings:
            from msgspec.structs import replace as changed

            from satchel.cli import _passphrase
            from satchel.config.settings import load_settings

            found = load_settings(
                home=self.home,
                config=self.config,
                store=self.store,
                backend=self.backend,
                token=self.token,
            )
            unlocking = replace(
                found.unlocking,
                files=self.identities,
                passphrase=_passphrase.of_files(self.passphrase_file),
            )
            self._settings.append(changed(found, unlocking=unlocking))
        return self._settings[0]

    def present(self, token: str) -> None:
        """Present a capability token that is named after the verb."""
        self.token = token
        self._settings.clear()

    def finish(self) -> None:
        """Wait for the hooks that were told of what was done."""
        for settings in self._settings:
            settings.hooks.finish()


state = GlobalOptions()
"""Of the one command that this process runs."""


def safe(text: object) -> "Text":
    """Return text from a file or a name so that it cannot drive the terminal.

    Control characters and those that reverse or hide text are shown as escapes; markup is not
    interpreted.
    """
    from rich.text import Text

    return Text(_visible(text))


def _visible(text: object) -> str:
    said = str(text)
    if said.isprintable():
        return said
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in said
    )


def print_json(value: Any) -> None:
    """Print one JSON value on stdout."""
    stream = sys.stderr if state.data_on_stdout else sys.stdout
    _write(stream, _json(value, indent=2) + "\n")


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
    except BrokenPipeError:  # the framework would take it for a failure
        raise ReaderGoneError from None


def _json(value: Any, indent: int | None) -> str:
    """Return JSON in which only letters, signs and spaces that can be seen stand as themselves.

    The same value to any parser, and nothing in it drives a terminal. A file name that is not
    UTF-8 keeps its bytes as Python's lone surrogates.
    """
    import msgspec

    text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, indent=indent)
    return "".join(char if char.isprintable() or char == "\n" else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def line(*parts: object, style: str = "") -> None:
    """Print one line on stdout; on stderr where that is the file that was asked for."""
    _print(parts, style, stderr=state.data_on_stdout)


def wrapped(indent: str, text: object, style: str = "") -> None:
    """Print a line of a text on stdout; what a terminal's width has no room for goes below.

    Between words, and as far in as the line begins. Nobody's search for a line is hindered: where
    no terminal is, a line stays one.
    """
    if not sys.stdout.isatty():
        line(indent, text, style=style)
        return
    shown = safe(text)
    said = shown.plain.lstrip(" ")
    inner = indent + " " * (len(shown.plain) - len(said))
    room = _width() - len(inner)
    if room < _LEAST_ROOM:
        line(inner, said, style=style)
        return
    for row in safe(said).wrap(_console(stderr=False), room):
        line(inner, row.plain.rstrip(), style=style)


def _width() -> int:
    return _console(stderr=False).width


def message(*parts: object, style: str = "") -> None:
    """Print one line on stderr; nothing where a program reads, which has it all in the JSON."""
    if not state.json:
        _print(parts, style, stderr=True)


def _print(parts: tuple[object, ...], style: str, *, stderr: bool) -> None:
    stream = sys.stderr if stderr else sys.stdout
    with activity.hidden():
        if _is_plain(stream) and not any(map(_is_styled, parts)):
            _write(stream, "".join(map(_visible, parts)) + "\n")
        else:
            _console(stderr=stderr).print(_joined(parts, style))


def _is_styled(part: object) -> bool:
    return hasattr(part, "append_text")  # a Text of rich, which need not be imported to tell


def _joined(parts: Iterable[object], style: str) -> "Text":
    from rich.text import Text

    text = Text(style=style)
    for part in parts:
        text.append_text(part if isinstance(part, Text) else safe(part))
    return text


def print_facts(rows: Iterable[tuple[str, object]]) -> None:
    """Print names and values in two columns."""
    table([], ([dim(name), value] for name, value in rows))


def table(columns: list[str], rows: Iterable[list[object]], *, cut: bool = False) -> None:
    """Print columns side by side; nothing is cut or wrapped, so that ids can be copied.

    Args:
        columns: Their names; none for no head.
        rows: What is in them.
        cut: Whether a terminal is given no more of the last column than it has room for.
    """
    from rich.text import Text

    stream = sys.stderr if state.data_on_stdout else sys.stdout
    if _is_plain(stream):
        _print_plain(stream, columns, rows)
        return
    head = [[Text(column, style="dim") for column in columns]] if columns else []
    shown = [*head, *([_cell(cell) for cell in row] for row in rows)]
    widths = [max(cell.cell_len for cell in column) for column in zip(*shown, strict=True)]
    console = _console(stderr=state.data_on_stdout)
    for row in shown:
        whole = Text()
        for cell, width in zip(row, widths, strict=True):
            whole.append_text(cell)
            whole.append(" " * (width - cell.cell_len + 2))
        whole.rstrip()
        if cut and sys.stdout.isatty():
            whole.truncate(_width(), overflow="ellipsis")
        console.print(whole)


def _print_plain(stream: TextIO, columns: list[str], rows: Iterable[list[object]]) -> None:
    """Print columns without styles; no object is made of a cell, as there may be very many."""
    from rich.cells import cell_len
    from rich.text import Text

    shown = [columns] if columns else []
    shown += (
        [cell.plain if isinstance(cell, Text) else _visible(cell) for cell in row] for row in rows
    )
    widths = [max(map(cell_len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        padded = (
            cell + " " * (width - cell_len(cell) + 2)
            for cell, width in zip(row, widths, strict=True)
        )
        _write(stream, "".join(padded).rstrip() + "\n")


def _cell(value: object) -> "Text":
    from rich.text import Text

    return value.copy() if isinstance(value, Text) else safe(value)


def print_error(error: SatchelError) -> None:
    """Print an error on stderr: what, where, what to do."""
    if state.json:
        problem = {"error": error.problem(), "exit_status": error.exit_status}
        sys.stderr.write(_json(problem, indent=None) + "\n")
        return
    _labelled("error: ", "bold red", error.message)
    if error.place:
        _labelled("  where  ", "dim", error.place)
    if error.hint:
        _labelled("  try    ", "dim", error.command_hint or error.hint)


def _labelled(label: str, style: str, text: str) -> None:
    """Print a line on stderr that begins with a label; colours are imported for a terminal only."""
    if _is_plain(sys.stderr):
        message(label, text)
        return
    from rich.text import Text

    message(Text(label, style=style), text)


def dim(text: str) -> "Text":
    """Return text from anywhere in a colour that steps back."""
    shown = safe(text)
    shown.stylize("dim")
    return shown


def excerpt(text: str) -> str:
    """Return the beginning of a text, on one line."""
    words = " ".join(text[: 4 * _GIST].split())
    return words if len(words) <= _GIST else words[: _GIST - 1] + "…"


def short(identity: str) -> str:
    """Return as much of an id as a person types; enough for a bank of a million."""
    return identity.removeprefix("blake3:")[:_SHORT]


def print_text(text: str) -> None:
    """Print lines on stdout that hold nothing that could drive a terminal."""
    _write(sys.stdout, text)


def print_raw(data: bytes) -> None:
    """Print bytes as they are on stdout; on a terminal, so that they cannot drive it."""
    if sys.stdout.isatty():
        _console(stderr=False).print(safe(data.decode("utf-8", "backslashreplace")))
        return
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise ReaderGoneError from None


def count(number: int, word: str) -> str:
    """Return ``1 record`` or ``2 records``, ``1 memory`` or ``2 memories``."""
    many = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{number:,} {word if number == 1 else many}"


def size(bytes_: int) -> str:
    """Return a size for a person."""
    return amount_of_bytes(bytes_)
