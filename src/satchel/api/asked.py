"""What callers of the Python API ask for, as the actions take it."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from satchel.actions.config import Settings
from satchel.actions.importing.imported import Imported, ImportOptions, Owners
from satchel.actions.inferring.duplicates import NearDuplicates
from satchel.actions.moving.connecting import connector_for
from satchel.actions.operating.providing import import_into
from satchel.actions.paths.permission import (
    Permission,
    file_to_read,
    file_to_write,
    require_uncontained,
)
from satchel.api.arguments import FilePath
from satchel.disk.reading import OpenFile
from satchel.errors import UsageError
from satchel.jobs.callbacks import teller
from satchel.seal.signing.key import SigningKey
from satchel.seal.verify.verification import Outcome
from satchel.transfer.incoming.planned import OnConflict

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


def _is_live(path: FilePath | OpenFile, name: str | None) -> bool:
    is_open = isinstance(path, OpenFile)
    return not is_open and connector_for(str(path), name) is not None


def _judge_receipt(settings: Settings, options: dict[str, Any], permission: Permission) -> None:
    """Hold the path of a receipt's copy to what holds for the other one."""
    if options.get("receipt") is not None:
        with file_to_write(settings, options["receipt"], permission):
            pass


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
