"""Options of the operations on backups."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated

from satchel.backup.destinations import parse_moment
from satchel.config.options import (
    SERVER,
    SERVER_KEYS,
    CoSigningOptions,
    DryRun,
    OnProgress,
    OwnerOptions,
)
from satchel.ports.operations import Absent, Option, Options, PathText

_WHO = Absent(why="The operator decides on the server's machine which keys it trusts.")

Destination = Annotated[
    PathText | None,
    Option(
        "Folder or object-store address of the backup. Default: the first configured one.",
        http=SERVER,
    ),
]
Destinations = Annotated[
    PathText | Sequence[PathText],
    Option(
        "Folder or object-store address for backups. Default: as configured. Repeatable.",
        flag="--destination",
        values="destination",
        http=SERVER,
    ),
]
BackupName = Annotated[
    str | None,
    Option(
        "Backup to use: its ID or a prefix of it. Default: the newest.",
        argument=True,
        max_length=200,
    ),
]
BackupNames = Annotated[
    str | Sequence[str],
    Option(
        "Backups to verify: IDs or prefixes. Default: the newest.", argument=True, max_items=1000
    ),
]
Banks = Annotated[
    str | Sequence[str],
    Option(
        "Only this bank: its name or ID. Repeatable.",
        flag="--bank",
        values="bank",
        max_items=10_000,
    ),
]
Agents = Annotated[
    str | Sequence[str],
    Option(
        "Only this agent: its bank and its files. Repeatable.",
        flag="--agent",
        http=Absent(why="Agents are folders of the server's machine."),
    ),
]
TrustedKeys = Annotated[
    str | Sequence[str],
    Option("Key to trust for this command, as did:key. Repeatable.", flag="--trust-key", http=_WHO),
]


@dataclass(frozen=True, slots=True)
class BackupOptions(Options):
    """What to back up, and to which destinations."""

    _: KW_ONLY
    destinations: Destinations = ()
    banks: Banks = ()
    agents: Agents = ()
    files: Annotated[
        bool | None,
        Option(
            "Include memory files and agents' files. Default: as configured.",
            flag="--files/--no-files",
        ),
    ] = None
    prune: Annotated[
        bool,
        Option("Remove older backups that no retention rule keeps.", flag="--prune/--no-prune"),
    ] = True
    full: Annotated[
        bool, Option("Write everything again, even what earlier backups already hold.")
    ] = False
    encrypt_to: Annotated[
        str | Sequence[str],
        Option(
            "Encrypt to this recipient: age1..., a file of recipients, or an identity stored here."
            " Default: as configured. Repeatable.",
            http=SERVER,
        ),
    ] = ()
    unencrypted: Annotated[
        bool,
        Option("Do not encrypt, even if earlier backups are encrypted.", http=SERVER),
    ] = False
    progress: OnProgress = None


@dataclass(frozen=True, slots=True)
class BackupListOptions(Options):
    """Which backups to list."""

    _: KW_ONLY
    destinations: Destinations = ()


@dataclass(frozen=True, slots=True)
class BackupVerifyOptions(Options):
    """Which backups to verify."""

    backups: BackupNames = ()
    _: KW_ONLY
    destinations: Destinations = ()
    all: Annotated[bool, Option("Verify all backups, not only the newest.")] = False
    progress: OnProgress = None


@dataclass(frozen=True, slots=True)
class RestoreOptions(OwnerOptions):
    """What to restore, and to which store."""

    backup: BackupName = None
    _: KW_ONLY
    destination: Destination = None
    at: Annotated[
        str | None,
        Option(
            "Restore the state at this time, also between two backups: 2026-01-31T12:00:00Z.",
            parse=parse_moment,
            max_length=64,
            examples=["2026-01-31T12:00:00Z"],
        ),
    ] = None
    banks: Banks = ()
    agents: Agents = ()
    workspace: Annotated[
        PathText | None,
        Option("Folder for the agent's files. The configuration is not changed.", http=SERVER),
    ] = None
    session: Annotated[
        str | None,
        Option("Only this conversation of the bank: its ID, a prefix, or its name."),
    ] = None
    into: Annotated[
        PathText | None,
        Option("Another store to restore into, created if missing.", http=SERVER),
    ] = None
    overwrite: Annotated[bool, Option("Replace what exists. It is backed up first.")] = False
    accept_loss: Annotated[
        bool, Option("Accept that records this machine has seen since are lost. Signed as owner.")
    ] = False
    files: Annotated[
        bool,
        Option("Restore memory files and agents' files, too.", flag="--files/--no-files"),
    ] = True
    trusted_keys: TrustedKeys = ()
    allow_unsigned: Annotated[
        bool,
        Option(
            "Restore although more owners must sign. The bank cannot be read until they have.",
            cli=Absent(why="--propose does it."),
            http=SERVER_KEYS,
        ),
    ] = False
    dry_run: DryRun = False
    progress: OnProgress = None


@dataclass(frozen=True, slots=True)
class PruneOptions(Options):
    """Which backups to keep."""

    _: KW_ONLY
    destinations: Destinations = ()
    days: Annotated[
        int | None,
        Option("Keep the backups of the last N days. Default: as configured.", minimum=0),
    ] = None
    keep_last: Annotated[
        int | None, Option("Keep the last N backups. Default: as configured.", minimum=0)
    ] = None
    remove_erased: Annotated[
        bool | None,
        Option(
            "Remove backups that hold what has been erased since. Default: as configured.",
            flag="--remove-erased/--keep-erased",
        ),
    ] = None
    dry_run: DryRun = False


@dataclass(frozen=True, slots=True)
class DrillOptions(CoSigningOptions):
    """The backup to test."""

    backup: BackupName = None
    _: KW_ONLY
    destination: Destination = None
    queries: Annotated[
        int, Option("Number of queries to compare for each bank.", minimum=0, maximum=1000)
    ] = 10
    trusted_keys: TrustedKeys = ()
    progress: OnProgress = None
