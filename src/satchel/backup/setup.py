"""How backups are configured, and which lines of the configuration file turn them on."""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from satchel.bank.connections import shown_address
from satchel.bank.owner_rights import require_owner
from satchel.config.files import is_yaml, read_file
from satchel.config.options import NOT_FOR_MODELS
from satchel.config.settings import Settings
from satchel.errors import SatchelError
from satchel.ports.operations import Option, Options, operation

_EXAMPLE = "/mnt/backups"
_TABLE = "backup"


@dataclass(frozen=True, slots=True)
class SetupOptions(Options):
    """Where backups are to go."""

    destination: Annotated[
        str,
        Option(
            "Folder or object-store address for the lines to add, such as s3://BUCKET/PREFIX.",
            argument=True,
            max_length=1000,
        ),
    ] = _EXAMPLE


class BackupSetup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How backups are configured."""

    file: str
    """The configuration file, which need not exist."""

    file_exists: bool
    enabled: bool
    """Whether backups are expected on a schedule."""

    schedule: str
    destinations: list[str]
    """Without passwords."""

    under: str | None = None
    """The table that the file has already: the lines go under it."""

    lines: str
    """What to add to the file."""

    problem: str | None = None
    """Why what is configured cannot be used."""


@operation(
    SetupOptions,
    name="backup setup",
    example="satchel backup setup /mnt/backups",
    absent=NOT_FOR_MODELS,
)
def backup_setup(settings: Settings, options: SetupOptions) -> BackupSetup:
    """Show how backups are configured, and which lines to add to which file.

    Nothing is written: where backups go is decided by the operator of the machine.
    """
    require_owner(settings, "backup")
    wanted, destinations, problem = settings.options.backup, tuple[str, ...](), None
    try:
        destinations = wanted.destinations
    except SatchelError as error:
        problem = error.message
    has_table = _has_table(settings.file)
    return BackupSetup(
        file=str(settings.file),
        file_exists=settings.file.exists(),
        enabled=wanted.enabled,
        schedule=wanted.schedule,
        destinations=[shown_address(destination) for destination in destinations],
        under=(f"{_TABLE}:" if is_yaml(settings.file) else f"[{_TABLE}]") if has_table else None,
        lines=_lines(settings.file, options.destination, has_table=has_table),
        problem=problem,
    )


def _has_table(file: Path) -> bool:
    with suppress(SatchelError):
        return _TABLE in read_file(file).table
    return False


def _lines(file: Path, destination: str, *, has_table: bool) -> str:
    """Return the lines to add; a JSON string is one of TOML and of YAML as well."""
    text = json.dumps(destination)
    if is_yaml(file):
        head, lines = f"{_TABLE}:", ["  enabled: true", f"  destination: {text}"]
    else:
        head, lines = f"[{_TABLE}]", ["enabled = true", f"destination = {text}"]
    return "\n".join([*([] if has_table else [head]), *lines, ""])
