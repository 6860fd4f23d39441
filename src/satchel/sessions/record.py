"""Record conversations: new sessions, and messages added to existing ones."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from satchel.bank.changes import MOST_TRIES
from satchel.bank.jobs import revert_import
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import OpenBank
from satchel.crypto.canonical import Limits
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import (
    ChangedError,
    EmptyInputError,
    LimitError,
    MalformedError,
    SatchelError,
    UsageError,
)
from satchel.ledger.projection import Precondition
from satchel.ledger.transaction import closing_receipt
from satchel.model.records import Source
from satchel.model.text import Message, Note, SessionChange, parse_message
from satchel.model.values import Scope, now, resolved
from satchel.ports.operations import operation
from satchel.runtime.files import OpenFile
from satchel.screening.records import SecretScreener
from satchel.sessions.chains import tip_of
from satchel.sessions.drafts import Recorder, about, new_session
from satchel.sessions.elements import KINDS, NOTE, SUMMARY, WORKING, Tip
from satchel.sessions.lookup import find
from satchel.sessions.options import OWNER_ONLY, RecordOptions, SessionItem, StateOptions

TOGETHER = 500
"""Messages of one commit; more are logged like an import and become visible together."""


class RecordResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of recording messages."""

    session: str
    """ID of the session."""

    messages: int
    """Number of added messages."""

    total: int
    """Messages of the session, including those from before a fork."""

    element: str
    """ID of its last message or change of state; of the session if there is none."""

    is_new: bool = False
    """Whether the session is new."""

    changes: int = 0
    """Changes of state."""

    secrets: dict[str, int] = {}
    """Found secrets, by kind."""

    secrets_kept: int = 0
    """Number of secrets that were stored unchanged."""


class NewSession(msgspec.Struct, frozen=True, kw_only=True):
    """Data of a new session."""

    name: str | None = None
    agent: str | None = None
    user: str | None = None
    metadata: Mapping[str, Any] = {}


def begin(
    bank: OpenBank,
    beginning: NewSession | None = None,
    items: Iterable[SessionItem] = (),
    *,
    scrub_secrets: bool = False,
) -> RecordResult:
    """Start a session, with its first messages if there are any.

    Args:
        bank: The bank.
        beginning: The data of the session.
        items: Its messages, and changes of state between them; may be iterated more than once.
        scrub_secrets: Whether to replace secrets by tokens; otherwise they are only counted.

    Raises:
        UsageError: If its name is empty.
        ValueRefusedError, LimitError: If an element cannot be stored; then none is.
    """
    require_owner(bank.settings, "sessions")
    properties = beginning or NewSession()
    if properties.name is not None and not properties.name.strip():
        raise UsageError("the name of a conversation must not be empty", field="name")
    scope = Scope(agent=properties.agent, user=properties.user)
    start = new_session(
        properties.name,
        scope=None if scope == Scope() else scope,
        metadata=dict(properties.metadata),
    )
    return _Recording(bank, None, scrub=scrub_secrets).log(start, items)


def record(
    bank: OpenBank, session: str, items: Iterable[SessionItem], *, scrub_secrets: bool = False
) -> RecordResult:
    """Append messages to a session.

    Concurrent calls are serialized: the messages of one call stay consecutive.

    Args:
        bank: The bank.
        session: ID, unique ID prefix or name of the session.
        items: The messages, and changes of state between them; may be iterated more than once.
        scrub_secrets: Whether to replace secrets by tokens; otherwise they are only counted.

    Raises:
        UnknownSessionError: If there is no such session.
        EmptyInputError: If there is nothing to add.
        ValueRefusedError, LimitError: If an element cannot be stored; then none is.
    """
    require_owner(bank.settings, "sessions")
    for attempt in range(MOST_TRIES):
        try:
            return _Recording(bank, session, scrub=scrub_secrets).log(None, items)
        except ChangedError:
            if attempt == MOST_TRIES - 1:
                raise
    raise AssertionError("unreachable")


