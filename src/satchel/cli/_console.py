"""The terminal: data on stdout, messages, progress and prompts on stderr, escaped."""

import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from satchel.errors import SatchelError, UnreadableError, UsageError
from satchel.runtime.processes import watched

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from satchel.bank.changes import MemoryChange
    from satchel.config.settings import Settings, Timer

OnProgress = Callable[..., None]
"""Receives how much is done, and the total."""

_SHOWN_AFTER = 1.0
"""Seconds before progress is shown."""

_REDRAWN = 0.1
_TICK = 0.25
"""Seconds between signals: longer than psycopg's poll, which handles them when it times out."""

_STILL_WAITING = 0.5
"""Seconds without a report after which a wait counts as over."""

_BAR = 24
_UNITS = ("B", "kB", "MB", "GB")
_CLEARED = b"\r\x1b[K"


class ProgressLine:
    """The progress line of a command."""

    def __init__(self) -> None:
        self._label = ""
        self._unit = "records"
        self._done = self._total = 0
        self._began = self._drawn_at = 0.0
        self._waited = ("", 0.0, 0.0)
        """The cause of the wait, its seconds, and when it was reported."""

        self._is_on = self._is_drawn = self._is_drawing = False
        self._hidden = 0

    @contextmanager
    def shown(self, label: str, unit: str = "records") -> Iterator[OnProgress | None]:
        """Show progress during the block, on a terminal; yield the function that reports it.

        Args:
            label: Name of the work.
            unit: What is counted: ``records`` or ``bytes``.
        """
        if self._is_on or not _is_seen():
            yield None
            return
        self._began, self._drawn_at, self._is_on = monotonic(), 0.0, True
        self._waited = ("", 0.0, 0.0)
        try:
            with ExitStack() as held:
                held.enter_context(watched(self._wait))
                held.enter_context(_ticking(self._draw))
                yield self.stage(label, unit)
        finally:
            self.clear()
            self._is_on = False

    def stage(self, label: str, unit: str = "records") -> OnProgress:
        """Return the function that reports the progress of a stage; the last stage is shown."""

        def tell(done: int, total: int, *_: Any) -> None:
            if done > 0:  # before, an earlier stage may still report
                self._label, self._unit = label, unit
                self._done, self._total = done, total
            self._draw()

        self._label, self._unit = label, unit
        self._done = self._total = 0
        return tell

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Hide the line during the block, which prints something else or prompts."""
        self._hidden += 1
        self.clear()
        try:
            yield
        finally:
            self._hidden -= 1

    def clear(self) -> None:
        """Remove the line."""
        if self._is_drawn:
            self._is_drawn = False
            _write_to_terminal(_CLEARED)

    def _wait(self, cause: str, seconds: float) -> None:
        self._waited = cause, seconds, monotonic()
        self._draw()

    def _draw(self) -> None:
        now = monotonic()
        if self._is_drawing or self._hidden or not self._is_on:
            return
        if now - self._began < _SHOWN_AFTER or now - self._drawn_at < _REDRAWN:
            return
        self._is_drawing = True  # the timer may interrupt the drawing
        try:
            width = shutil.get_terminal_size().columns
            encoding = sys.stderr.encoding or "ascii"
            line = self._line(now, is_plain=not encoding.lower().startswith("utf"))
            fitted = line if len(line) < width else line[: width - 1]
            _write_to_terminal(_CLEARED + fitted.encode(encoding, "replace"))
            self._is_drawn, self._drawn_at = True, now
        finally:
            self._is_drawing = False

    def _line(self, now: float, *, is_plain: bool) -> str:
        cause, seconds, heard_at = self._waited
        if cause and now - heard_at < _STILL_WAITING:
            return f"waiting {_clock(seconds)} for {cause}"
        full, rest = ("#", "-") if is_plain else ("━", "─")
        elapsed = now - self._began
        done = min(self._done, self._total)
        if done <= 0:
            at = int(elapsed / _REDRAWN) % _BAR
            bar = rest * at + full + rest * (_BAR - at - 1)
            return f"{self._label} {bar}  {_clock(elapsed)}"
        filled = _BAR * done // self._total
        left = _clock(elapsed / done * (self._total - done))
        amount = f"{self._amount(done)}/{self._amount(self._total)}"
        return f"{self._label} {full * filled}{rest * (_BAR - filled)}  {amount}  {left} left"

    def _amount(self, number: int) -> str:
        return amount_of_bytes(number) if self._unit == "bytes" else f"{number:,}"


activity = ProgressLine()
"""The progress line of the command that this process runs."""


def amount_of_bytes(bytes_: int) -> str:
    """Return a size such as ``1.2 MB``."""
    value, units = float(bytes_), list(_UNITS)
    while value >= 1000 and len(units) > 1:  # noqa: PLR2004 - decimal units
        value /= 1000
        units.pop(0)
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.1f} {units[0]}"


def _is_seen() -> bool:
    """Return whether stderr is a terminal that can redraw a line."""
    try:
        return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:  # closed
        return False


@contextmanager
def _ticking(draw: Callable[[], None]) -> Iterator[None]:
    """Also redraw the line between reports, if the system's timer is not in use."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        yield
        return

    def tick(*_: object) -> None:
        with suppress(Exception):  # progress must not fail the work that it interrupts
            draw()

    signal.signal(signal.SIGALRM, tick)
    signal.siginterrupt(signal.SIGALRM, False)
    signal.setitimer(signal.ITIMER_REAL, _SHOWN_AFTER, _TICK)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _write_to_terminal(data: bytes) -> None:
    with suppress(OSError, ValueError):  # a closed terminal
        os.write(sys.stderr.fileno(), data)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


