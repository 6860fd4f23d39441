"""Operations on this machine: its installation, keys and store verified, its configuration."""

from dataclasses import dataclass
from typing import Annotated

import msgspec

from satchel.admin.bank_health import check_banks, repair_banks
from satchel.amplihack.agents import check_agents
from satchel.backup.health import check_backups
from satchel.bank.checks import Check, diagnose
from satchel.bank.owner_rights import require_owner
from satchel.config.options import OnProgress
from satchel.config.settings import Settings, Value
from satchel.files.health import check_files
from satchel.ports.operations import Option, Options, operation
from satchel.setup.watch import check_watching

_MACHINE = "It concerns this machine: its installation, keys and configuration."


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions(Options):
    """What to verify, and whether to repair it."""

    deep: Annotated[bool, Option("Report every problem of a bank, not only the first.")] = False
    repair: Annotated[
        bool,
        Option("Rebuild what can be derived. Damaged data is set aside, never deleted."),
    ] = False
    progress: OnProgress = None


@operation(
    DoctorOptions,
    name="doctor",
    example="satchel doctor --deep",
    items="checks",
    absent={"python": _MACHINE, "http": _MACHINE, "mcp": _MACHINE},
)
def doctor(settings: Settings, options: DoctorOptions) -> list[Check]:
    """Check the installation, the keys, the store and its banks. Only `--repair` changes anything.

    Each bank is compared with its log: records, columns, links, words, files. Exit status 1 if
    there is a problem.

    Args:
        settings: The surroundings.
        options: What to verify.
    """
    require_owner(settings, "doctor")
    checks = diagnose(settings) + check_agents(settings)
    if options.repair:
        checks += repair_banks(settings, progress=options.progress)
    checks += check_banks(settings, deep=options.deep, progress=options.progress)
    checks += check_files(settings)
    checks += check_backups(settings)
    checks += check_watching(settings)
    return checks


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of this machine, and where each comes from."""

    file: str
    values: list[Value]
    notes: list[str] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigShowOptions(Options):
    """No options."""


@operation(
    ConfigShowOptions,
    name="config show",
    example="satchel config show",
    absent={"python": _MACHINE, "http": _MACHINE, "mcp": _MACHINE},
)
def show_config(settings: Settings, _: ConfigShowOptions) -> Configuration:
    """Show every setting, its value, and where it comes from."""
    return Configuration(
        file=str(settings.file), values=list(settings.values), notes=list(settings.notes)
    )
