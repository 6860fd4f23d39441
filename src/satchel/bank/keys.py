"""Keys and owners of banks: rotation, retirement, revocation, owners, and signed proposals.

A key changes in the key ring, in the registry, and in the logs of banks. An interrupted rotation is
resumed by ``hand_over``, which records what a log lacks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from satchel.bank.connections import (
    configured_store,
    has_store,
    open_ledger,
    witness_of,
    writer_key,
)
from satchel.bank.machine_keys import named_key, require_owner, signing_key
from satchel.bank.open_bank import name_of
from satchel.config.settings import Settings
from satchel.crypto.canonical import canonical, canonical_checked, decode_canonical
from satchel.crypto.key_files import (
    SUFFIX,
    Role,
    TrustedKey,
    read_succession,
    revocation,
    succession,
)
from satchel.crypto.keys import RETIRED, REVOKED, PayloadType, SigningKey, sign, signed_part
from satchel.crypto.sealed_records import Sealed, open_record, seal
from satchel.errors import MalformedError, SatchelError, SigningKeyError, ThresholdError, UsageError
from satchel.ledger.authority import Authority, signers
from satchel.ledger.decisions import KeyDecider
from satchel.model.records import Config
from satchel.model.values import now, resolved
from satchel.ports.store import Store
from satchel.runtime.files import PRIVATE_FILE, atomic_write, open_input


class BankKeyResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of recording a change of a key in the log of a bank."""

    id: str
    name: str | None = None
    noted: bool = False
    """Whether a record was added; False if the log had it already, or it failed."""

    problem: str | None = None
    """Why it failed."""

    hint: str | None = None

    to_sign: list[dict[str, Any]] = []
    """Records that more owners must sign."""


Owners = tuple[SigningKey, ...]
"""Keys of one or several owners who sign together."""

RecordChange = Callable[[Store, str, Authority], bool | None]
"""Records a change in the log of a bank; returns None if it does not concern the bank."""


def each_bank(settings: Settings, record: RecordChange) -> list[BankKeyResult]:
    """Record a change in the logs of all banks that it concerns; a failure does not stop others."""
    if not has_store(settings):
        return []
    with configured_store(settings) as store:
        return list(_each(settings, store, record))


def _each(settings: Settings, store: Store, record: RecordChange) -> Iterator[BankKeyResult]:
    with store.reading() as reader:
        banks = {bank: name_of(reader, bank) for bank in reader.banks()}
    for bank, name in banks.items():
        try:
            with open_ledger(settings, store, bank).reading() as view:
                authority = view.authority
            noted = record(store, bank, authority)
        except ThresholdError as error:
            unsigned = [decode_canonical(each) for each in error.drawn]
            yield BankKeyResult(
                id=bank, name=name, problem=error.message, hint=error.hint, to_sign=unsigned
            )
            continue
        except SatchelError as error:
            yield BankKeyResult(id=bank, name=name, problem=error.message, hint=error.hint)
            continue
        if noted is not None:
            yield BankKeyResult(id=bank, name=name, noted=noted)


def decider(
    settings: Settings, store: Store, bank: str, owners: Owners, writer: SigningKey
) -> KeyDecider:
    """Return the ``KeyDecider`` of owners; a writer key signs the heads over its records."""
    return KeyDecider(
        store=store,
        bank=bank,
        owner=owners[0],
        also=owners[1:],
        writer=writer,
        witness=witness_of(settings),
    )


_STATEMENT = ".succession.json"
_MAX_STATEMENT = 16_384


class KeyRotation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key that replaced another."""

    name: str
    role: str
    key: str
    """The new key."""

    replaces: str
    statement: dict[str, Any]
    """The statement that both keys signed, for others who trust the old one."""

    banks: list[BankKeyResult] = []
    """Banks of the store that had the old key."""

    proposal: str | None = None
    """The file with the records that more owners must sign."""

    @property
    def is_whole(self) -> bool:
        """Whether every bank has recorded it."""
        return not any(bank.problem for bank in self.banks)


class KeyHandover(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Replaced keys, as recorded in the banks of a store."""

    name: str
    key: str
    banks: list[BankKeyResult] = []

    proposal: str | None = None
    """The file with the records that more owners must sign."""

    @property
    def is_whole(self) -> bool:
        """Whether every bank has recorded it."""
        return not any(bank.problem for bank in self.banks)


