"""Telling hooks what happened, beside the work: nobody waits for them, and none can fail it.

What is told is put into a queue that a thread of its own empties. A queue that is full, a hook
that fails or takes too long: counted, and told as a warning of the logger ``satchel.hooks``, which
goes to stderr unless a program says otherwise.
"""

import logging
import queue
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from satchel.config.tables import EVENTS, HookSettings, HookTable
from satchel.errors import UsageError, shown_text
from satchel.model.values import now
from satchel.ports.sinks import MOST_IDS, Event
from satchel.runtime.processes import in_child

MOST_WAITING = 1000
"""Events that wait to be told; more are dropped, and counted."""

PATIENCE = 60.0
"""Seconds that whoever ends waits for hooks at most."""

_GRACE = 5.0

Listener = Callable[[Event], object]
"""A function that is told in this process."""

Contents = Callable[[], list[Any]]
"""Gives the records that an event is about; asked only if a listener wants them."""

_log = logging.getLogger("satchel.hooks")


class HookCounts(NamedTuple):
    """What became of what was told."""

    delivered: int
    failed: int
    dropped: int


class Hooks:
    """Who is told of what.

    Args:
        listeners: By event: settings of a hook, or a function of this process.
    """

    def __init__(self, listeners: Mapping[str, Sequence[HookSettings | Listener]]) -> None:
        self._listeners = {name: tuple(each) for name, each in listeners.items() if each}
        self._counts = {"delivered": 0, "failed": 0, "dropped": 0}
        self._open = 0
        self._begin()
        if self._listeners:
            in_child(self._begin)

    @classmethod
    def of(cls, table: HookTable) -> "Hooks":
        """Return the hooks of a configuration."""
        found = {name: getattr(table, name) for name in EVENTS if getattr(table, name)}
        return cls(found) if found else NO_HOOKS

    def and_(self, more: Mapping[str, Listener | Iterable[Listener]]) -> "Hooks":
        """Return these hooks and functions of this process.

        Raises:
            UsageError: If there is no such event, or something cannot be called.
        """
        found: dict[str, list[HookSettings | Listener]] = {
            name: list(each) for name, each in self._listeners.items()
        }
        for name, given in more.items():
            functions = [given] if callable(given) else list(given)
            if name not in EVENTS:
                hint = f"Choose from: {', '.join(EVENTS)}."
                raise UsageError(f"no event named {name!r}", field="hooks", hint=hint)
            if not all(map(callable, functions)):
                raise UsageError("a hook must be a function", field=f"hooks.{name}")
            found.setdefault(name, []).extend(functions)
        return Hooks(found)

    @property
    def counts(self) -> HookCounts:
        """What became of what was told so far."""
        return HookCounts(**self._counts)

    def tell(
        self,
        event: str,
        *,
        bank: tuple[str | None, str | None] = (None, None),
        ids: Sequence[str] = (),
        counts: Mapping[str, int] | None = None,
        content: Contents | None = None,
    ) -> None:
        """Have listeners told; returns at once.

        Args:
            event: What happened.
            bank: Id and name of the bank.
            ids: Of the records that it is about.
            counts: Numbers by name.
            content: Gives the records themselves.
        """
        listeners = self._listeners.get(event)
        if not listeners:
            return
        told = Event(
            event=event,
            delivery=secrets.token_hex(16),
            at=now(),
            bank=bank[0],
            name=bank[1],
            ids=list(ids[:MOST_IDS]),
            counts=dict(counts or {}),
        )
        wants = any(isinstance(one, HookSettings) and one.include_content for one in listeners)
        whole = told
        if wants and content is not None:
            whole = msgspec.structs.replace(told, content=content())
        for listener in listeners:
            include = isinstance(listener, HookSettings) and listener.include_content
            self._put(listener, whole if include else told)

    def finish(self, patience: float = PATIENCE) -> None:
        """Wait until everything was told, for so many seconds at most; the rest is dropped."""
        with self._done:
            self._done.wait_for(lambda: self._open == 0, patience)
            left, self._open = self._open, 0
        if left:
            self._counts["dropped"] += left
            _log.warning("%d events were not delivered in time", left)

    def _begin(self) -> None:
        """Start with nothing waiting: a parent's thread goes on with what waits there."""
        self._waiting: queue.Queue[tuple[HookSettings | Listener, Event]] = queue.Queue(
            MOST_WAITING
        )
        self._done = threading.Condition()
        self._open = 0
        self._worker: threading.Thread | None = None
        self._stuck = set[int]()

    def _put(self, listener: HookSettings | Listener, event: Event) -> None:
        with self._done:
            try:
                self._waiting.put_nowait((listener, event))
            except queue.Full:
                self._counts["dropped"] += 1
                _log.warning("%s was not called: its queue is full", event.event)
                return
            self._open += 1
            if self._worker is None:
                self._worker = threading.Thread(
                    target=self._work, name="satchel-hooks", daemon=True
                )
                self._worker.start()

    def _work(self) -> None:
        while True:
            listener, event = self._waiting.get()
            problem = self._told(listener, event)
            self._counts["delivered" if problem is None else "failed"] += 1
            if problem is not None:
                _log.warning("hook %s, %s: %s", event.event, _name(listener), _visible(problem))
            with self._done:
                self._open = max(0, self._open - 1)
                self._done.notify_all()

    def _told(self, listener: HookSettings | Listener, event: Event) -> str | None:
        """Tell one listener; return what went wrong."""
        from satchel.config.hook_delivery import call

        if id(listener) in self._stuck:
            return "still handling an earlier event"
        if not isinstance(listener, HookSettings):
            return call(lambda: listener(event), PATIENCE, self._still(listener))
        return self._by_settings(listener, event)

    def _by_settings(self, hook: HookSettings, event: Event) -> str | None:
        from satchel.config.hook_delivery import call, post, run_command, run_function

        stuck = self._still(hook)
        if hook.function is not None:
            function = hook.function
            return call(lambda: run_function(function, event), hook.timeout, stuck)
        if hook.command is not None:
            command = hook.command
            return call(
                lambda: run_command(command, event, hook.timeout, hook.environment),
                hook.timeout + _GRACE,
                stuck,
            )
        address, secret = str(hook.webhook), hook.secret_env
        return post(address, event, timeout=hook.timeout, retries=hook.retries, secret=secret)

    def _still(self, listener: object) -> Callable[[bool], None]:
        """Return what notes that a listener does not end, and that it did in the end."""

        def note(is_stuck: bool) -> None:  # noqa: FBT001 - a callback
            change = self._stuck.add if is_stuck else self._stuck.discard
            change(id(listener))

        return note


def _name(listener: HookSettings | Listener) -> str:
    if not isinstance(listener, HookSettings):
        return _visible(getattr(listener, "__qualname__", "function"))
    if listener.webhook is not None:
        from urllib.parse import urlsplit

        return f"webhook {_visible(urlsplit(listener.webhook).hostname or '')}"
    return _visible(listener.function or (listener.command or ("",))[0])


def _visible(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in shown_text(text))[:300]


NO_HOOKS = Hooks({})
"""Tells nobody."""
