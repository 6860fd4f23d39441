"""``doctor`` and ``config show``: this machine verified, and its configuration."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from satchel.admin.bank_health import check_banks, repair_banks
from satchel.amplihack.agents import check_agents
from satchel.backup.destinations import check_backups
from satchel.bank.checks import Check, diagnose
from satchel.bank.connections import configured_store, store_exists
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import find_bank, open_bank_in
from satchel.config.options import OnProgress
from satchel.config.settings import Settings, Value
from satchel.errors import SatchelError, UnknownBankError, UsageError
from satchel.files import MemoryStore
from satchel.files.bank_files import compare
from satchel.files.catch_up import namespace_of
from satchel.files.paths import OWN, folder_of
from satchel.ports.operations import Option, Options, operation
from satchel.setup.watch import check_watching

_SHOWN = 3


def check_files(settings: Settings) -> Iterator[Check]:
    """Verify the memory files of each key on this machine.

    Opening a store also copies out what a killed program had committed and not copied out.
    """
    require_owner(settings, "doctor")
    try:
        folder = folder_of(namespace_of(settings).path("x"))
    except SatchelError as error:
        yield Check(name="memory files", state="problem", detail=error.message, hint=error.hint)
        return
    if folder is None or not folder.parent.is_dir():
        return
    for child in sorted(folder.parent.iterdir()):
        if (child / OWN).is_dir():
            yield from _check_folder(settings, child)


def _check_folder(settings: Settings, folder: Path) -> Iterator[Check]:
    name = f"files of {folder.name}"
    try:
        with MemoryStore(root=folder) as store:
            verification = store.verify_audit()
            if not verification.ok:
                yield Check(
                    name=name, state="problem", detail="; ".join(verification.problems[:_SHOWN])
                )
            for repair in store.repairs:
                yield Check(name=name, state="note", detail=repair)
            outside = store.unmanaged()
            if outside:
                yield Check(
                    name=name,
                    state="note",
                    detail=f"changed by another program: {_named(outside)}",
                    hint=shlex.join(["satchel", "file", "sync", "--file-store", folder.name]),
                )
            if verification.ok:
                yield Check(
                    name=name,
                    state="ok",
                    detail=f"{len(store.list_paths())} files, {verification.events} events",
                )
            yield from _check_log(settings, folder.name, store)
    except SatchelError as error:
        yield Check(name=name, state="problem", detail=str(error), hint=error.hint)


def _check_log(settings: Settings, key: str, store: MemoryStore) -> Iterator[Check]:
    if not store_exists(settings.store):
        return
    with configured_store(settings, read_only=True) as banks:
        try:
            find_bank(banks, key)
        except (UnknownBankError, UsageError):
            return
        comparison = compare(open_bank_in(settings, banks, key), store)
    if comparison.same:
        yield Check(name=f"log of {key}", state="ok", detail="matches the files")
        return
    parts = [
        f"{label}: {_named(paths)}"
        for label, paths in zip(("not logged", "logged otherwise", "gone"), comparison, strict=True)
        if paths
    ]
    yield Check(
        name=f"log of {key}",
        state="note",
        detail="; ".join(parts),
        hint=shlex.join(["satchel", "file", "sync", "--file-store", key]),
    )


def _named(paths: tuple[str, ...]) -> str:
    more = f" and {len(paths) - _SHOWN:,} more" if len(paths) > _SHOWN else ""
    return ", ".join(paths[:_SHOWN]) + more


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
