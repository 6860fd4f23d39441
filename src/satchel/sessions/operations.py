"""Operations that add to a conversation: its messages, and the state beside them."""

from satchel.bank.open_bank import OpenBank
from satchel.bank.owner_rights import require_owner
from satchel.errors import UsageError
from satchel.model.text import Note, SessionChange
from satchel.model.values import now
from satchel.ports.operations import operation
from satchel.sessions import record
from satchel.sessions.options import OWNER_ONLY, RecordOptions, StateOptions
from satchel.sessions.record import NewSession, RecordResult, parse_session_item


@operation(
    RecordOptions,
    name="session record",
    example='satchel session record talk.jsonl --name "trip to Oslo"',
    absent=OWNER_ONLY,
)
def record_session(bank: OpenBank, options: RecordOptions) -> RecordResult:
    """Record a conversation, or more of one. All of the messages are stored, or none.

    A message is `{"role": "user", "content": "..."}` with whatever else a program writes, or a
    change of the state beside the messages: `{"working_state": ...}`, `{"thread_summary": "..."}`
    or `{"note": {"content": "...", "category": "task"}}`. In a file, each is on a line of its own.

    Raises:
        UnknownSessionError: If there is no such conversation.
        EmptyInputError: If there is no message to add.
        MalformedError: If a message has no role, or a member has the wrong type.
        ValueRefusedError, LimitError: If a message cannot be stored.
        UsageError: If a name or owner is given for a conversation that exists.
    """
    require_owner(bank.settings, "sessions")
    spoken = options.spoken
    if spoken is None:
        spoken = [parse_session_item(dict(each)) for each in options.messages]
    if options.session is None:
        beginning = NewSession(
            name=options.name,
            agent=options.agent,
            user=options.user,
            metadata=options.metadata or {},
        )
        return record.begin(bank, beginning, spoken, scrub_secrets=options.scrub_secrets)
    for field in ("name", "agent", "user", "metadata"):
        if getattr(options, field) is not None:
            raise UsageError("only a new conversation takes this option", field=field)
    return record.record(bank, options.session, spoken, scrub_secrets=options.scrub_secrets)


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
    return record.record(bank, options.session, [changed])