def rotate_key(
    settings: Settings,
    name: str,
    *,
    passphrase: str | None = None,
    owners: Owners = (),
) -> KeyRotation:
    """Replace a key by a new one, on this machine and in the banks of the store that have it.

    The old key signs no more, and what it signed stays valid. In a log, an owner's key is replaced
    by a record that both keys sign; a writer's key by records of an owner, which admit the new one
    and retire the old one.

    Args:
        settings: Settings with the keys and the store.
        name: Name of the key.
        passphrase: Passphrase of the old key, which the new one gets too.
        owners: Owners who sign for a writer's key (default: the default owner key), or sign with an
            owner's key if the bank requires several.

    Raises:
        SigningKeyError: If there is no such key, its passphrase is wrong, or it was revoked.
    """
    require_owner(settings, "keys")
    old = settings.keyring.load(name, passphrase=passphrase)
    known = settings.registry.find(old.did)
    if known is not None and known.state == "revoked":
        raise SigningKeyError(
            f"the key {name!r} was revoked, so it cannot name a successor",
            hint="Create another: satchel key create NAME",
        )
    role, new = settings.keyring.read(name).role, SigningKey.generate()
    if role == "writer" and not owners:
        owners = (signing_key(settings)[0],)
    statement = succession(old, new)
    aside = settings.keyring.set_aside(name)
    path = settings.keyring.folder / f"{aside}{_STATEMENT}"
    with atomic_write(path, mode=PRIVATE_FILE) as stream:
        stream.write(canonical(statement) + b"\n")
    settings.keyring.create(name, role=role, passphrase=passphrase, key=new, replace=True)
    _register(settings, (old.did, aside), (new.did, name), role)
    banks = hand_over(settings, name, passphrase=passphrase, owners=owners).banks
    return KeyRotation(
        name=name, role=role, key=new.did, replaces=old.did, statement=statement, banks=banks
    )


def hand_over(
    settings: Settings,
    name: str,
    *,
    passphrase: str | None = None,
    owners: Owners = (),
) -> KeyHandover:
    """Record in the banks of the store which keys a key replaced, unless they have it already.

    For a store other than that of the rotation, or in which recording it failed.

    Args and Raises: as for ``rotate_key``.
    """
    require_owner(settings, "keys")
    ring = settings.keyring
    current = ring.read(name)
    replaced = _replaced_names(settings, current.key)
    if not replaced:
        raise UsageError(
            f"the key {name!r} did not replace another key", hint="See: satchel key rotate"
        )
    previous = replaced[-1]
    _register(settings, (ring.read(previous).key, previous), (current.key, name), current.role)
    change: _OwnerReplacement | _WriterReplacement
    if current.role == "writer":
        signers = owners or (signing_key(settings)[0],)
        old = [ring.read(each).key for each in replaced]
        change = _WriterReplacement(settings, ring.load(name), old, signers)
    else:
        chain = [ring.load(each, passphrase=passphrase) for each in (*replaced, name)]
        change = _OwnerReplacement(settings, chain, owners)
    return KeyHandover(name=name, key=current.key, banks=each_bank(settings, change.record))


class _OwnerReplacement:
    """Replaces the owner key of a bank by the newest key of its chain of successors."""

    def __init__(self, settings: Settings, chain: list[SigningKey], others: Owners) -> None:
        self.settings, self.chain, self.others = settings, chain, others

    def record(self, store: Store, bank: str, authority: Authority) -> bool | None:
        """Record it in a bank; return None if no key of the chain is an owner's."""
        owned = [number for number, key in enumerate(self.chain) if key.did in authority.owners]
        if not owned:
            return None
        successors = self.chain[owned[-1] + 1 :]
        if not successors:
            return False
        writer = writer_key(self.settings)
        # A machine that is not admitted signs the head with the newest key.
        signer = writer if authority.admits(writer.did) else successors[-1]
        owner = self.chain[owned[-1]]
        others = (key for key in self.others if key.did in authority.owners - {owner.did})
        return decider(self.settings, store, bank, (owner, *others), signer).hand_over(successors)


