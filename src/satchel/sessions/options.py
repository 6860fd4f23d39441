"""Options of the operations on conversations."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal

from satchel.config.options import DryRun, ScrubSecrets
from satchel.errors import UsageError
from satchel.model.text import Message, SessionChange
from satchel.ports.inference import Distiller
from satchel.ports.operations import Absent, Option, Options

OWNER_ONLY = {"mcp": "A host records conversations, and a person manages them."}

Category = Literal["task", "decision", "preference", "correction", "context"]
DistillerName = Literal["extractive", "openai"]

SessionItem = Message | SessionChange
"""One line of a conversation."""

_DISTILLERS = ("extractive", "openai")
_MOST_NAME, _MOST_SHOWN = 500, 100_000
_COSTS = Absent(why="The operator configures it: a model elsewhere costs money.")

Session = Annotated[
    str,
    Option(
        "Conversation: its name, ID or ID prefix.",
        argument=True,
        metavar="SESSION",
        max_length=_MOST_NAME,
        mcp=True,
    ),
]
At = Annotated[
    str | None,
    Option(
        "Point: a message (number or ID), a checkpoint (name or ID), or distillation:2."
        " Default: the end.",
        max_length=_MOST_NAME,
        mcp=True,
    ),
]
PointName = Annotated[
    str | None,
    Option("Name of the checkpoint.", max_length=_MOST_NAME, examples=["before the change"]),
]


def _distiller(value: Any) -> Any:
    if isinstance(value, str) and value not in _DISTILLERS:
        raise UsageError(
            f"unknown value {value!r}", field="distiller", hint="Choose from: extractive, openai."
        )
    return value


@dataclass(frozen=True, slots=True)
class RecordOptions(Options):
    """What to record, and in which conversation."""

    messages: Annotated[
        Sequence[Mapping[str, Any]],
        Option(
            "Messages, each with role, content and further members; or state changes: "
            "working_state, thread_summary or note.",
            cli=Absent(why="FILE has them."),
            max_items=_MOST_SHOWN,
            examples=[[{"role": "user", "content": "hello"}]],
        ),
    ] = ()
    _: KW_ONLY
    session: Annotated[
        str | None,
        Option(
            "Conversation to add to: its name, ID or ID prefix. Default: a new one.",
            max_length=_MOST_NAME,
        ),
    ] = None
    name: Annotated[
        str | None,
        Option("Name of a new conversation.", max_length=_MOST_NAME, examples=["planning"]),
    ] = None
    agent: Annotated[str | None, Option("Agent that a new conversation belongs to.")] = None
    user: Annotated[str | None, Option("User that a new conversation is with.")] = None
    metadata: Annotated[
        Mapping[str, Any] | None,
        Option(
            "Further members of a new conversation: NAME=TEXT, or a JSON object. Repeatable.",
            metavar="NAME=TEXT",
        ),
    ] = None
    scrub_secrets: ScrubSecrets = False
    items: Sequence[SessionItem] | None = None
    """The messages of a file, which is read once for each iteration."""


@dataclass(frozen=True, slots=True)
class StateOptions(Options):
    """What to change beside the messages of a conversation. What is not given does not change."""

    session: Session
    _: KW_ONLY
    working_state: Annotated[
        Any, Option("Working state of the agent, as JSON.", metavar="JSON")
    ] = None
    thread_summary: Annotated[
        str | None,
        Option("Summary of the conversation so far.", flag="--summary", max_length=100_000),
    ] = None
    note: Annotated[str | None, Option("Note to add.", max_length=10_000)] = None
    category: Annotated[Category, Option("Category of the note.")] = "context"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionListOptions(Options):
    """Which conversations to list."""

    include_archived: Annotated[bool, Option("Include archived conversations.")] = False
    limit: Annotated[
        int,
        Option("Maximum number of conversations, newest first.", minimum=1, maximum=_MOST_SHOWN),
    ] = 100


@dataclass(frozen=True, slots=True)
class SessionShowOptions(Options):
    """Which conversation to show, and how much of it."""

    session: Session
    _: KW_ONLY
    at: At = None
    last: Annotated[
        int,
        Option("Number of messages to show, from the end.", minimum=0, maximum=_MOST_SHOWN),
    ] = 20


@dataclass(frozen=True, slots=True)
class SessionDiffOptions(Options):
    """Which conversations to compare."""

    session: Session
    other: Annotated[
        str,
        Option(
            "Conversation to compare with: its name, ID or ID prefix.",
            argument=True,
            metavar="OTHER",
            max_length=_MOST_NAME,
        ),
    ]
    _: KW_ONLY
    limit: Annotated[
        int,
        Option("Maximum number of messages of each to show.", minimum=0, maximum=_MOST_SHOWN),
    ] = 20


@dataclass(frozen=True, slots=True)
class RenameOptions(Options):
    """Which conversation to rename."""

    session: Session
    name: Annotated[
        str,
        Option("New name.", argument=True, max_length=_MOST_NAME, examples=["planning"]),
    ]


@dataclass(frozen=True, slots=True)
class ArchiveOptions(Options):
    """Which conversation to archive."""

    session: Session
    _: KW_ONLY
    restore: Annotated[bool, Option("Unarchive it.")] = False


@dataclass(frozen=True, slots=True)
class CheckpointOptions(Options):
    """Which point to keep."""

    session: Session
    _: KW_ONLY
    name: PointName = None
    at: At = None


@dataclass(frozen=True, slots=True)
class CheckpointListOptions(Options):
    """Which conversation's checkpoints to list."""

    session: Session


@dataclass(frozen=True, slots=True)
class ForkOptions(Options):
    """What to fork."""

    session: Annotated[
        str | None,
        Option(
            "Conversation: its name, ID or ID prefix. Default: chosen at the terminal.",
            argument=True,
            metavar="SESSION",
            max_length=_MOST_NAME,
            mcp=True,
        ),
    ] = None
    _: KW_ONLY
    at: At = None
    name: Annotated[
        str | None,
        Option("Name of the new conversation.", max_length=_MOST_NAME, mcp=True),
    ] = None
    memories: Annotated[
        Literal["all", "as-of"],
        Option("Memories it recalls: all, or those of the point (as-of)."),
    ] = "all"


@dataclass(frozen=True, slots=True)
class DistillOptions(Options):
    """What to distill, and by what."""

    session: Session
    _: KW_ONLY
    name: PointName = None
    distiller: Annotated[
        Distiller | DistillerName | None,
        Option(
            "Distiller: extractive (no model), or openai. Default: as configured.",
            http=_COSTS,
            parse=_distiller,
        ),
    ] = None
    model: Annotated[
        str | None,
        Option("Model at a server. Default: inference.chat_model of the settings.", http=_COSTS),
    ] = None
    endpoint: Annotated[
        str | None,
        Option(
            "Address of the server, without a key. Default: inference.base_url of the settings.",
            http=_COSTS,
        ),
    ] = None
    dry_run: DryRun = False
