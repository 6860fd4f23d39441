"""The configuration of a bank: show, change, export and import it.

A bank stores its settings in its log, as ``config`` records that need no owner's signature. So they
are copied with the log, and their history is kept. The configuration file of a machine takes
precedence over them. Source: docs/decisions/0024.
"""

import io
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import (
    CONFIG_MARK,
    CONFIG_VERSION,
    SETTINGS,
    OpenBank,
    effective_settings,
    file_settings,
    merge_settings,
    open_bank,
    parse_bank_config,
    profile_of,
    set_members,
)
from satchel.config.files import nearest
from satchel.config.options import (
    NOT_FOR_MODELS,
    RESPONSE,
    BankName,
    Overwrite,
    PathOptions,
    PathPermission,
    file_to_read,
    file_to_write,
)
from satchel.config.settings import Settings
from satchel.config.tables import BankSettings
from satchel.crypto.canonical import canonical
from satchel.crypto.json_reader import JsonReader
from satchel.crypto.sealed_records import seal
from satchel.errors import LimitError, MalformedError, UsageError
from satchel.ledger.view import View
from satchel.model.records import Config
from satchel.model.values import now, resolved
from satchel.ports.operations import NoOptions, Option, Options, PathText, operation
from satchel.runtime.files import OpenFile, open_input
from satchel.runtime.output import Outlet

MOST_BYTES = 2**18
"""Most bytes of a document."""

_FILES = {**NOT_FOR_MODELS, "http": "GET and PATCH of the configuration have its values."}


class BankConfigReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The configuration of a bank."""

    bank: str
    name: str | None = None
    settings: dict[str, Any] = {}
    """The effective settings."""

    origins: dict[str, str] = {}
    """Their origins: ``file``, ``bank``, or ``profile NAME``."""

    document: dict[str, Any] = {}
    """The document to export, with unknown members."""

    path: str | None = None
    """The file that was read."""

    output: str | None = None
    """The file that was written."""

    is_changed: bool = False
    """Whether something was written to the bank."""


@operation(
    NoOptions,
    name="bank config show",
    example="satchel bank config show assistant",
    absent=NOT_FOR_MODELS,
)
def show_config(bank: OpenBank, _: NoOptions) -> BankConfigReport:
    """Show the effective configuration of a bank, and where each value comes from."""
    require_owner(bank.settings, "bank settings")
    with bank.ledger.reading() as view:
        return _report(bank, view)


@dataclass(frozen=True, slots=True)
class BankConfigSetOptions(Options):
    """Which values to change."""

    values: Annotated[
        Mapping[str, Any],
        Option(
            "NAME=VALUE; without a value the setting is removed. Repeatable.",
            argument=True,
            metavar="NAME=VALUE",
            examples=[{"recall_limit": 5}],
        ),
    ]


@operation(
    BankConfigSetOptions,
    name="bank config set",
    example="satchel bank config set assistant scrub_secrets=true recall_limit=20",
    absent=NOT_FOR_MODELS,
)
def set_config(bank: OpenBank, options: BankConfigSetOptions) -> BankConfigReport:
    """Change settings that a bank carries in its log, also into copies of it.

    Args:
        bank: The bank, open for writing.
        options: The values by name; null removes one.

    Raises:
        UsageError: If there is no such setting, or it cannot have the value.
    """
    values = options.values
    require_owner(bank.settings, "bank settings")
    known = BankSettings.__struct_fields__
    unknown = next((name for name in values if name not in known), None)
    if unknown is not None:
        what = f"unknown setting {unknown!r}"
        raise UsageError(what, field=unknown, hint=nearest(unknown, known))
    with bank.ledger.reading() as view:
        document = bank.document(view) or {CONFIG_MARK: CONFIG_VERSION}
    settings = {**document.get("settings", {}), **values}
    settings = {name: value for name, value in settings.items() if value is not None}
    try:
        msgspec.convert(
            {name: settings[name] for name in values if name in settings}, resolved(BankSettings)
        )
    except msgspec.ValidationError as error:
        raise UsageError(str(error), field=", ".join(values)) from None
    return _log_document(bank, {**document, "settings": settings})


@dataclass(frozen=True, slots=True)
class BankConfigExportOptions(PathOptions):
    """Which bank's configuration to write, and where to."""

    bank: BankName
    output: Annotated[
        PathText,
        Option(
            "File to write; - for standard output.",
            argument=True,
            metavar="FILE",
            values="file",
            http=RESPONSE,
        ),
    ]
    _: KW_ONLY
    overwrite: Overwrite = False


@operation(
    BankConfigExportOptions,
    name="bank config export",
    example="satchel bank config export assistant assistant.config.json",
    absent=_FILES,
)
def export_config(
    settings: Settings,
    options: BankConfigExportOptions,
    *,
    permission: PathPermission | None = None,
) -> BankConfigReport:
    """Write the effective configuration of a bank to a JSON file, with its profile.

    Args:
        settings: Where the bank is.
        options: Which bank, and where to.
        permission: Where the path may lead; as the options say by default.

    Raises:
        ContainmentError: If the path is outside the allowed folders.
        TargetError: If it cannot be written.
    """
    allowed = permission or options.permission
    with (
        file_to_write(settings, options.output, allowed) as outlet,
        open_bank(settings, options.bank) as bank,
    ):
        done = write_config(bank, outlet, overwrite=options.overwrite)
    return msgspec.structs.replace(done, output=str(options.output), path=None)