class _WriterReplacement:
    """Replaces the old writer keys of a machine by its new one."""

    def __init__(
        self, settings: Settings, writer: SigningKey, old: list[str], owners: Owners
    ) -> None:
        self.settings, self.writer, self.old, self.owners = settings, writer, old, owners

    def record(self, store: Store, bank: str, authority: Authority) -> bool | None:
        """Record it in a bank; return None if none of the old keys was admitted."""
        old = [key for key in self.old if key in authority.writers]
        ended = [key for key in self.old if authority.keys.last_end(key) is not None]
        if not old and not ended:
            return None
        if not old and self.writer.did in authority.writers:
            return False
        decide = decider(self.settings, store, bank, self.owners, self.writer)
        decide.admit(self.writer.did)
        for key in old:
            decide.end(RETIRED, key)
        return True


def _replaced_names(settings: Settings, key: str) -> list[str]:
    """Return the names of the keys that a key replaced, oldest first."""
    replaced, names = _replaced_keys(settings), list[str]()
    while key in replaced and replaced[key][1] not in names:
        key, name = replaced[key]
        names.insert(0, name)
    return names


def _replaced_keys(settings: Settings) -> Mapping[str, tuple[str, str]]:
    """Return the key and name that each key of this machine replaced, by the new key."""
    replaced = dict[str, tuple[str, str]]()
    ring = settings.keyring
    for path in sorted(ring.folder.glob(f"*{_STATEMENT}")):
        name = path.name.removesuffix(_STATEMENT)
        with open_input(path) as stream:
            try:
                stated = read_succession(msgspec.json.decode(stream.read(_MAX_STATEMENT)))
            except msgspec.MsgspecError:
                raise MalformedError("not a statement of succession", file=str(path)) from None
        if stated is not None and (ring.folder / f"{name}{SUFFIX}").exists():
            replaced[stated[1]] = (stated[0], name)
    return replaced


def _register(settings: Settings, old: tuple[str, str], new: tuple[str, str], role: Role) -> None:
    registry = settings.registry
    if registry.find(old[0]) is None:
        registry.trust(TrustedKey(key=old[0], name=old[1], added_at=now(), own=True, role=role))
    known = registry.find(new[0])
    if known is None or known.replaces != old[0]:
        registry.trust(
            TrustedKey(
                key=new[0], name=new[1], added_at=now(), own=True, role=role, replaces=old[0]
            )
        )


class KeyEndResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key that was retired or revoked, on this machine and in banks."""

    entry: TrustedKey
    """Its entry in the registry now."""

    statement: dict[str, Any] | None = None
    """The statement of revocation for others; see ``revoke_key``."""

    banks: list[BankKeyResult] = []
    """Banks of the store that had the key."""

    proposal: str | None = None
    """The file with the records that more owners must sign."""

    @property
    def is_whole(self) -> bool:
        """Whether every bank has recorded it."""
        return not any(bank.problem for bank in self.banks)


def retire_key(
    settings: Settings, key: str, *, reason: str | None = None, owners: Owners = ()
) -> KeyEndResult:
    """Retire a key: it signs no more, and what it signed stays valid.

    If a bank of the store cannot retire it, nothing changes on this machine.

    Args:
        settings: Settings with the registry and the store.
        key: A did:key, or the name of a key in the registry.
        reason: Reason, for the record.
        owners: Keys of other owners, for the banks that have the key.

    Raises:
        UsageError: If no key, or more than one, has that name, or it was revoked.
    """
    require_owner(settings, "keys")
    ended = named_key(settings, key)
    known = settings.registry.find(ended)
    if known is None or known.state == "revoked":
        settings.registry.retire(ended)  # raises
    banks = each_bank(settings, _KeyEnd(settings, RETIRED, ended, owners, reason).record)
    if known is None or not any(bank.problem for bank in banks):
        known = settings.registry.retire(ended, reason)
    return KeyEndResult(entry=known, banks=banks)


def revoke_key(
    settings: Settings,
    key: str,
    *,
    reason: str | None = None,
    signer: SigningKey | None = None,
    owners: Owners = (),
) -> KeyEndResult:
    """Revoke a key permanently, on this machine and in the banks that have it.

    Args:
        settings: Settings with the registry and the store.
        key: A did:key, or the name of a key in the registry.
        reason: Reason, for the record.
        signer: Key that signs a statement for others; None for no statement.
        owners: Keys of other owners, for the banks.

    Raises:
        UsageError: If no key, or more than one, has that name.
    """
    require_owner(settings, "keys")
    ended = named_key(settings, key)
    entry = settings.registry.revoke(ended, reason)
    statement = revocation(signer, [ended], reason) if signer else None
    banks = each_bank(settings, _KeyEnd(settings, REVOKED, ended, owners, reason).record)
    return KeyEndResult(entry=entry, statement=statement, banks=banks)


class _KeyEnd:
    """Retires or revokes a key in the banks that have, or had, it."""

    def __init__(
        self,
        settings: Settings,
        action: str,
        key: str,
        owners: Owners,
        reason: str | None,
    ) -> None:
        self.settings, self.action, self.key = settings, action, key
        self.owners, self.reason = owners, reason

    def record(self, store: Store, bank: str, authority: Authority) -> bool | None:
        """Record it in a bank; return None if the bank never had the key."""
        known = authority.keys.last_end(self.key)
        if known is None and not authority.admits(self.key):
            return None
        if known is not None and (known.action == REVOKED or self.action == RETIRED):
            return False
        owners = tuple(
            key for key in self.owners if key.did != self.key and key.did in authority.owners
        )
        if not owners:
            raise SigningKeyError(
                "another owner of the bank must sign this",
                field="key",
                hint="Sign with another owner's key: --signing-key NAME. If there is none, replace"
                " the key first: satchel key rotate.",
            )
        writer = writer_key(self.settings)
        is_usable = writer.did != self.key and authority.admits(writer.did)
        signer = writer if is_usable else owners[0]
        return decider(self.settings, store, bank, owners, signer).end(
            self.action, self.key, self.reason
        )


class OwnerLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One owner of a bank."""

    key: str
    name: str | None = None
    """Its name on this machine."""

    signs: bool = False
    """Whether its secret is on this machine."""