_GIST, _SHORT, _LEAST_ROOM = 100, 12, 20


_COLORING = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")


class ReaderGoneError(Exception):
    """The reader of stdout closed it; click and rich would exit with statuses of their own."""


@cache
def _console(*, stderr: bool) -> "Console":
    """Return the console of rich, which takes longer to import than some commands to run."""
    from rich.console import Console

    class Passing(Console):
        """Raises for a broken pipe, for the command line to handle."""

        def on_broken_pipe(self) -> NoReturn:
            raise ReaderGoneError

    return Passing(stderr=stderr, highlight=False, soft_wrap=True)


def _is_plain(stream: TextIO) -> bool:
    """Return whether a stream is written without colors."""
    return not stream.isatty() and not any(os.environ.get(name) for name in _COLORING)


@dataclass(slots=True)
class GlobalOptions:
    """The global options, and the state of one command."""

    home: Path | None = None
    config: Path | None = None
    store: str | None = None
    backend: str | None = None
    token: str | None = None
    identities: tuple[Path, ...] = ()
    passphrase_file: Path | None = None
    debug: bool = False
    json: bool = False
    is_hook: bool = False
    """Whether an agent host runs the command as a hook."""

    data_on_stdout: bool = False
    """Whether data is written to stdout; reports then go to stderr."""

    held: ExitStack = field(default_factory=ExitStack)
    """Resources that stay open until the operation is done, such as its input."""

    _settings: "list[Settings]" = field(default_factory=list)

    def reset(self, *, json: bool) -> None:
        """Reset the options of an earlier command of the same process."""
        self.home, self.config, self.store, self.backend = None, None, None, None
        self.token, self.identities, self.passphrase_file = None, (), None
        self.debug, self.json, self.data_on_stdout, self.is_hook = False, json, False, False
        self._settings.clear()

    @property
    def settings(self) -> "Settings":
        """The settings, read once."""
        if not self._settings:
            from msgspec.structs import replace as changed

            from satchel.config.settings import load_settings

            settings = load_settings(
                home=self.home,
                config=self.config,
                store=self.store,
                backend=self.backend,
                token=self.token,
            )
            unlocking = replace(
                settings.unlocking,
                files=self.identities,
                passphrase=file_passphrase(self.passphrase_file),
            )
            self._settings.append(changed(settings, unlocking=unlocking))
        return self._settings[0]

    def present(self, token: str) -> None:
        """Set the capability token of an option after the command."""
        self.token = token
        self._settings.clear()

    def finish(self) -> None:
        """Wait for the hooks that run for this command."""
        for settings in self._settings:
            settings.hooks.finish()


state = GlobalOptions()
"""The global options of the command that this process runs."""


def safe(text: object) -> "Text":
    """Return untrusted text for a terminal.

    Control characters, and those that reverse or hide text, are escaped; markup is not interpreted.
    """
    from rich.text import Text

    return Text(_visible(text))


def _visible(text: object) -> str:
    plain = str(text)
    if plain.isprintable():
        return plain
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in plain
    )


def print_json(value: Any) -> None:
    """Print one JSON value on stdout."""
    stream = sys.stderr if state.data_on_stdout else sys.stdout
    _write(stream, _json(value, indent=2) + "\n")


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
    except BrokenPipeError:  # click would report it as a failure
        raise ReaderGoneError from None


