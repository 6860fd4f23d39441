"""Operations on the memories of a bank: remember, list, show, update, forget, links."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal, cast

from msgspec import UNSET, UnsetType

from satchel.bank import changes, listings
from satchel.bank import details as bank_details
from satchel.bank import links as bank_links
from satchel.bank.changes import MemoryChange, MemoryEdit, MemoryUpdate, RememberResult
from satchel.bank.details import History, MemoryDetails
from satchel.bank.links import MOST_NODES, LinkPaths, MemoryGraph, Neighborhood
from satchel.bank.listings import Listing, ListRequest
from satchel.bank.open_bank import OpenBank
from satchel.config.options import (
    FEW_FOR_MODELS,
    DryRun,
    OnProgress,
    ScopeOptions,
    ScrubSecrets,
    Texts,
    Time,
    Type,
)
from satchel.crypto.canonical import plain
from satchel.errors import UsageError
from satchel.model.records import Entry
from satchel.ports.operations import Absent, Option, Options, operation, texts

_OWNERS = ("user", "agent", "run", "app")
_MOST_TEXT = 1_000_000
_FOR_MODELS = "A model gets few options; this one is for programs and people."
_OWNER_ONLY = {"mcp": "A person decides it, not the agent whose memory it is."}

_NAMED = "ID or ID prefix; or its text, or a part that no other memory has."
Id = Annotated[str, Option(f"Memory: {_NAMED}", argument=True, metavar="ID", mcp="id")]
Ids = Annotated[
    Texts,
    Option(
        f"Memories. Each: {_NAMED}",
        argument=True,
        metavar="ID",
        max_items=1000,
        mcp="ids",
        examples=[["blake3:" + "0" * 64]],
    ),
]
Text = Annotated[
    str | Entry | Mapping[str, Any] | None,
    Option(
        "Text of the memory.",
        argument=True,
        max_length=_MOST_TEXT,
        mcp=True,
        examples=["Ada drinks tea, no milk"],
    ),
]
Reason = Annotated[
    str | None, Option("Reason, for the history.", max_length=1000, examples=["it was a joke"])
]
Actor = Annotated[
    str | None,
    Option("Author of the change, for the history, such as agent:planner.", max_length=200),
]


@dataclass(frozen=True, kw_only=True)
class ChangeOptions(Options):
    """Author and reason of a change."""

    are_last: ClassVar[bool] = True
    reason: Reason = None
    actor: Actor = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOptions(Options):
    """Members of a memory besides its text."""

    type: Annotated[
        Type | UnsetType | None,
        Option("Type of the memory. A new one is semantic (a fact) by default.", mcp=True),
    ] = UNSET
    data: Annotated[Any, Option("The memory as JSON, if it is not text.", metavar="JSON")] = UNSET
    tags: Annotated[
        Texts | UnsetType | None,
        Option("Tag. Repeatable.", flag="--tag", mcp=True, examples=[["tea"]]),
    ] = UNSET
    parents: Annotated[
        Texts | UnsetType | None,
        Option("ID of a memory that this one derives from. Repeatable.", flag="--parent", mcp=True),
    ] = UNSET
    subject: Annotated[str | UnsetType | None, Option("Who or what a fact is about.", mcp=True)] = (
        UNSET
    )
    predicate: Annotated[
        str | UnsetType | None,
        Option("What a fact says of its subject, such as lives_in.", mcp=True),
    ] = UNSET
    object: Annotated[
        str | UnsetType | None, Option("The other end of a fact, such as Lisbon.", mcp=True)
    ] = UNSET
    kind: Annotated[str | UnsetType | None, Option("Your own category for the memory.")] = UNSET
    metadata: Annotated[
        Mapping[str, Any] | UnsetType | None,
        Option("NAME=TEXT, or a JSON object. Repeatable.", metavar="NAME=TEXT"),
    ] = UNSET
    user: Annotated[
        str | UnsetType | None, Option("User the memory belongs to.", examples=["ada"])
    ] = UNSET
    agent: Annotated[str | UnsetType | None, Option("Agent the memory belongs to.")] = UNSET
    run: Annotated[str | UnsetType | None, Option("Run or conversation the memory belongs to.")] = (
        UNSET
    )
    app: Annotated[str | UnsetType | None, Option("Application the memory belongs to.")] = UNSET
    occurred_at: Annotated[
        Time | UnsetType | None, Option("When it happened: 2026-03-01T09:30Z.", metavar="TIME")
    ] = UNSET
    valid_from: Annotated[
        Time | UnsetType | None, Option("Time from which it is true.", metavar="TIME")
    ] = UNSET
    valid_until: Annotated[
        Time | UnsetType | None, Option("Time until which it is true.", metavar="TIME")
    ] = UNSET
    expires_at: Annotated[
        Time | UnsetType | None, Option("When it expires: not shown afterwards.", metavar="TIME")
    ] = UNSET
    salience: Annotated[float | UnsetType | None, Option("Importance.", minimum=0, maximum=1)] = (
        UNSET
    )
    members: Annotated[
        Mapping[str, Any] | UnsetType | None,
        Option(
            "Further members of the record, such as subject; see docs/spec/2-records.md.",
            cli=Absent(why="--record reads members from a file."),
        ),
    ] = UNSET


@dataclass(frozen=True, slots=True)
class RememberOptions(MemberOptions):
    """The memory to store."""

    text: Text = None
    _: KW_ONLY
    messages: Annotated[
        Sequence[Mapping[str, Any]] | None,
        Option(
            "Messages of a conversation instead of a memory, each with role, content and, if known,"
            " name (the speaker) and created_at. Each becomes a turn of --run.",
            cli=Absent(why="satchel import reads conversations."),
            max_items=10_000,
            examples=[[{"role": "user", "name": "Ada", "content": "I sailed to Bergen"}]],
        ),
    ] = None
    key: Annotated[
        str | None,
        Option("Key: a new memory with the same key replaces the previous one.", mcp=True),
    ] = None
    actor: Annotated[
        str | None,
        Option("Speaker, with --run; otherwise the author, for the history.", max_length=200),
    ] = None
    scrub_secrets: ScrubSecrets = False


@dataclass(frozen=True, slots=True)
class UpdateOptions(MemberOptions, ChangeOptions):
    """Changes to a memory."""

    memory: Annotated[
        str,
        Option(f"Memory: {_NAMED}", argument=True, metavar="ID", mcp="id"),
    ]
    text: Text = None
    _: KW_ONLY
    add_tags: Annotated[Texts, Option("Tag to add. Repeatable.", flag="--add-tag")] = ()
    remove_tags: Annotated[Texts, Option("Tag to remove. Repeatable.", flag="--remove-tag")] = ()


@dataclass(frozen=True, slots=True)
class ForgetOptions(ChangeOptions):
    """The memories to forget or restore."""

    memories: Ids
    _: KW_ONLY
    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class ShowOptions(Options):
    """The memory to show."""

    memory: Id


@dataclass(frozen=True, slots=True)
class HistoryOptions(Options):
    """The memory whose versions to show."""

    memory: Id
    _: KW_ONLY
    limit: Annotated[
        int, Option("Maximum number of versions, the newest first.", minimum=1, maximum=1000)
    ] = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions(ScopeOptions):
    """Which memories to list."""

    tags: Annotated[
        Texts | None,
        Option("Only with this tag; repeated: with all of them.", flag="--tag", mcp=True),
    ] = ()
    kind: Annotated[str | None, Option("Only of this category of your own.")] = None
    key: Annotated[str | None, Option("Only the memory with this key.")] = None
    since: Annotated[Time | None, Option("From this date or time: 2026-03-01.", metavar="TIME")] = (
        None
    )
    until: Annotated[Time | None, Option("Before this date or time.", metavar="TIME")] = None
    as_of: Annotated[
        int | None, Option("Show the bank as of this many log records.", minimum=0)
    ] = None
    all: Annotated[
        bool, Option("Include memories that are replaced, forgotten, expired or quarantined.")
    ] = False
    sort: Annotated[
        Literal["added", "created"],
        Option(
            "Sort by when memories were added to the bank, or by when they happened or were "
            "created."
        ),
    ] = "added"
    oldest_first: Annotated[bool, Option("Oldest first. Default: newest first.")] = False
    limit: Annotated[
        int, Option("Maximum number of memories.", minimum=1, maximum=listings.MOST, mcp=True)
    ] = 50
    after: Annotated[
        int | None, Option("Continue after this position, from the previous page.")
    ] = None
    progress: OnProgress = None


LinkTypes = Annotated[
    Texts | None, Option("Only links of this type, such as derives_from. Repeatable.")
]
Direction = Annotated[
    bank_links.Way, Option("Follow links forwards (out), backwards (in), or both.")
]
Budget = Annotated[int, Option("Maximum number of links to follow.", minimum=1, maximum=1_000_000)]


@dataclass(frozen=True, slots=True)
class LinksOptions(Options):
    """The record to start at, and the links to follow."""

    memory: Id
    _: KW_ONLY
    type: LinkTypes = ()
    direction: Direction = "both"
    hops: Annotated[int, Option("Maximum number of steps.", minimum=1, maximum=100)] = 1
    budget: Budget = bank_links.BUDGET
    all: Annotated[
        bool, Option("Include the text of memories that are replaced, forgotten or expired.")
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphOptions(Options):
    """The part of a bank to return."""

    limit: Annotated[
        int, Option("Maximum number of nodes, newest first.", minimum=1, maximum=MOST_NODES)
    ] = 5000
    all: Annotated[
        bool,
        Option("Include memories that are replaced, forgotten, expired or quarantined."),
    ] = False


@dataclass(frozen=True, slots=True)
class LinkPathOptions(Options):
    """The records to connect."""

    start: Annotated[str, Option("ID of the memory to start at.", argument=True, metavar="FROM")]
    end: Annotated[str, Option("ID of the memory to end at.", argument=True, metavar="TO")]
    _: KW_ONLY
    type: LinkTypes = ()
    direction: Direction = "both"
    hops: Annotated[int, Option("Maximum number of steps.", minimum=1, maximum=100)] = (
        bank_links.PATH_HOPS
    )
    budget: Budget = bank_links.BUDGET
    limit: Annotated[int, Option("Maximum number of paths.", minimum=1, maximum=1000)] = (
        bank_links.PATHS
    )


@operation(
    RememberOptions,
    name="remember",
    example='satchel remember "Ada takes her tea without sugar" --tag tea --user ada',
    for_models=FEW_FOR_MODELS,
)
def remember(bank: OpenBank, options: RememberOptions) -> RememberResult:
    """Store a memory. It is durable when this returns.

    With a key, the memory stored under it before (for the same owner and kind) becomes an older
    version. On a new machine, a signing key, a store and a bank are created as well.

    Raises:
        EmptyInputError: If it has no content.
        UnknownMemoryError: If a parent is not in the bank.
        UsageError: If a value is not valid, such as a time; ``field`` names it.
        ValueRefusedError: If a member has the wrong shape, or cannot be JSON.
        LimitError: If it is too large.
        StoreError: If the store cannot be written; then nothing was stored.
    """
    members = members_of(options, options.text)
    parents = texts(None if options.parents is UNSET else options.parents)
    if options.messages is not None:
        if options.key is not None or parents:
            field = "key" if options.key is not None else "parents"
            raise UsageError("messages are stored without a key and parents", field=field)
        if options.actor is not None:
            raise UsageError("each message names its own speaker", field="actor")
        return changes.remember_messages(
            bank, list(options.messages), members, scrub_secrets=options.scrub_secrets
        )
    return changes.remember(
        bank,
        members,
        key=options.key,
        parents=parents,
        actor=options.actor,
        scrub_secrets=options.scrub_secrets,
    )


@operation(
    UpdateOptions,
    name="update",
    example='satchel update 0f3c12 "Ada takes her tea with milk" --add-tag milk',
    for_models=FEW_FOR_MODELS,
)
def update(bank: OpenBank, options: UpdateOptions) -> MemoryUpdate:
    """Store a new version of a memory. Members that are not given do not change.

    Metadata and owners (user, agent, run, app) are merged, name by name. The old version stays in
    the history: it was right in its time. For a memory that never was right, use `correct`.

    Raises:
        RetiredMemoryError: If it has a newer version, which ``current`` names.
        UnknownMemoryError: If there is no such memory.
        SatchelError: As ``remember``.
    """
    edit = _edit(options)
    return changes.update(bank, options.memory, edit, reason=options.reason, actor=options.actor)


@operation(
    UpdateOptions,
    name="correct",
    example='satchel correct 0f3c12 "Ada is allergic to hazelnuts" --reason "misheard"',
    absent={"mcp": "A model has `update`."},
)
def correct(bank: OpenBank, options: UpdateOptions) -> MemoryUpdate:
    """Correct a memory that was wrong: like `update`, and the log says that it never was true.

    Raises:
        RetiredMemoryError: If it has a newer version, which ``current`` names.
        UnknownMemoryError: If there is no such memory.
        SatchelError: As ``remember``.
    """
    edit = _edit(options)
    return changes.correct(bank, options.memory, edit, reason=options.reason, actor=options.actor)


@operation(
    ForgetOptions,
    name="forget",
    example='satchel forget 0f3c12 7be901 --reason "moved away"',
    items="memories",
    for_models=FEW_FOR_MODELS,
)
def forget(bank: OpenBank, options: ForgetOptions) -> list[MemoryChange]:
    """Forget memories: they are no longer listed or recalled. Of several, all or none.

    Their text stays in the log for the history; `restore` reverses it, `erase` removes the text.

    Raises:
        UnknownMemoryError: If there is no such memory.
        RetiredMemoryError: If one has a newer version, which ``current`` names.
    """
    return changes.forget(
        bank,
        texts(options.memories),
        reason=options.reason,
        actor=options.actor,
        dry_run=options.dry_run,
    )


@operation(
    ForgetOptions,
    name="restore",
    example="satchel restore 0f3c12",
    items="memories",
    absent=_OWNER_ONLY,
)
def restore(bank: OpenBank, options: ForgetOptions) -> list[MemoryChange]:
    """Restore memories that were forgotten. Of several, all or none.

    A memory is named by its ID, an ID prefix, or words of its text that no other forgotten memory
    has.

    Raises:
        UnknownMemoryError: If there is no such memory.
        RetiredMemoryError: If another version of one is current.
    """
    return changes.restore(
        bank,
        texts(options.memories),
        reason=options.reason,
        actor=options.actor,
        dry_run=options.dry_run,
    )


@operation(ShowOptions, name="show", example="satchel show 0f3c12")
def show(bank: OpenBank, options: ShowOptions) -> MemoryDetails:
    """Show a memory, or any other record, with its state, versions and proof.

    Raises:
        UnknownMemoryError: If there is none.
    """
    return bank_details.show(bank, options.memory)


@operation(
    ShowOptions,
    name="show raw",
    absent={
        "cli": "`satchel show ID --raw` prints them.",
        "mcp": "Memories reach a model only by `recall`, `list`, `show` and `rehydrate`.",
    },
)
def raw(bank: OpenBank, options: ShowOptions) -> bytes:
    """Return the canonical bytes of a record, whose hash is its ID.

    Raises:
        UnknownMemoryError: If there is none.
    """
    return bank_details.raw(bank, options.memory)


@operation(
    HistoryOptions,
    name="history",
    example="satchel history 0f3c12",
    absent={"mcp": _FOR_MODELS},
)
def history(bank: OpenBank, options: HistoryOptions) -> History:
    """Show the versions of a memory, oldest first, and what each changed.

    Raises:
        UnknownMemoryError: If there is no such memory.
    """
    return bank_details.history(bank, options.memory, limit=options.limit)


@operation(
    ListOptions,
    name="list",
    example="satchel list --tag tea --since 2026-01-01",
    for_models=FEW_FOR_MODELS,
)
def list_memories(bank: OpenBank, options: ListOptions) -> Listing:
    """List memories, newest first.

    Raises:
        UsageError: If a time is not valid.
    """
    request = ListRequest(
        types=texts(options.type),
        tags=texts(options.tags),
        everything=options.all,
        **{
            name: getattr(options, name)
            for name in (
                *("kind", "key", *_OWNERS, "since", "until"),
                *("as_of", "sort", "oldest_first", "after", "limit"),
            )
        },
    )
    return listings.list_memories(bank, request, progress=options.progress)


@operation(
    LinksOptions,
    name="links",
    example="satchel links 0f3c12 --type similar_to --hops 2",
    absent={"mcp": _FOR_MODELS},
)
def links(bank: OpenBank, options: LinksOptions) -> Neighborhood:
    """Show what a memory is linked to, nearest first, each record once.

    A record that a link names and the bank lacks is a placeholder. Records that are quarantined are
    named without their text, and so are those that are not current, unless `all` is given.

    Raises:
        UnknownMemoryError: If there is no such record, and no link ends there.
    """
    return bank_links.links(
        bank,
        options.memory,
        types=texts(options.type),
        direction=options.direction,
        hops=options.hops,
        budget=options.budget,
        everything=options.all,
    )


@operation(
    GraphOptions,
    name="graph",
    example="bank.graph(limit=1000)",
    absent={
        "cli": "It is drawn on the web page; `links` and `path` follow links from a memory.",
        "mcp": _FOR_MODELS,
    },
)
def graph(bank: OpenBank, options: GraphOptions) -> MemoryGraph:
    """Return the memories of a bank and the links between them, as nodes and edges."""
    return bank_links.graph(bank, limit=options.limit, everything=options.all)


@operation(
    LinkPathOptions, name="path", example="satchel path 0f3c12 9b04ad", absent={"mcp": _FOR_MODELS}
)
def path(bank: OpenBank, options: LinkPathOptions) -> LinkPaths:
    """Show how two memories are connected: the shortest paths between them.

    Raises:
        UnknownMemoryError: If there is no such record, and no link ends there.
    """
    return bank_links.path(
        *(bank, options.start, options.end),
        types=texts(options.type),
        direction=options.direction,
        hops=options.hops,
        budget=options.budget,
        limit=options.limit,
    )


_MEMBERS = (
    *("type", "data", "tags", "kind", "subject", "predicate", "object", "metadata"),
    *("occurred_at", "valid_from", "valid_until", "expires_at", "salience"),
)


def members_of(
    options: MemberOptions, text: str | Entry | Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the members of a memory that options set, by name."""
    if isinstance(text, Entry):
        members = plain(text)
    else:
        members = {"text": text} if isinstance(text, str) else dict(text or {})
    if options.members is not UNSET:
        members |= options.members or {}
    for name in _MEMBERS:
        value = getattr(options, name)
        if value is not UNSET:
            members[name] = value
    if members.get("tags") is not None and options.tags is not UNSET:
        members["tags"] = list(texts(cast("Texts", options.tags)))
    if isinstance(members.get("metadata"), Mapping):
        members["metadata"] = dict(members["metadata"])
    owner = {name: getattr(options, name) for name in _OWNERS}
    owner = {name: value for name, value in owner.items() if value is not UNSET}
    if owner:
        members["scope"] = {**(members.get("scope") or {}), **owner}
    return members


def _edit(options: UpdateOptions) -> MemoryEdit:
    parents = options.parents
    return MemoryEdit(
        members=members_of(options, options.text),
        add_tags=texts(options.add_tags),
        drop_tags=texts(options.remove_tags),
        parents=None if parents is UNSET or parents is None else texts(parents),
    )
