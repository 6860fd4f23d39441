"""What callers of the Python API ask for, as the actions take it."""

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from satchel.actions.config import Settings
from satchel.actions.encrypting.identities import lock_for
from satchel.actions.importing.imported import Imported, ImportOptions, Owners
from satchel.actions.inferring.duplicates import NearDuplicates
from satchel.actions.moving.connecting import connector_for
from satchel.actions.moving.exported import Export, ExportOptions, is_signed, selection
from satchel.actions.opened import OpenBank
from satchel.actions.operating.providing import LiveBank, export_from, import_into
from satchel.actions.paths.permission import (
    Permission,
    file_to_read,
    file_to_write,
    require_uncontained,
)
from satchel.actions.signing import signing_key
from satchel.api.arguments import FilePath
from satchel.api.telling import teller
from satchel.disk.outlet import Outlet
from satchel.disk.reading import OpenFile
from satchel.errors import SatchelError, UsageError
from satchel.jobs.steps import Step
from satchel.ports.place import Place
from satchel.ports.registry import formats
from satchel.seal.signing.key import SigningKey
from satchel.seal.verify.verification import Outcome
from satchel.transfer.incoming.planned import OnConflict
from satchel.transfer.writing import chosen_format

Options = Mapping[str, Any]


def known(verb: str, said: Any, arguments: Any) -> dict[str, Any]:
    """Return arguments, once it is clear that there are such: else they would become members."""
    for name in said:
        if name not in arguments.__optional_keys__:
            raise TypeError(f"{verb}() got an unexpected keyword argument {name!r}")
    return dict(said)


def permission_of(options: dict[str, Any]) -> Permission:
    """Take what a call says of where its path may lead out of its arguments."""
    names = ("allowed_roots", "allow_uncontained")
    return Permission(**{name: options.pop(name) for name in names if name in options})


def export_as_asked(bank: OpenBank | LiveBank, path: FilePath | Outlet, wanted: Options) -> Export:
    """Export a bank, or what a provider has of it, as ``Bank.export`` is asked to."""
    options = dict(wanted)
    for name in ("entities", "embeddings"):
        if f"include_{name}" in options:
            options[name] = options.pop(f"include_{name}")
    permission = permission_of(options)
    _judge_receipt(bank.settings, options, permission)
    if _is_live(path, options.get("format")):
        require_uncontained(bank.settings, str(path), permission)
        return _export(bank, Path(str(path)), options)
    with file_to_write(bank.settings, path, permission) as output:
        return _export(bank, output, options)


def is_earlier_export(output: Outlet, name: str | None) -> bool:
    """Tell whether there is a file at an output in the very format that is going to be written."""
    with suppress(SatchelError):
        wanted, _ = chosen_format(output.path, name)
        with output.earlier() as file:
            return formats.recognise(Place(output.path, held=file)) == wanted
    return False


def _is_live(path: FilePath | Outlet | OpenFile, name: str | None) -> bool:
    is_open = isinstance(path, Outlet | OpenFile)
    return not is_open and connector_for(str(path), name) is not None


def _judge_receipt(settings: Settings, options: dict[str, Any], permission: Permission) -> None:
    """Hold the path of a receipt's copy to what holds for the other one."""
    if options.get("receipt") is not None:
        with file_to_write(settings, options["receipt"], permission):
            pass


def _export(bank: OpenBank | LiveBank, output: Outlet | Path, options: dict[str, Any]) -> Export:
    key_name, passphrase = options.pop("key_name", None), options.pop("passphrase", None)
    sign = options.pop("sign", True) and not options.get("dry_run", False)
    names = ("since", "until", "owner", "as_of")
    chosen = selection(
        components=tuple(options.pop("components", ())),
        tags=tuple(options.pop("tags", ())),
        **{name: options.pop(name, None) for name in names},
    )
    key = None
    if is_signed(Path(str(output)), options.get("format")) and sign:
        key, _ = signing_key(bank.settings, key_name, passphrase=passphrase)
    tell = teller(options.pop("progress", None))
    options["accept_loss"] = tuple(options.pop("accept_loss", ()))
    options["receipt"] = _path(options.pop("receipt", None))
    options["lock"] = lock_for(
        bank.settings, options.pop("encrypt_to", ()), options.pop("file_passphrase", None)
    )

    def told(done: int, total: int, record: str | None) -> None:
        if tell is None:
            return
        try:
            tell(Step(done, total, record))
        except Exception as error:
            error.add_note("Nothing was written.")
            raise

    asked = ExportOptions(selection=chosen, key=key, progress=told, **options)
    return export_from(bank, output, asked)


def _path(value: str | Path | None) -> Path | None:
    return None if value is None else Path(value)


def import_as_asked(
    settings: Settings,
    path: FilePath | OpenFile,
    into: tuple[str, Owners],
    wanted: Options,
) -> Imported:
    """Import a file as ``Bank.import_`` is asked to, into a bank that is made if need be.

    With a provider set, into that.
    """
    options = dict(wanted)
    permission = permission_of(options)
    _judge_receipt(settings, options, permission)
    name = options.get("from_")
    with ExitStack() as held:
        if options.get("sidecar") is not None:
            sidecar = file_to_read(settings, options["sidecar"], permission)
            options["sidecar"] = held.enter_context(sidecar)
        asked = _import_options(options)
        if _is_live(path, name):
            require_uncontained(settings, str(path), permission)
            return import_into(settings, str(path), *into, asked)
        source = held.enter_context(file_to_read(settings, path, permission))
        return import_into(settings, source, *into, asked)


def _import_options(options: dict[str, Any]) -> ImportOptions:
    accepted = frozenset(Outcome(text) for text in options.pop("unsafe_accept", ()))
    mode = options.pop("on_conflict", None)
    if mode is not None and mode not in set(OnConflict):
        hint = f"There are: {', '.join(OnConflict)}."
        raise UsageError(f"there is no way {mode!r}", field="on_conflict", hint=hint)
    near = options.pop("near_duplicates", None)
    if near is not None and near not in set(NearDuplicates):
        hint = f"There are: {', '.join(NearDuplicates)}."
        raise UsageError(f"there is no way {near!r}", field="near_duplicates", hint=hint)
    return ImportOptions(
        source_format=options.pop("from_", None),
        on_conflict=None if mode is None else OnConflict(mode),
        near_duplicates=None if near is None else NearDuplicates(near),
        unsafe_accept=accepted,
        trusted_keys=tuple(options.pop("trusted_keys", ())),
        accept_loss=tuple(options.pop("accept_loss", ())),
        receipt=_path(options.pop("receipt", None)),
        on_step=teller(options.pop("progress", None)),
        **options,
    )


def nobody() -> SigningKey:
    """Make no bank: the one that is meant was there a moment ago."""
    raise UsageError("the bank is gone from the store")
