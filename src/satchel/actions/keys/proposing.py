"""What several owners have to sign, in a file that goes from one to the next.

It holds the very records that are to stand in the log. Whoever has it can add a signature or leave
it; nothing else can be changed without breaking those that are there.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from satchel.actions.config import Settings
from satchel.actions.keys.told import decider
from satchel.actions.permitted.owning import require_owner
from satchel.actions.wiring import opened_store, writer_key
from satchel.disk.reading import reading
from satchel.disk.writing import writing
from satchel.errors import MalformedError, UsageError
from satchel.ledger.authority import signers
from satchel.memory.records import Config
from satchel.ports.store import Store
from satchel.seal.encoding.jcs import canonical_checked, decode_canonical
from satchel.seal.records import Sealed, open_record
from satchel.seal.sealing import seal
from satchel.seal.signing.envelope import PayloadType, sign, signed_part
from satchel.seal.signing.key import SigningKey
from satchel.type_info import resolved

_FORMAT = "satchel-proposal/1"
_MAX_FILE = 2**20
_MOST = 64


class Matter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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
    with writing(path, overwrite=overwrite) as stream:
        stream.write(canonical_checked(content) + b"\n")


def read_proposal(settings: Settings, path: Path) -> list[Matter]:
    """Return what a file proposes, and whose signatures hold.

    Raises:
        MalformedError: If it is no such file.
    """
    require_owner(settings, "banks")
    return [_matter(record) for record in _read(path)]


def sign_proposal(settings: Settings, path: Path, key: SigningKey) -> list[Matter]:
    """Add a signature to what a file proposes; one that is there already changes nothing.

    Raises:
        MalformedError: If it is no such file.
    """
    require_owner(settings, "keys")
    signed = [_signed(record, key) for record in _read(path)]
    _write(path, (record.body for record in signed), overwrite=True)
    return [_matter(record) for record in signed]


def enact_proposal(settings: Settings, path: Path) -> list[Matter]:
    """Log what a file proposes, once enough owners signed; what is there already stays.

    Raises:
        MalformedError: If it is no such file.
        ThresholdError: If more owners have to sign.
        UsageError: If it was made for another state of the bank.
        UnknownBankError: If the store has no such bank.
    """
    require_owner(settings, "banks")
    records = _read(path)
    with opened_store(settings) as store:
        return _enacted(settings, store, records)


def enact_in(settings: Settings, store: Store, bank: str, path: Path) -> list[Matter]:
    """Log what a file proposes about one bank, in a store that is open."""
    require_owner(settings, "banks")
    records = _read(path)
    if any(_bank(record) != bank for record in records):
        raise UsageError("the proposal is for another bank", field="bank")
    return _enacted(settings, store, records)


def _enacted(settings: Settings, store: Store, records: Sequence[Sealed]) -> list[Matter]:
    done, writer = list[Matter](), writer_key(settings)
    for bank in dict.fromkeys(_bank(record) for record in records):
        own = [record for record in records if _bank(record) == bank]
        is_new = decider(settings, store, bank, (writer,), writer).enact(own)
        done += [msgspec.structs.replace(_matter(one), enacted=is_new) for one in own]
    return done


def _read(path: Path) -> list[Sealed]:
    with reading(path) as stream:
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


def _matter(record: Sealed) -> Matter:
    model = _config(record)
    return Matter(
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