class _Recording:
    """One attempt to add to a session."""

    def __init__(self, bank: OpenBank, session: str | None, *, scrub: bool) -> None:
        self._bank = bank
        with bank.ledger.reading() as view:
            self._screening = SecretScreener(scrub=scrub or bool(bank.settled(view).scrub_secrets))
            self._given: Precondition | None = None
            tip = None
            self._start = ""
            if session is not None:
                start = find(view, session)
                tip, self._start = tip_of(view, start), start.record.id
                self._given = Precondition(view.head.size, [], (tip.session,))
        self._tip: Tip | None = tip
        self._source: str | None = None
        self._messages = self._changes = 0

    def log(self, start: Sealed | None, items: Iterable[SessionItem]) -> RecordResult:
        """Make the records and append them in one commit; many are logged like an import."""
        waiting = [] if start is None else [start]
        tip = self._tip if start is None else Tip(start.id, start.id)
        assert tip is not None  # noqa: S101 - a session is new, or was found
        recorder = Recorder(tip, screen=self._screening, limits=self._bank.settings.options.limits)
        try:
            for item in items:
                waiting.append(self._seal_item(recorder, item))
                if len(waiting) >= TOGETHER:
                    self._append(waiting)
                    waiting = []
            self._require_some(waiting)
            self._end(waiting, recorder.tip)
        except BaseException:
            if self._source is not None:
                revert_import(self._bank.ledger, self._source, "cut short")
            raise
        return self._result(recorder.tip, is_new=start is not None)

    def _require_some(self, waiting: list[Sealed]) -> None:
        if not waiting and self._source is None:
            raise EmptyInputError("no messages to record", field="messages")

    def _seal_item(self, recorder: Recorder, item: SessionItem) -> Sealed:
        if isinstance(item, Message):
            self._messages += 1
            return recorder.message(item)
        self._changes += 1
        return recorder.change(item)

    def _append(self, records: list[Sealed]) -> None:
        ledger = self._bank.ledger
        if self._source is None:
            source = seal(Source(provider="satchel", format="messages", at=now()))
            ledger.append([source], precondition=self._given)
            self._source = source.id
        ledger.append(records, batch=self._source)

    def _end(self, waiting: list[Sealed], tip: Tip) -> None:
        """Make everything visible in one commit, unless a concurrent append came first."""
        ledger = self._bank.ledger
        if self._source is None:
            ledger.append(waiting, precondition=self._given)
            return
        if waiting:
            self._append(waiting)
        unchanged = self._given
        if unchanged is not None and self._tip is not None:
            with ledger.reading() as view:
                if tip_of(view, view.get([self._start])[self._start]) != self._tip:
                    raise ChangedError("another process added to the conversation")
                unchanged = Precondition(view.head.size, [], (self._tip.session,))
        end = closing_receipt(self._source, now(), messages=self._messages)
        tip_record = about(tip.session, self._start or tip.session, tip=tip.element)
        ledger.append([end, tip_record], precondition=unchanged)
        self._source = None

    def _result(self, tip: Tip, *, is_new: bool) -> RecordResult:
        return RecordResult(
            session=tip.session,
            messages=self._messages,
            total=tip.number,
            element=tip.element,
            is_new=is_new,
            changes=self._changes,
            secrets=self._screening.found,
            secrets_kept=self._screening.kept,
        )


