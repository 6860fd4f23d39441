"""Who owns a bank, and how many of them have to sign what is decided about it."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from satchel.bank.connections import configured_store, open_ledger, writer_key
from satchel.bank.keys import Owners, decider
from satchel.bank.open_bank import find_bank, name_of
from satchel.bank.owner_rights import require_owner
from satchel.bank.signing_keys import named_key
from satchel.config.settings import Settings
from satchel.crypto.canonical import canonical_checked, decode_canonical
from satchel.crypto.keys import PayloadType, SigningKey, sign, signed_part
from satchel.crypto.sealed_records import Sealed, open_record, seal
from satchel.errors import MalformedError, UsageError
from satchel.ledger.authority import signers
from satchel.model.records import Config
from satchel.model.values import resolved
from satchel.ports.store import Store
from satchel.runtime.files import atomic_write, open_input


class OwnerLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One owner of a bank."""

    key: str
    name: str | None = None
    """What it is called on this machine."""

    signs: bool = False
    """Whether its secret is here."""


class OwnerList(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The owners of a bank."""

    bank: str
    threshold: int
    """How many of them have to sign."""

    owners: list[OwnerLine]
    name: str | None = None


Place = tuple[Store, str]
"""A store that is open, and the id of a bank in it."""


def list_owners(settings: Settings, wanted: str) -> OwnerList:
    """Return who owns a bank, by its log, which is proved.

    Raises:
        UnknownBankError: If there is no such bank.
        VerificationError: If the store is not what it was, or not what was signed.
    """
    require_owner(settings, "banks")
    with configured_store(settings, read_only=True) as store:
        return owners_in(settings, store, find_bank(store, wanted))


def add_owner(
    settings: Settings,
    wanted: str,
    owners: Owners,
    key: str,
    newcomer: SigningKey | None = None,
) -> OwnerList:
    """Make a key one of a bank's owners, by its name or itself; see ``KeyDecider.add_owner``."""
    require_owner(settings, "banks")
    with configured_store(settings) as store:
        place = (store, find_bank(store, wanted))
        return add_owner_in(settings, place, owners, key, newcomer)


def add_owner_in(
    settings: Settings,
    place: Place,
    owners: Owners,
    key: str,
    newcomer: SigningKey | None = None,
) -> OwnerList:
    """Make a key one of a bank's owners, in a store that is open."""
    require_owner(settings, "banks")
    store, bank = place
    added = named_key(settings, key)
    decider(settings, store, bank, owners, writer_key(settings)).add_owner(added, newcomer)
    return owners_in(settings, store, bank)


def set_threshold(settings: Settings, wanted: str, owners: Owners, threshold: int) -> OwnerList:
    """Say how many owners of a bank have to sign; see ``KeyDecider.set_threshold``."""
    require_owner(settings, "banks")
    with configured_store(settings) as store:
        place = (store, find_bank(store, wanted))
        return set_threshold_in(settings, place, owners, threshold)


def set_threshold_in(settings: Settings, place: Place, owners: Owners, threshold: int) -> OwnerList:
    """Say how many owners have to sign, in a store that is open."""
    require_owner(settings, "banks")
    store, bank = place
    decider(settings, store, bank, owners, writer_key(settings)).set_threshold(threshold)
    return owners_in(settings, store, bank)


def owners_in(settings: Settings, store: Store, bank: str) -> OwnerList:
    """Return who owns a bank of a store that is open."""
    require_owner(settings, "banks")
    with store.reading() as reader:
        name = name_of(reader, bank)
    with open_ledger(settings, store, bank).reading() as view:
        authority = view.authority
    held = {settings.keyring.read(one).key for one in settings.keyring.names()}
    known = {one.key: one.name for one in settings.registry.listed()}
    return OwnerList(
        bank=bank,
        name=name,
        threshold=authority.threshold,
        owners=[
            OwnerLine(key=key, name=known.get(key), signs=key in held)
            for key in sorted(authority.owners)
        ],
    )


_FORMAT = "satchel-proposal/1"
_MAX_FILE = 2**20
_MOST = 64


class ProposedAction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is proposed."""

    bank: str
    action: str
    """That of its ``config`` record, such as ``owner_added``."""

    about: dict[str, Any]
    """The other members of its payload."""

    at: str | None = None
    signed_by: list[str] = []
    enacted: bool = False
    """Whether it was added to the log just now."""


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: Literal["satchel-proposal/1"]
    records: list[dict[str, Any]]


def write_proposal(settings: Settings, path: Path, records: Iterable[bytes]) -> None:
    """Write what others are to sign.

    Args:
        settings: Who asks.
        path: The file.
        records: Their canonical bytes, as ``ThresholdError`` has them.

    Raises:
        TargetExistsError: If it is there.
    """
    require_owner(settings, "banks")
    _write(path, records, overwrite=False)


def _write(path: Path, records: Iterable[bytes], *, overwrite: bool) -> None:
    content = {"format": _FORMAT, "records": [decode_canonical(one) for one in records]}
    with atomic_write(path, overwrite=overwrite) as stream:
        stream.write(canonical_checked(content) + b"\n")


def read_proposal(settings: Settings, path: Path) -> list[ProposedAction]:
    """Return what a file proposes, and whose signatures hold.

    Raises:
        MalformedError: If it is no such file.
    """
    require_owner(settings, "banks")
    return [_matter(record) for record in _read(path)]


def sign_proposal(settings: Settings, path: Path, key: SigningKey) -> list[ProposedAction]:
    """Add a signature to what a file proposes; one that is there already changes nothing.

    Raises:
        MalformedError: If it is no such file.
    """
    require_owner(settings, "keys")
    signed = [_signed(record, key) for record in _read(path)]
    _write(path, (record.body for record in signed), overwrite=True)
    return [_matter(record) for record in signed]


def enact_proposal(settings: Settings, path: Path) -> list[ProposedAction]:
    """Log what a file proposes, once enough owners signed; what is there already stays.

    Raises:
        MalformedError: If it is no such file.
        ThresholdError: If more owners have to sign.
        UsageError: If it was made for another state of the bank.
        UnknownBankError: If the store has no such bank.
    """
    require_owner(settings, "banks")
    records = _read(path)
    with configured_store(settings) as store:
        return _enacted(settings, store, records)


def enact_in(settings: Settings, store: Store, bank: str, path: Path) -> list[ProposedAction]:
    """Log what a file proposes about one bank, in a store that is open."""
    require_owner(settings, "banks")
    records = _read(path)
    if any(_bank(record) != bank for record in records):
        raise UsageError("the proposal is for another bank", field="bank")
    return _enacted(settings, store, records)


def _enacted(settings: Settings, store: Store, records: Sequence[Sealed]) -> list[ProposedAction]:
    done, writer = list[ProposedAction](), writer_key(settings)
    for bank in dict.fromkeys(_bank(record) for record in records):
        own = [record for record in records if _bank(record) == bank]
        is_new = decider(settings, store, bank, (writer,), writer).enact(own)
        done += [msgspec.structs.replace(_matter(one), enacted=is_new) for one in own]
    return done


def _read(path: Path) -> list[Sealed]:
    with open_input(path) as stream:
        data = stream.read(_MAX_FILE + 1)
    if len(data) > _MAX_FILE:
        raise MalformedError("a proposal can have at most a megabyte", file=str(path))
    try:
        found = msgspec.convert(decode_canonical(data.rstrip(b"\n")), resolved(_File))
    except msgspec.ValidationError as error:
        raise MalformedError(f"not a proposal: {error}", file=str(path)) from None
    if not 1 <= len(found.records) <= _MOST:
        raise MalformedError(f"a proposal must have 1 to {_MOST} records", file=str(path))
    records = [open_record(canonical_checked(value))[0] for value in found.records]
    for place, record in enumerate(records):
        model = record.model
        if not isinstance(model, Config) or not isinstance(model.payload.get("bank"), str):
            raise MalformedError(
                "only decisions about a bank can be proposed",
                file=str(path),
                field=f"records/{place}",
            )
    return records


def _config(record: Sealed) -> Config:
    model = record.model
    assert isinstance(model, Config)  # noqa: S101 - looked at when it was read
    return model


def _bank(record: Sealed) -> str:
    return str(_config(record).payload["bank"])


def _matter(record: Sealed) -> ProposedAction:
    model = _config(record)
    return ProposedAction(
        bank=_bank(record),
        action=model.action,
        about={name: value for name, value in model.payload.items() if name != "bank"},
        at=model.at,
        signed_by=sorted(signers(record)),
    )


def _signed(record: Sealed, key: SigningKey) -> Sealed:
    model = _config(record)
    if key.did in signers(record):
        return record
    kept = [one for one in model.signatures if one.get("key") != key.did]
    new = msgspec.to_builtins(sign(PayloadType.CONFIG, signed_part(record.value), [key]))
    return seal(msgspec.structs.replace(model, id=None, signatures=(*kept, *new)))