@dataclass(frozen=True, slots=True)
class BankConfigImportOptions(PathOptions):
    """Which bank to configure, and by which file."""

    bank: BankName
    file: Annotated[
        PathText,
        Option(
            "File that `bank config export` wrote.", argument=True, metavar="FILE", values="file"
        ),
    ]


@operation(
    BankConfigImportOptions,
    name="bank config import",
    example="satchel bank config import assistant assistant.config.json",
    absent=_FILES,
)
def import_config(
    settings: Settings,
    options: BankConfigImportOptions,
    *,
    permission: PathPermission | None = None,
) -> BankConfigReport:
    """Apply an exported configuration to a bank. Members that are unknown here are kept.

    Args:
        settings: Where the bank is.
        options: Which bank, and which file.
        permission: Where the path may lead; as the options say by default.

    Raises:
        ContainmentError: If the path is outside the allowed folders.
        UnreadableError: If it cannot be read.
        MalformedError: If it is no such file, or a member has the wrong shape.
    """
    with (
        file_to_read(settings, options.file, permission or options.permission) as source,
        open_bank(settings, options.bank, writes=True) as bank,
    ):
        done = apply_config(bank, source)
    return msgspec.structs.replace(done, path=str(options.file))


def write_config(
    bank: OpenBank, path: Path | Outlet, *, overwrite: bool = False
) -> BankConfigReport:
    """Write the configuration of a bank to a file.

    The document has the effective settings and the profile, as canonical JSON. Imported into
    another bank and exported again, it is the same, byte for byte.

    Raises:
        TargetError: If it cannot be written.
    """
    require_owner(bank.settings, "bank settings")
    with bank.ledger.reading() as view:
        report = _report(bank, view)
    with (
        file_to_write(bank.settings, path) as outlet,
        outlet.writing(overwrite=overwrite) as stream,
    ):
        stream.write(canonical(report.document) + b"\n")
    return msgspec.structs.replace(report, path=str(path))


def apply_config(bank: OpenBank, path: Path | OpenFile) -> BankConfigReport:
    """Set the configuration of a bank from a document; unknown members are kept.

    Raises:
        UnreadableError: If it cannot be read.
        MalformedError: If it is not such a document, or a member has the wrong type.
        LimitError: If it is too large.
    """
    require_owner(bank.settings, "bank settings")
    with file_to_read(bank.settings, path) as file, open_input(file) as stream:
        data = stream.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise LimitError(f"a bank configuration can have at most {MOST_BYTES:,} bytes")
        document = _value(data, str(path))
        if not isinstance(document, dict):
            raise MalformedError("not a bank configuration")
        parse_bank_config(document)
    done = _log_document(bank, document)
    return msgspec.structs.replace(done, path=str(path))


def _value(data: bytes, name: str) -> Any:
    reader = JsonReader(io.BytesIO(data), name)
    value = reader.value()
    reader.end()
    return value


def _log_document(bank: OpenBank, document: dict[str, Any]) -> BankConfigReport:
    """Log a document, unless the bank has the same."""
    data = canonical(document)
    if len(data) > MOST_BYTES:
        raise LimitError(f"a bank configuration can have at most {MOST_BYTES:,} bytes")
    with bank.ledger.reading() as view:
        is_changed = canonical(bank.document(view)) != data
    if is_changed:
        payload = {"bank": bank.id, "document": document}
        limits = bank.settings.options.limits
        record = seal(Config(action=SETTINGS, payload=payload, at=now()), limits=limits)
        bank.ledger.append([record])
    return msgspec.structs.replace(show_config(bank), is_changed=is_changed)


def _report(bank: OpenBank, view: View) -> BankConfigReport:
    options, own = bank.settings.options, bank.own_config(view)
    document = bank.document(view)
    carried = own.settings if own is not None else BankSettings()
    here = file_settings(options, bank.id, bank.name)
    settings = effective_settings(options, bank.id, bank.name, own)
    profile = profile_of(options, settings.profile, own)
    sources = [(f"profile {settings.profile}", profile), ("bank", carried), ("file", here)]
    origins = {name: where for where, each in sources if each for name in set_members(each)}
    if settings.profile is not None:
        origins.setdefault("profile", "file")
    return BankConfigReport(
        bank=bank.id,
        name=bank.name,
        settings=set_members(settings),
        origins=dict(sorted(origins.items())),
        document=_document(document, merge_settings(here, carried), settings.profile, profile),
    )


def _document(
    carried: dict[str, Any], settings: BankSettings, name: str | None, profile: Any
) -> dict[str, Any]:
    """Return a document of the effective settings, with the unknown members of the bank."""
    document: dict[str, Any] = {**carried, CONFIG_MARK: CONFIG_VERSION}
    held = set_members(settings) | ({"profile": name} if name is not None else {})
    previous = document.get("settings", {})
    if held or previous:
        document["settings"] = {**previous, **held}
    if profile is not None:
        before = document.get("profile") or {}
        unknown = before if before.get("name") == name else {}
        inner = {**unknown.get("settings", {}), **set_members(profile)}
        document["profile"] = {**unknown, "name": name, "settings": inner}
    return document