class OwnerList(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The owners of a bank."""

    bank: str
    threshold: int
    """Number of owners who must sign."""

    owners: list[OwnerLine]
    name: str | None = None


BankLocation = tuple[Store, str]
"""An open store, and the ID of a bank in it."""


def add_owner(
    settings: Settings,
    location: BankLocation,
    owners: Owners,
    key: str,
    newcomer: SigningKey | None = None,
) -> OwnerList:
    """Make a key an owner of a bank of an open store; see ``KeyDecider.add_owner``."""
    require_owner(settings, "banks")
    store, bank = location
    added = named_key(settings, key)
    decider(settings, store, bank, owners, writer_key(settings)).add_owner(added, newcomer)
    return owners_in(settings, store, bank)


def set_threshold(
    settings: Settings, location: BankLocation, owners: Owners, threshold: int
) -> OwnerList:
    """Set how many owners of a bank must sign; see ``KeyDecider.set_threshold``."""
    require_owner(settings, "banks")
    store, bank = location
    decider(settings, store, bank, owners, writer_key(settings)).set_threshold(threshold)
    return owners_in(settings, store, bank)


def owners_in(settings: Settings, store: Store, bank: str) -> OwnerList:
    """Return the owners of a bank of an open store."""
    require_owner(settings, "banks")
    with store.reading() as reader:
        name = name_of(reader, bank)
    with open_ledger(settings, store, bank).reading() as view:
        authority = view.authority
    own = {settings.keyring.read(name).key for name in settings.keyring.names()}
    names = {key.key: key.name for key in settings.registry.listed()}
    return OwnerList(
        bank=bank,
        name=name,
        threshold=authority.threshold,
        owners=[
            OwnerLine(key=key, name=names.get(key), signs=key in own)
            for key in sorted(authority.owners)
        ],
    )


_FORMAT = "satchel-proposal/1"
_MAX_FILE = 2**20
_MOST = 64


class ProposedAction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A decision in a proposal."""

    bank: str
    action: str
    """Action of its ``config`` record, such as ``owner_added``."""

    about: dict[str, Any]
    """Other members of its payload."""

    at: str | None = None
    signed_by: list[str] = []
    enacted: bool = False
    """Whether it was just added to the log."""


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: Literal["satchel-proposal/1"]
    records: list[dict[str, Any]]


def write_proposal(settings: Settings, path: Path, records: Iterable[bytes]) -> None:
    """Write a proposal for other owners to sign.

    Args:
        settings: The settings.
        path: The file.
        records: Canonical bytes of the records, from ``ThresholdError``.

    Raises:
        TargetExistsError: If the file exists.
    """
    require_owner(settings, "banks")
    _write(path, records, overwrite=False)


def _write(path: Path, records: Iterable[bytes], *, overwrite: bool) -> None:
    content = {"format": _FORMAT, "records": [decode_canonical(record) for record in records]}
    with atomic_write(path, overwrite=overwrite) as stream:
        stream.write(canonical_checked(content) + b"\n")


def read_proposal(settings: Settings, path: Path) -> list[ProposedAction]:
    """Return the decisions of a proposal, with the owners whose signatures verify.

    Raises:
        MalformedError: If it is not a proposal.
    """
    require_owner(settings, "banks")
    return [_proposed(record) for record in _read(path)]


def sign_proposal(settings: Settings, path: Path, key: SigningKey) -> list[ProposedAction]:
    """Sign a proposal; signing it again changes nothing.

    Raises:
        MalformedError: If it is not a proposal.
    """
    require_owner(settings, "keys")
    signed = [_signed(record, key) for record in _read(path)]
    _write(path, (record.body for record in signed), overwrite=True)
    return [_proposed(record) for record in signed]


def enact_proposal(settings: Settings, path: Path) -> list[ProposedAction]:
    """Append a proposal to the log, once enough owners have signed; skip what the log has.

    Raises:
        MalformedError: If it is not a proposal.
        ThresholdError: If more owners must sign.
        UsageError: If it was made for another state of the bank.
        UnknownBankError: If the store has no such bank.
    """
    require_owner(settings, "banks")
    records = _read(path)
    with configured_store(settings) as store:
        return _enacted(settings, store, records)


def enact_in(settings: Settings, store: Store, bank: str, path: Path) -> list[ProposedAction]:
    """Append a proposal about a bank of an open store to its log; see ``enact_proposal``."""
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
        done += [msgspec.structs.replace(_proposed(each), enacted=is_new) for each in own]
    return done


def _read(path: Path) -> list[Sealed]:
    with open_input(path) as stream:
        data = stream.read(_MAX_FILE + 1)
    if len(data) > _MAX_FILE:
        raise MalformedError("a proposal can have at most a megabyte", file=str(path))
    try:
        proposal = msgspec.convert(decode_canonical(data.rstrip(b"\n")), resolved(_File))
    except msgspec.ValidationError as error:
        raise MalformedError(f"not a proposal: {error}", file=str(path)) from None
    if not 1 <= len(proposal.records) <= _MOST:
        raise MalformedError(f"a proposal must have 1 to {_MOST} records", file=str(path))
    records = [open_record(canonical_checked(value))[0] for value in proposal.records]
    for number, record in enumerate(records):
        model = record.model
        if not isinstance(model, Config) or not isinstance(model.payload.get("bank"), str):
            raise MalformedError(
                "only decisions about a bank can be proposed",
                file=str(path),
                field=f"records/{number}",
            )
    return records


def _config(record: Sealed) -> Config:
    model = record.model
    assert isinstance(model, Config)  # noqa: S101 - checked when it was read
    return model


def _bank(record: Sealed) -> str:
    return str(_config(record).payload["bank"])


def _proposed(record: Sealed) -> ProposedAction:
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
    others = [each for each in model.signatures if each.get("key") != key.did]
    new = msgspec.to_builtins(sign(PayloadType.CONFIG, signed_part(record.value), [key]))
    return seal(msgspec.structs.replace(model, id=None, signatures=(*others, *new)))
