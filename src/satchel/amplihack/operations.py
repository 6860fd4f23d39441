"""Operations on amplihack's agents: the commands of its page, and the hooks of agent hosts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from satchel.amplihack import hosts, transfer
from satchel.amplihack.agents import OwnerKey
from satchel.amplihack.hosts import BUDGET, HookRequest, Start, Stop
from satchel.amplihack.roles import (
    PATTERN,
    CleanResult,
    chosen_settings,
    clean,
    matching,
    open_agents,
)
from satchel.amplihack.sessions import MemoryRecord, SessionSummary
from satchel.amplihack.transfer import ExportResult, ImportResult, TransferOptions
from satchel.config.options import (
    DryRun,
    FailOnLoss,
    LossOptions,
    Overwrite,
    ScrubSecrets,
    SigningKey,
    SkipBad,
)
from satchel.config.settings import Settings
from satchel.errors import UsageError
from satchel.ports.operations import Option, Options, PathText, operation, texts
from satchel.transfer.export_records import ExportOptions
from satchel.transfer.import_results import ConflictPolicy, ImportOptions

_PAGE = {
    "python": "`satchel.amplihack` has the classes of amplihack's page.",
    "http": "amplihack's stores are files of the machine that its agents run on.",
    "mcp": "amplihack's stores are files of the machine that its agents run on.",
}
_HOSTS = dict.fromkeys(
    ("python", "http", "mcp"), "Agent hosts run it as a command, by their hooks."
)
_AGENTS = 2
"""Largest depth of the tree at which agents are not shown."""

MemoryType = Literal["conversation", "decision", "pattern", "context", "learning", "artifact"]

Backend = Annotated[
    str | None,
    Option("Kind of store: sqlite, graph-db, kuzu or postgres. Default: detected."),
]
Agent = Annotated[str, Option("Agent. Its bank has the same name.")]
HookBank = Annotated[
    str | None,
    Option("Bank name, ID or unique ID prefix. Default: the default bank.", values="bank"),
]
HookAgent = Annotated[
    str | None,
    Option(
        "amplihack agent, instead of a bank: its bank has the same name, and is created when"
        " needed."
    ),
]
Shape = Annotated[
    Literal["json", "raw-db"],
    Option("Format: json, or raw-db (amplihack's SQLite database).", short="-f"),
]
StoragePath = Annotated[
    PathText | None,
    Option(
        "Folder in amplihack's layout, a file for each agent. Default: the store.", values="file"
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeOptions(Options):
    """Options of ``show_tree``."""

    session: Annotated[str | None, Option("Only this session.")] = None
    type: Annotated[MemoryType | None, Option("Only memories of this type.")] = None
    depth: Annotated[
        int | None, Option("1: sessions; 2: and their memories; from 3 on: and agents.", minimum=1)
    ] = None
    backend: Backend = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanOptions(Options):
    """Options of ``clean_sessions``."""

    pattern: Annotated[
        str,
        Option("Names of sessions: * matches any text, ? one character.", max_length=200),
    ] = PATTERN
    no_dry_run: Annotated[bool, Option("Forget the sessions. Default: only list them.")] = False
    confirm: Annotated[bool, Option("Do not ask for confirmation.")] = False
    backend: Backend = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferOutOptions(LossOptions):
    """Options of ``export_agent``."""

    agent: Agent
    output: Annotated[
        PathText,
        Option("File to write; - for standard output.", short="-o", metavar="FILE", values="file"),
    ]
    format: Shape = "json"
    backend: Backend = None
    storage_path: StoragePath = None
    overwrite: Overwrite = False
    fail_on_loss: FailOnLoss = False
    scrub_secrets: ScrubSecrets = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferInOptions(LossOptions):
    """Options of ``import_agent``."""

    agent: Agent
    input: Annotated[PathText, Option("File to read.", short="-i", metavar="FILE", values="file")]
    format: Shape = "json"
    merge: Annotated[bool, Option("Add what is new. Default: replace what the agent has.")] = False
    storage_path: StoragePath = None
    backend: Backend = None
    on_conflict: Annotated[
        Literal["skip", "overwrite", "rename", "error"] | None,
        Option("With --merge: what to do with another version of what the agent has."),
    ] = None
    any_version: Annotated[
        bool, Option("Read an unknown version as if it were 1.1.", flag="--unknown-version")
    ] = False
    skip_bad: SkipBad = False
    scrub_secrets: ScrubSecrets = False
    dry_run: DryRun = False
    signing_key: SigningKey = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookStartOptions(Options):
    """Options of ``start_session``."""

    bank: HookBank = None
    agent: HookAgent = None
    budget: Annotated[int, Option("Maximum number of tokens.", minimum=1)] = BUDGET
    backend: Backend = None
    request: HookRequest | None = None
    """The host's request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookStopOptions(Options):
    """Options of ``stop_session``."""

    bank: HookBank = None
    agent: HookAgent = None
    backend: Backend = None
    request: HookRequest | None = None
    """The host's request."""


