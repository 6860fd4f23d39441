"""Operations on whole agents: memory, conversations, files and settings."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from satchel.agents import agents, imports
from satchel.agents import export as exporting
from satchel.agents.agents import Agent, AgentLine
from satchel.agents.export import AgentExportOptions, AgentExportResult, agent_format
from satchel.agents.imports import AgentImportOptions, AgentImportResult, OnAgent
from satchel.agents.workspace import MIB, WorkspaceRules
from satchel.artifact.verification import Outcome
from satchel.bank.machine_keys import signer_of
from satchel.config.options import (
    THIS_MACHINE,
    DryRun,
    FailOnLoss,
    LossOptions,
    Overwrite,
    RecordProgress,
    ScrubSecrets,
    SigningOptions,
    TrustOptions,
    Unsigned,
)
from satchel.config.settings import Settings
from satchel.crypto.keys import SigningKey as Key
from satchel.model.values import now
from satchel.ports.operations import (
    Option,
    Options,
    PathText,
    ProgressStep,
    operation,
    step_callback,
    texts,
)
from satchel.recall.duplicates import NearDuplicateMode
from satchel.transfer.export_records import ExportOptions, is_signed
from satchel.transfer.import_results import ImportOptions

_HERE = {"http": THIS_MACHINE, "mcp": THIS_MACHINE}

AgentId = Annotated[str, Option("ID of the agent.", argument=True, metavar="AGENT")]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentListOptions(Options):
    """Nothing: all agents are listed."""


@dataclass(frozen=True, slots=True)
class AgentShowOptions(Options):
    """Which agent to show."""

    agent: AgentId


@dataclass(frozen=True, slots=True)
class AgentExportRequest(SigningOptions, LossOptions):
    """Which agent to export, where to, and how."""

    agent: AgentId
    output: Annotated[
        PathText | None,
        Option(
            "File to write; - for standard output. Default: AGENT-DATE.agent.json.",
            short="-o",
            metavar="FILE",
            values="file",
        ),
    ] = None
    _: KW_ONLY
    to: Annotated[
        Literal["aletheia", "pam", "pam_jsonl", "pam_cbor"] | None,
        Option("Format. Default: by the name of the file, otherwise aletheia (an agent file)."),
    ] = None
    full: Annotated[bool, Option("Include all conversations with all of their messages.")] = False
    include_binary: Annotated[bool, Option("Include the contents of binary files.")] = False
    include_secrets: Annotated[
        bool, Option("Include files that look like secrets, and secrets in settings.")
    ] = False
    max_file_size: Annotated[
        int, Option("Size of the largest file, in MiB.", minimum=1, maximum=8, metavar="MIB")
    ] = 4
    include_embeddings: Annotated[
        bool,
        Option(
            "Include vectors, if the format supports them.",
            flag="--include-embeddings/--no-include-embeddings",
        ),
    ] = False
    unsigned: Unsigned = False
    overwrite: Overwrite = False
    fail_on_loss: FailOnLoss = False
    scrub_secrets: ScrubSecrets = False
    dry_run: DryRun = False
    progress: RecordProgress = None


@dataclass(frozen=True, slots=True)
class AgentImportRequest(SigningOptions, LossOptions, TrustOptions):
    """Which file to import an agent from, and how."""

    file: Annotated[
        PathText,
        Option("Agent file, or sealed artifact of an agent.", argument=True, values="file"),
    ]
    _: KW_ONLY
    name: Annotated[
        str | None, Option("ID of the agent here. Default: as in the file.", max_length=200)
    ] = None
    on_conflict: Annotated[
        Literal["prompt", "rename", "overwrite", "merge", "fail"],
        Option("What to do if there is an agent with this ID. Without a terminal, prompt fails."),
    ] = "prompt"
    workspace: Annotated[
        PathText | None,
        Option("Folder for its files. Default: a folder in the home.", values="file"),
    ] = None
    near_duplicates: Annotated[
        Literal["off", "list", "skip", "merge"] | None,
        Option("What to do with memories that are nearly the same. Default: a merge skips them."),
    ] = None
    embed: Annotated[
        bool, Option("Compute the vectors of its memories.", flag="--embed/--no-embed")
    ] = True
    active_files: Annotated[
        bool,
        Option("Also write files that tools execute or obey: .git/hooks, .claude, .envrc."),
    ] = False
    scrub_secrets: ScrubSecrets = False
    dry_run: DryRun = False


@operation(
    AgentListOptions,
    name="agent list",
    example="satchel agent list",
    items="agents",
    absent=_HERE,
)
def list_agents(settings: Settings, options: AgentListOptions) -> list[AgentLine]:
    """List the agents of the configuration. Each is a table `[agents.<id>]`."""
    del options
    return agents.list_agents(settings)


@operation(AgentShowOptions, name="agent show", example="satchel agent show syn", absent=_HERE)
def show_agent(settings: Settings, options: AgentShowOptions) -> Agent:
    """Show what an agent consists of.

    Raises:
        UnknownAgentError: If there is no agent with this ID.
    """
    return agents.show_agent(settings, options.agent)


@operation(
    AgentExportRequest,
    name="agent export",
    example="satchel agent export syn -o syn.agent.json.gz",
    absent=_HERE,
)
def export_agent(
    settings: Settings, options: AgentExportRequest, *, owner: Callable[[], Key] | None = None
) -> AgentExportResult:
    """Export an agent to one file: memory, main conversation, files, settings.

    Of the main conversation, the messages since the last distillation are included, 500 at most;
    `--full` includes everything. The file itself reports what it does not include, and why. A name
    that ends in .gz is compressed; .pam is sealed and signed, with the same content.

    Raises:
        UnknownAgentError: If there is no agent with this ID.
        UnknownBankError: If its bank is missing.
        PathRefusedError: If its workspace is a link, or the file is outside of the roots.
        LossError: With ``fail_on_loss``, if something would be lost.
        TargetError: If the file cannot be written. No partial file remains.
    """
    output = None if options.output is None else Path(options.output)
    path = output or Path(f"{options.agent}-{now()[:10]}.agent.json")
    to = agent_format(path, options.to)
    key = None
    if is_signed(path, to) and not options.unsigned and not options.dry_run:
        key = signer_of(settings, options, owner)
    tell = step_callback(options.progress)
    export = ExportOptions(
        format=to,
        key=key,
        overwrite=options.overwrite,
        fail_on_loss=options.fail_on_loss,
        accept_loss=texts(options.accept_loss),
        receipt=None if options.receipt is None else Path(options.receipt),
        scrub_secrets=options.scrub_secrets,
        embeddings=options.include_embeddings,
        dry_run=options.dry_run,
        progress=None if tell is None else lambda *step: tell(ProgressStep(*step)),
    )
    rules = WorkspaceRules(
        binary=options.include_binary,
        secrets=options.include_secrets,
        file_bytes=options.max_file_size * MIB,
    )
    asked = AgentExportOptions(export=export, full=options.full, rules=rules)
    return exporting.export_agent(settings, options.agent, path, asked)


@operation(
    AgentImportRequest,
    name="agent import",
    example="satchel agent import syn.agent.json.gz --name syn-2",
    absent=_HERE,
)
def import_agent(
    settings: Settings,
    options: AgentImportRequest,
    *,
    owner: Callable[[], Key] | None = None,
    ask: Callable[[str], OnAgent] | None = None,
) -> AgentImportResult:
    """Import an agent from a file: its memory, conversations, files and settings.

    Everything gets new IDs here, so the agent that the file came from is never changed. All of it
    is read and checked first; `satchel undo` reverses all of it. The same file a second time
    changes nothing.

    Raises:
        AgentExistsError: If there is an agent with this ID, and the options do not resolve it.
        InputError: If the file cannot be read, or is not valid. Nothing is changed then.
        VerificationError: If a sealed file does not verify.
        UsageError: If the ID is not valid for an agent.
        TargetError: If something cannot be written; run it again.
    """
    near = options.near_duplicates
    import_options = AgentImportOptions(
        name=options.name,
        on_conflict=OnAgent(options.on_conflict),
        ask=ask,
        workspace=None if options.workspace is None else Path(options.workspace),
        near_duplicates=None if near is None else NearDuplicateMode(near),
        embed=options.embed,
        active_files=options.active_files,
        dry_run=options.dry_run,
        memory=ImportOptions(
            accept_loss=texts(options.accept_loss),
            receipt=None if options.receipt is None else Path(options.receipt),
            scrub_secrets=options.scrub_secrets,
            unsafe_accept=frozenset(map(Outcome, texts(options.unsafe_accept))),
            trusted_keys=texts(options.trusted_keys),
        ),
    )
    signer = partial(signer_of, settings, options, owner)
    return imports.import_agent(settings, Path(options.file), signer, import_options)