def _json(value: Any, indent: int | None) -> str:
    """Return JSON with all characters escaped that are not printable.

    Parsers read the same value, and it cannot control a terminal. File names that are not UTF-8
    keep their bytes as Python's lone surrogates.
    """
    import msgspec

    text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, indent=indent)
    return "".join(char if char.isprintable() or char == "\n" else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def line(*parts: object, style: str = "") -> None:
    """Print one line on stdout; on stderr if stdout receives data."""
    _print(parts, style, stderr=state.data_on_stdout)


def wrapped(indent: str, text: object, style: str = "") -> None:
    """Print a line on stdout, wrapped between words and indented on a terminal.

    Without a terminal, a line stays one line, so that it can be searched for.
    """
    if not sys.stdout.isatty():
        line(indent, text, style=style)
        return
    printable = safe(text)
    content = printable.plain.lstrip(" ")
    inner = indent + " " * (len(printable.plain) - len(content))
    room = _width() - len(inner)
    if room < _LEAST_ROOM:
        line(inner, content, style=style)
        return
    for row in safe(content).wrap(_console(stderr=False), room):
        line(inner, row.plain.rstrip(), style=style)


def _width() -> int:
    return _console(stderr=False).width


def message(*parts: object, style: str = "") -> None:
    """Print one line on stderr; nothing with ``--json``, whose result includes it."""
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
    return hasattr(part, "append_text")  # a Text of rich, which is not imported for the check


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
    """Print a table; cells are not cut or wrapped, so that IDs can be copied.

    Args:
        columns: Names of the columns; empty for no header.
        rows: The cells.
        cut: Whether the last column is truncated to the width of a terminal.
    """
    from rich.text import Text

    stream = sys.stderr if state.data_on_stdout else sys.stdout
    if _is_plain(stream):
        _print_plain(stream, columns, rows)
        return
    head = [[Text(column, style="dim") for column in columns]] if columns else []
    cells = [*head, *([_cell(cell) for cell in row] for row in rows)]
    widths = [max(cell.cell_len for cell in column) for column in zip(*cells, strict=True)]
    console = _console(stderr=state.data_on_stdout)
    for row in cells:
        whole = Text()
        for cell, width in zip(row, widths, strict=True):
            whole.append_text(cell)
            whole.append(" " * (width - cell.cell_len + 2))
        whole.rstrip()
        if cut and sys.stdout.isatty():
            whole.truncate(_width(), overflow="ellipsis")
        console.print(whole)


def _print_plain(stream: TextIO, columns: list[str], rows: Iterable[list[object]]) -> None:
    """Print a table without styles or an object for each cell, as there may be very many."""
    from rich.cells import cell_len
    from rich.text import Text

    text_rows = [columns] if columns else []
    text_rows += (
        [cell.plain if isinstance(cell, Text) else _visible(cell) for cell in row] for row in rows
    )
    widths = [max(map(cell_len, column)) for column in zip(*text_rows, strict=True)]
    for row in text_rows:
        padded = (
            cell + " " * (width - cell_len(cell) + 2)
            for cell, width in zip(row, widths, strict=True)
        )
        _write(stream, "".join(padded).rstrip() + "\n")


def _cell(value: object) -> "Text":
    from rich.text import Text

    return value.copy() if isinstance(value, Text) else safe(value)


def print_error(error: SatchelError) -> None:
    """Print an error on stderr: message, place, hint."""
    if state.json:
        problem = {"error": error.problem(), "exit_status": error.exit_status}
        sys.stderr.write(_json(problem, indent=None) + "\n")
        return
    _labeled("error: ", "bold red", error.message)
    if error.place:
        _labeled("  where  ", "dim", error.place)
    if error.hint:
        _labeled("  try    ", "dim", error.command_hint or error.hint)


def _labeled(label: str, style: str, text: str) -> None:
    """Print a line on stderr after a label; colors are imported for a terminal only."""
    if _is_plain(sys.stderr):
        message(label, text)
        return
    from rich.text import Text

    message(Text(label, style=style), text)


def dim(text: str) -> "Text":
    """Return untrusted text, dimmed."""
    dimmed = safe(text)
    dimmed.stylize("dim")
    return dimmed


def excerpt(text: str) -> str:
    """Return the beginning of a text, on one line."""
    words = " ".join(text[: 4 * _GIST].split())
    return words if len(words) <= _GIST else words[: _GIST - 1] + "…"


def short_time(moment: str | None, *, seconds: bool = False) -> str:
    """Return a time for a table, to the minute or second: ``2026-03-01 09:30``."""
    return (moment or "")[: 19 if seconds else 16].replace("T", " ")


def short(identity: str) -> str:
    """Return the short form of an ID, unique in a bank of a million records."""
    return identity.removeprefix("blake3:")[:_SHORT]


def print_text(text: str) -> None:
    """Print escaped lines on stdout."""
    _write(sys.stdout, text)


def print_raw(data: bytes) -> None:
    """Print raw bytes on stdout; on a terminal, escaped."""
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
    """Return a size such as ``1.2 MB``."""
    return amount_of_bytes(bytes_)


def show_changes(changes: Sequence["MemoryChange"], changed: str, unchanged: str) -> None:
    """Print which memories were or would be changed, and why others were not."""
    for change in changes:
        done = f"would be {changed}" if change.dry_run else changed
        outcome = done if change.is_changed else unchanged
        line(short(change.id), f"  {outcome}  ", excerpt(change.text))


def show_timer(timer: "Timer") -> None:
    """Print a timer, and which secrets it does not contain."""
    print_text(timer.text)
    for name in timer.missing:
        message(f"{name} contains a secret and is not included: set it in {state.settings.file}")


_KEY_VARIABLE = "SATCHEL_PASSPHRASE"
_MOST_PASSPHRASE_BYTES = 4096


def key_passphrase(*, needed: bool = True) -> str | None:
    """Return the passphrase of an existing key; None if unset and without a terminal."""
    if _KEY_VARIABLE in os.environ:
        return os.environ[_KEY_VARIABLE]
    return _prompt("Passphrase: ") if needed and sys.stdin.isatty() else None


def new_key_passphrase() -> str:
    """Return a passphrase for a new key, entered twice.

    Raises:
        UsageError: If there is no terminal, the two differ, or it is empty.
    """
    if _KEY_VARIABLE not in os.environ:
        return _new_passphrase(f"Set {_KEY_VARIABLE}, or run it in a terminal.")
    if not os.environ[_KEY_VARIABLE]:
        raise UsageError("an empty passphrase protects nothing")
    return os.environ[_KEY_VARIABLE]


def file_passphrase(path: Path | None) -> Callable[[], str | None]:
    """Return a function that returns the passphrase of an encrypted file.

    Args:
        path: A file that contains it, which may be a descriptor (``/dev/fd/3``).
    """

    def read() -> str | None:
        return _read_passphrase(path) or (_prompt("Passphrase: ") if sys.stdin.isatty() else None)

    return read


def new_file_passphrase() -> str:
    """Return a passphrase for a file to encrypt: from the options, the environment or a terminal.

    Raises:
        UsageError: If there is no terminal, the two differ, or it is empty.
    """
    from satchel.crypto.encryption import PASSPHRASE_VARIABLE

    return _read_passphrase(state.passphrase_file) or _new_passphrase(
        f"Set {PASSPHRASE_VARIABLE}, name a file (satchel --passphrase-file FILE), or run it in a"
        " terminal."
    )


def _new_passphrase(hint: str) -> str:
    if not sys.stdin.isatty():
        raise UsageError("no passphrase given", hint=hint)
    chosen = _prompt("New passphrase: ")
    if _prompt("Repeat passphrase: ") != chosen:
        raise UsageError("the two passphrases differ")
    if not chosen:
        raise UsageError("an empty passphrase protects nothing")
    return chosen


def _prompt(prompt: str) -> str:
    from getpass import getpass

    with activity.hidden():
        return getpass(prompt)


def _read_passphrase(path: Path | None) -> str | None:
    if path is None:
        from satchel.crypto.encryption import PASSPHRASE_VARIABLE

        return os.environ.get(PASSPHRASE_VARIABLE) or None
    try:
        with path.open("rb") as stream:  # a descriptor is not a regular file
            data = stream.read(_MOST_PASSPHRASE_BYTES)
    except OSError as error:
        raise UnreadableError(f"cannot read: {error.strerror or error}", file=str(path)) from None
    try:
        passphrase = data.split(b"\n")[0].rstrip(b"\r").decode()
    except UnicodeDecodeError:
        raise UsageError("the passphrase is not valid text", file=str(path)) from None
    if not passphrase:
        raise UsageError("it contains no passphrase", file=str(path))
    return passphrase
