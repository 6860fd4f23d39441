"""Open and closed objects of the Python API, and hints that name Python calls."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from satchel.errors import ClosedError, SatchelError
from satchel.runtime.processes import in_child

_BANK = (
    *("remember", "recall", "list", "show", "history", "stats", "update", "correct", "forget"),
    *("restore", "links", "path", "rehydrate", "promote", "embed", "duplicates", "undo", "export"),
    *("erase", "redact", "recover", "disclose"),
)
_GROUPS = {
    "session": ("bank.sessions", "record set show diff rename archive fork distill list"),
    "session checkpoint": ("bank.sessions", ""),
    "quarantine": ("bank.quarantine", "list show scan add release reject"),
    "token": ("bank.tokens", "issue list revoke verify"),
    "code": ("bank.code", "index query show trees drop"),
    "agent": ("Agents()", "list show export"),
    "backup": ("Backups()", "run list verify restore prune drill"),
    "key": ("Keys()", "create list export"),
}
CALLS = {
    **{name: f"bank.{name}" for name in _BANK},
    **{
        f"{group} {name}": f"{owner}.{name}"
        for group, (owner, names) in _GROUPS.items()
        for name in names.split()
    },
    "session checkpoint create": "bank.sessions.checkpoint",
    "session checkpoint list": "bank.sessions.checkpoints",
    "import": "bank.import_",
    "init": "store.bank",
    "bank list": "store.list_banks",
    "bank create": "store.create_bank",
    "bank use": "store.use_bank",
    "bank imports": "bank.imports",
    "receipt list": "store.receipts",
    "receipt show": "store.receipt",
    "job list": "store.jobs",
    "job": "store.jobs",
    "job resume": "store.resume_job",
    "job cancel": "store.cancel_job",
    "sink run": "store.sink",
    "watch": "store.watch",
    "store copy": "satchel.copy_store",
    "store encrypt": "satchel.encrypt_store",
    "store decrypt": "satchel.decrypt_store",
    "migrate": "satchel.migrate",
    "convert": "satchel.convert",
    "inspect": "satchel.inspect",
    "verify": "satchel.verify",
    "agent import": "Agents().import_",
    "key import": "Keys().import_",
}
"""The Python call for each command; ``bank`` is a ``Bank``, ``store`` a ``Satchel``."""

_SENTENCES = (
    ("satchel bank create NAME", "store.bank(NAME, create=True)"),
    ("Choose one with --bank NAME", "Choose one with store.bank(NAME)"),
    ("To use another bank: --bank NAME.", "To use another bank: store.bank(NAME)."),
    ("satchel --identity FILE", "Satchel.open(identities=[FILE])"),
    ("satchel --store ADDRESS", "Satchel.open(ADDRESS)"),
    ("--allow-uncontained", "roots=None"),
)
_ARGUMENT = r" (?:--[a-z-]+(?: (?!--)[A-Z][A-Z_]*)?|[A-Z][A-Z_]*(?![A-Za-z]))"
_COMMAND = re.compile(
    r"satchel ("
    + "|".join(sorted(map(re.escape, CALLS), key=len, reverse=True))
    + rf")(?![a-z-]| [a-z])((?:{_ARGUMENT})*)"
)


def in_python(hint: str) -> str:
    """Return a hint with Python calls instead of commands."""
    for command, call in _SENTENCES:
        hint = hint.replace(command, call)
    return _COMMAND.sub(_call, hint)


def _call(command: re.Match[str]) -> str:
    arguments = list[str]()
    words = command[2].split()
    while words:
        word = words.pop(0)
        if not word.startswith("--"):
            arguments.append(word)
            continue
        is_switch = not words or words[0].startswith("--")
        value = "True" if is_switch else words.pop(0)
        arguments.append(f"{word[2:].replace('-', '_')}={value}")
    return f"{CALLS[command[1]]}({', '.join(arguments)})"


@contextmanager
def hints_for_python() -> Iterator[None]:
    """Make the hints of errors in a block name Python calls."""
    try:
        yield
    except SatchelError as error:
        if error.hint is not None and error.command_hint is None:
            error.command_hint, error.hint = error.hint, in_python(error.hint)
        raise


class Lifetime:
    """The time for which an object can be used, from any thread and after a fork.

    It cannot be used once it is closed, and closing waits until no thread uses it.

    Args:
        end: Called once, after it was closed and is no longer used.
    """

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end
        self._closed = False
        self._callbacks = list[Callable[[], None]]()
        self._begin()
        in_child(self._begin)

    def _begin(self) -> None:
        """Start with no users: the threads of a parent process do not exist here."""
        self._change = threading.Condition()
        self._inside = 0

    @contextmanager
    def use(self) -> Iterator[None]:
        """Prevent closing until the block ends.

        Raises:
            ClosedError: If it is closed.
        """
        with self._change:
            if self._closed:
                raise ClosedError("the store is closed", hint="Open it again: Satchel.open().")
            self._inside += 1
        try:
            with hints_for_python():
                yield
        finally:
            with self._change:
                self._inside -= 1
                self._change.notify_all()

    def on_close(self, callback: Callable[[], None]) -> None:
        """Add a function to call when it is closed; the last one added is called first."""
        self._callbacks.append(callback)

    def close(self) -> None:
        """Close it once no thread uses it; do nothing if it is closed."""
        with self._change:
            if self._closed:
                return
            self._closed = True
            self._change.wait_for(lambda: self._inside <= 0)
        try:
            while self._callbacks:
                self._callbacks.pop()()
        finally:
            self._end()