class MessagesFile:
    """The messages of an open file; each iteration reads it from its first byte.

    A line is a message, ``{"role": ..., "content": ...}`` with any other members, or a change of
    the state beside the messages: ``{"working_state": ...}``,
    ``{"thread_summary": "..."}`` or ``{"note": {"content": ..., "category": ...}}``.

    Args:
        file: The file.
        limits: Limits of a line.
    """

    def __init__(self, file: OpenFile, limits: Limits) -> None:
        self._file = file
        self._limits = limits

    def check(self) -> None:
        """Read and validate the whole file, before anything is stored.

        Raises:
            EmptyInputError: If there is no line.
            MalformedError: If a line is not a message.
            LimitError: If one is too long.
        """
        if not sum(1 for _ in self):
            raise EmptyInputError("the file has no messages", file=str(self._file))

    def __iter__(self) -> Iterator[SessionItem]:
        most = self._limits.line_bytes
        with self._file.stream() as stream:
            number = 0
            while line := stream.readline(most + 1):
                number += 1
                if len(line) > most:
                    problem = f"a line can have at most {most:,} bytes"
                    raise LimitError(problem, file=str(self._file), line=number)
                if line.strip():
                    try:
                        yield parse_session_item(_parsed(line))
                    except SatchelError as error:
                        raise error.located(file=str(self._file), line=number) from None


def parse_session_item(value: Any) -> SessionItem:
    """Return a line of a conversation, parsed from JSON.

    Raises:
        MalformedError: If it is neither a message nor a change of state.
    """
    if not isinstance(value, dict) or "role" in value or not set(KINDS) & value.keys():
        return parse_message(value)
    unknown = sorted(value.keys() - {*KINDS, "created_at"})
    if unknown:
        raise MalformedError("a state change has no such member", field=str(unknown[0]))
    summary, note = value.get(SUMMARY), value.get(NOTE)
    if summary is not None and not isinstance(summary, str):
        raise MalformedError("must be text", field=SUMMARY)
    if isinstance(note, str):
        note = {"content": note}
    try:
        parsed = None if note is None else msgspec.convert(note, resolved(Note))
    except msgspec.ValidationError as error:
        raise MalformedError(f"not a note: {error}", field=NOTE) from None
    return SessionChange(working_state=value.get(WORKING), thread_summary=summary, note=parsed)


def _parsed(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(f"not JSON: {error}") from None


@operation(
    RecordOptions,
    name="session record",
    example='satchel session record talk.jsonl --name "trip to Oslo"',
    absent=OWNER_ONLY,
)
def record_session(bank: OpenBank, options: RecordOptions) -> RecordResult:
    """Record a conversation, or more of one. All of the messages are stored, or none.

    A message is `{"role": "user", "content": "..."}`, with any other members, or a change of the
    state beside the messages: `{"working_state": ...}`, `{"thread_summary": "..."}` or
    `{"note": {"content": "...", "category": "task"}}`. A file has one on each line.

    Raises:
        UnknownSessionError: If there is no such conversation.
        EmptyInputError: If there is no message to add.
        MalformedError: If a message has no role, or a member has the wrong type.
        ValueRefusedError, LimitError: If a message cannot be stored.
        UsageError: If a name or owner is given for a conversation that exists.
    """
    require_owner(bank.settings, "sessions")
    items = options.items
    if items is None:
        items = [parse_session_item(dict(each)) for each in options.messages]
    if options.session is None:
        beginning = NewSession(
            name=options.name,
            agent=options.agent,
            user=options.user,
            metadata=options.metadata or {},
        )
        return begin(bank, beginning, items, scrub_secrets=options.scrub_secrets)
    for field in ("name", "agent", "user", "metadata"):
        if getattr(options, field) is not None:
            raise UsageError("only a new conversation takes this option", field=field)
    return record(bank, options.session, items, scrub_secrets=options.scrub_secrets)


@operation(
    StateOptions,
    name="session set",
    example="""satchel session set trip --working-state '{"task": "book"}' --note "by train\"""",
    absent=OWNER_ONLY,
)
def set_state(bank: OpenBank, options: StateOptions) -> RecordResult:
    """Change the state beside the messages of a conversation. Earlier forks keep theirs.

    Raises:
        UnknownSessionError: If there is no such conversation.
        UsageError: If nothing is to change.
    """
    require_owner(bank.settings, "sessions")
    note = None
    if options.note is not None:
        note = Note(content=options.note, category=options.category, created_at=now())
    changed = SessionChange(
        working_state=options.working_state, thread_summary=options.thread_summary, note=note
    )
    return record(bank, options.session, [changed])
