"""Hooks: listeners that are called in the background, and cannot delay or fail an operation.

Events are put into a queue that a thread empties. A full queue, and a hook that fails or takes too
long, are counted and reported as warnings of the logger ``satchel.hooks``, which prints to stderr
unless a program configures it.
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
"""Maximum number of waiting events; more are dropped and counted."""

PATIENCE = 60.0
"""Maximum seconds to wait for hooks at exit."""

_GRACE = 5.0

Listener = Callable[[Event], object]
"""A function that is called in this process."""

Contents = Callable[[], list[Any]]
"""Returns the records of an event; called only if a listener includes them."""

_log = logging.getLogger("satchel.hooks")


class HookCounts(NamedTuple):
    """Number of events by result."""

    delivered: int
    failed: int
    dropped: int


class Hooks:
    """The listeners of each event.

    Args:
        listeners: By event: settings of hooks, and functions of this process.
    """

    def __init__(self, listeners: Mapping[str, Sequence[HookSettings | Listener]]) -> None:
        self._listeners = {name: tuple(each) for name, each in listeners.items() if each}
        self._counts = {"delivered": 0, "failed": 0, "dropped": 0}
        self._open = 0
        self._reset()
        if self._listeners:
            in_child(self._reset)

    @classmethod
    def of(cls, table: HookTable) -> "Hooks":
        """Return the hooks of a configuration."""
        found = {name: getattr(table, name) for name in EVENTS if getattr(table, name)}
        return cls(found) if found else NO_HOOKS

    def with_listeners(self, more: Mapping[str, Listener | Iterable[Listener]]) -> "Hooks":
        """Return these hooks with functions of this process added.

        Raises:
            UsageError: If an event does not exist, or a listener is not callable.
        """
        listeners: dict[str, list[HookSettings | Listener]] = {
            name: list(each) for name, each in self._listeners.items()
        }
        for name, given in more.items():
            functions = [given] if callable(given) else list(given)
            if name not in EVENTS:
                hint = f"Choose from: {', '.join(EVENTS)}."
                raise UsageError(f"no event named {name!r}", field="hooks", hint=hint)
            if not all(map(callable, functions)):
                raise UsageError("a hook must be a function", field=f"hooks.{name}")
            listeners.setdefault(name, []).extend(functions)
        return Hooks(listeners)

    @property
    def counts(self) -> HookCounts:
        """The results so far."""
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
        """Queue an event for its listeners; returns immediately.

        Args:
            event: Name of the event.
            bank: ID and name of the bank.
            ids: IDs of the records of the event.
            counts: Numbers by name.
            content: Returns the records themselves.
        """
        listeners = self._listeners.get(event)
        if not listeners:
            return
        message = Event(
            event=event,
            delivery=secrets.token_hex(16),
            at=now(),
            bank=bank[0],
            name=bank[1],
            ids=list(ids[:MOST_IDS]),
            counts=dict(counts or {}),
        )
        wants = any(isinstance(one, HookSettings) and one.include_content for one in listeners)
        whole = message
        if wants and content is not None:
            whole = msgspec.structs.replace(message, content=content())
        for listener in listeners:
            include = isinstance(listener, HookSettings) and listener.include_content
            self._put(listener, whole if include else message)

    def finish(self, patience: float = PATIENCE) -> None:
        """Wait until all events are delivered; after ``patience`` seconds the rest is dropped."""
        with self._done:
            self._done.wait_for(lambda: self._open == 0, patience)
            left, self._open = self._open, 0
        if left:
            self._counts["dropped"] += left
            _log.warning("%d events were not delivered in time", left)

    def _reset(self) -> None:
        """Start with an empty queue: after a fork it belongs to the parent's thread."""
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
            problem = self._call_listener(listener, event)
            self._counts["delivered" if problem is None else "failed"] += 1
            if problem is not None:
                _log.warning("hook %s, %s: %s", event.event, _name(listener), _visible(problem))
            with self._done:
                self._open = max(0, self._open - 1)
                self._done.notify_all()

    def _call_listener(self, listener: HookSettings | Listener, event: Event) -> str | None:
        """Call one listener; return the problem."""
        from satchel.config.hook_delivery import call

        if id(listener) in self._stuck:
            return "still handling an earlier event"
        if not isinstance(listener, HookSettings):
            return call(lambda: listener(event), PATIENCE, self._stuck_callback(listener))
        return self._call_configured(listener, event)

    def _call_configured(self, hook: HookSettings, event: Event) -> str | None:
        from satchel.config.hook_delivery import call, post, run_command, run_function

        stuck = self._stuck_callback(hook)
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

    def _stuck_callback(self, listener: object) -> Callable[[bool], None]:
        """Return the function that notes whether a listener is still running."""

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
"""No listeners."""
