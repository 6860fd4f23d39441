"""What callers of the Python API ask for, as the actions take it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from satchel.actions.memories.drafting import moment
from satchel.actions.moving.exporting import Export, ExportOptions, export, export_format, selection
from satchel.actions.moving.importing import Imported, ImportOptions, import_file
from satchel.actions.opened import OpenBank
from satchel.actions.recalling import trust_from
from satchel.actions.signing import signing_key
from satchel.errors import PathRefusedError, UsageError
from satchel.recall.query import COMPONENTS, Query
from satchel.seal.signing.key import SigningKey
from satchel.seal.verify.verification import Outcome
from satchel.transfer.incoming.plan import OnConflict

Options = Mapping[str, Any]


def own_path(path: str | Path, *, allowed: bool) -> Path:
    """Return a path that a caller vouches for.

    Raises:
        PathRefusedError: If he does not.
    """
    if not allowed:
        raise PathRefusedError(
            "a path is refused until the caller says that it is his own choice",
            file=str(path),
            hint="If it does not come from a model or a request: allow_uncontained=True.",
        )
    return Path(path)


def query_of(text: str, wanted: Options) -> Query:
    """Return what ``Bank.recall`` asks for."""
    options = dict(wanted)
    for name in ("since", "until", "as_of"):
        value = options.get(name)
        if value is not None and not isinstance(value, int):
            options[name] = moment(value, name)
    options["components"] = texts(options.pop("type", None)) or COMPONENTS
    options["tags"] = texts(options.pop("tag", None))
    options["any_tags"] = texts(options.pop("any_tag", None))
    options["trust"] = trust_from(options.get("trust"), "trust")
    return Query(text=text, **options)


def texts(value: str | Sequence[str] | None) -> frozenset[str]:
    """Return one text, several or none as several."""
    if value is None:
        return frozenset()
    return frozenset([value] if isinstance(value, str) else value)


def export_as_asked(bank: OpenBank, output: Path, wanted: Options) -> Export:
    """Export a bank as ``Bank.export`` is asked to."""
    options = dict(wanted)
    key_name, passphrase = options.pop("key_name", None), options.pop("passphrase", None)
    sign = options.pop("sign", True) and not options.get("dry_run", False)
    names = ("since", "until", "owner", "as_of")
    chosen = selection(
        components=tuple(options.pop("components", ())),
        tags=tuple(options.pop("tags", ())),
        **{name: options.pop(name, None) for name in names},
    )
    _, writer = export_format(output, options.get("format"))
    key = None
    if sign and writer.info.traits.sealed:
        key, _ = signing_key(bank.settings, key_name, passphrase=passphrase)
    return export(bank, output, ExportOptions(selection=chosen, key=key, **options))


def import_as_asked(bank: OpenBank, source: Path, wanted: Options) -> Imported:
    """Import a file as ``Bank.import_`` is asked to."""
    options = dict(wanted)
    accepted = frozenset(Outcome(text) for text in options.pop("unsafe_accept", ()))
    mode = options.pop("on_conflict", None)
    if mode is not None and mode not in set(OnConflict):
        hint = f"There are: {', '.join(OnConflict)}."
        raise UsageError(f"there is no way {mode!r}", field="on_conflict", hint=hint)
    asked = ImportOptions(
        source_format=options.pop("from_", None),
        on_conflict=None if mode is None else OnConflict(mode),
        unsafe_accept=accepted,
        trusted_keys=tuple(options.pop("trusted_keys", ())),
        **options,
    )
    return import_file(bank.settings, source, bank.id, _nobody, asked)


def _nobody() -> SigningKey:
    raise UsageError("the bank is gone from the store")