class SessionBranch(msgspec.Struct, frozen=True, kw_only=True):
    """A session with its memories."""

    session: SessionSummary
    memories: Sequence[MemoryRecord]


class AgentBranch(msgspec.Struct, frozen=True, kw_only=True):
    """An agent, and how many memories it has."""

    agent: str
    memories: int


class MemoryTree(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The sessions of all agents, with their memories."""

    backend: str
    sessions: list[SessionBranch]
    agents: list[AgentBranch]
    depth: int | None = None
    """Depth to print; None for everything."""


@operation(
    TreeOptions,
    name="amplihack tree",
    example="satchel amplihack tree --type learning",
    absent=_PAGE,
)
def show_tree(settings: Settings, options: TreeOptions) -> MemoryTree:
    """Show the sessions of all agents with their memories, and how many each agent has."""
    depth = options.depth
    with open_agents(chosen_settings(options.backend, settings), read_only=True) as agents:
        rows = agents.load_session_rows(options.session, options.type)
        counts = agents.collect_agent_counts() if depth is None or depth > _AGENTS else []
        return MemoryTree(
            backend=agents.backend_name(),
            sessions=[SessionBranch(session=one, memories=memories) for one, memories in rows],
            agents=[AgentBranch(agent=agent, memories=number) for agent, number in counts],
            depth=depth,
        )


@operation(
    CleanOptions,
    name="amplihack clean",
    example='satchel amplihack clean --pattern "test_*" --no-dry-run --confirm',
    absent=_PAGE,
)
def clean_sessions(
    settings: Settings,
    options: CleanOptions,
    *,
    agree: Callable[[Sequence[SessionSummary]], bool] | None = None,
) -> CleanResult:
    """Forget the sessions whose names match. Without `--no-dry-run` they are only listed.

    What was forgotten is no longer recalled; `satchel prune` erases its bytes.

    Raises:
        UsageError: If it was not confirmed.
    """
    chosen = chosen_settings(options.backend, settings)
    with open_agents(chosen, read_only=not options.no_dry_run, makes=False) as agents:
        sessions = matching(agents, options.pattern)
        if not options.no_dry_run or not sessions:
            return CleanResult(pattern=options.pattern, matched=sessions)
        if not options.confirm:
            if agree is None:
                raise UsageError(
                    f"{len(sessions):,} sessions would be forgotten, and there is no terminal to "
                    "confirm it",
                    field="confirm",
                    hint="Add --confirm.",
                )
            if not agree(sessions):
                return CleanResult(pattern=options.pattern, matched=sessions)
        return clean(agents, options.pattern, sessions)


@operation(
    TransferOutOptions,
    name="amplihack export",
    example="satchel amplihack export --agent ops-agent --output ops-agent.json",
    absent=_PAGE,
)
def export_agent(
    settings: Settings, options: TransferOutOptions, *, owner: OwnerKey
) -> ExportResult:
    """Export an agent's facts, episodes and the edges between them to a file of amplihack.

    JSON is amplihack's format 1.1, as its strict reader requires. The file is read back and
    compared. What it cannot hold is counted and named; exit status 1, unless `--accept-loss` names
    it. An agent that does not exist is an error, and no file is written.

    Raises:
        UnknownBankError: If the agent does not exist.
        EmptyInputError: If it has no memory.
        LossError: With ``fail_on_loss``, if something would be lost.
        TargetError: If the file cannot be written; no part of it remains then.
    """
    request = TransferOptions(
        format=options.format,
        storage_path=_path(options.storage_path),
        output=ExportOptions(
            overwrite=options.overwrite,
            fail_on_loss=options.fail_on_loss,
            accept_loss=texts(options.accept_loss),
            receipt=_path(options.receipt),
            scrub_secrets=options.scrub_secrets,
        ),
    )
    chosen = chosen_settings(options.backend, settings)
    return transfer.export_agent(chosen, options.agent, Path(options.output), owner, request)


@operation(
    TransferInOptions,
    name="amplihack import",
    example="satchel amplihack import --agent ops-agent --input ops-agent.json --merge",
    absent=_PAGE,
)
def import_agent(
    settings: Settings, options: TransferInOptions, *, owner: OwnerKey
) -> ImportResult:
    """Import an agent's facts, episodes and the edges between them from a file of amplihack.

    Reads versions 1.0 and 1.1 of amplihack's JSON, agent-core's files, and amplihack's SQLite
    database. The memory is imported into this agent, whatever agent the file names. Merging the
    same file again changes nothing; another version of a node or an edge is a conflict, and is
    reported. Edges that lead nowhere are skipped and named.

    Raises:
        UsageError: If a database is to be merged.
        InputError: If the file is not valid. Nothing is changed then.
    """
    how = options.on_conflict
    request = TransferOptions(
        format=options.format,
        storage_path=_path(options.storage_path),
        merge=options.merge,
        options=ImportOptions(
            on_conflict=None if how is None else ConflictPolicy(how),
            any_version=options.any_version,
            skip_bad=options.skip_bad,
            scrub_secrets=options.scrub_secrets,
            dry_run=options.dry_run,
            accept_loss=texts(options.accept_loss),
            receipt=_path(options.receipt),
        ),
    )
    chosen = chosen_settings(options.backend, settings)
    result = transfer.import_agent(chosen, options.agent, Path(options.input), owner, request)
    return msgspec.structs.replace(result, dry_run=options.dry_run)


@operation(
    HookStartOptions,
    name="hook session-start",
    example="""echo '{"session_id": "s2"}' | satchel hook session-start --agent builder""",
    absent=_HOSTS,
)
def start_session(settings: Settings, options: HookStartOptions) -> Start:
    """Print memories of earlier sessions for a new session, in the form that hosts read.

    They are read from the bank that `satchel mcp` serves. With `--json`, the memories themselves
    are printed. Nothing is written.

    Raises:
        UsageError: If the name is not valid for an agent, or an agent and a bank are named.
    """
    chosen = chosen_settings(options.backend, settings)
    request = options.request or HookRequest()
    return hosts.start_session(
        chosen, request, options.agent, bank=options.bank, budget=options.budget
    )


@operation(
    HookStopOptions,
    name="hook session-stop",
    example="""echo '{"session_id": "s1", "output": "Redis needs 4 GB"}' |"""
    " satchel hook session-stop",
    absent=_HOSTS,
)
def stop_session(settings: Settings, options: HookStopOptions, *, owner: OwnerKey) -> Stop:
    """Store findings and decisions of a session. Its transcript is read; secrets are replaced.

    They are stored in the bank that `satchel mcp` serves; known ones are not stored again.
    The transcript must be below the home directory, the session's own folder, or a folder of
    SATCHEL_PORTABILITY_ROOTS.

    Raises:
        ContainmentError: If the transcript is elsewhere.
        UnreadableError: If it cannot be read; nothing is stored then.
    """
    chosen = chosen_settings(options.backend, settings)
    request = options.request or HookRequest()
    return hosts.stop_session(chosen, request, options.agent, owner, bank=options.bank)


def _path(text: PathText | None) -> Path | None:
    return None if text is None else Path(text)
