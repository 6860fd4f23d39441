"""A new key in the place of an old one: in the key ring, in the registry, in the logs of banks.

Whatever is cut short is gone on with by the same steps: ``hand_over`` notes in each log what it
lacks.
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
from satchel.bank.machine_keys import named_key, signing_key
from satchel.bank.open_bank import find_bank, name_of
from satchel.bank.owner_rights import require_owner
from satchel.config.settings import Settings
from satchel.crypto.canonical import canonical, canonical_checked, decode_canonical
from satchel.crypto.keyring import SUFFIX, Role, TrustedKey, read_succession, revocation, succession
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
    """One bank in whose log something was to be noted about a key."""

    id: str
    name: str | None = None
    noted: bool = False
    """Whether a record was added; False where the log says so already, or could not."""

    problem: str | None = None
    """Why not."""

    hint: str | None = None

    to_sign: list[dict[str, Any]] = []
    """What more owners have to sign."""


Owners = tuple[SigningKey, ...]
"""The keys of one owner or several, who sign together."""

Telling = Callable[[Store, str, Authority], bool | None]
"""Notes something in one bank's log; None where it does not concern the bank."""


def each_bank(settings: Settings, tell: Telling) -> list[BankKeyResult]:
    """Note something in the logs of the banks that it concerns; one that fails stops no other."""
    if not has_store(settings):
        return []
    with configured_store(settings) as store:
        return list(_each(settings, store, tell))


def _each(settings: Settings, store: Store, tell: Telling) -> Iterator[BankKeyResult]:
    with store.reading() as reader:
        banks = {bank: name_of(reader, bank) for bank in reader.banks()}
    for bank, name in banks.items():
        try:
            with open_ledger(settings, store, bank).reading() as view:
                authority = view.authority
            noted = tell(store, bank, authority)
        except ThresholdError as error:
            drawn = [decode_canonical(one) for one in error.drawn]
            yield BankKeyResult(
                id=bank, name=name, problem=error.message, hint=error.hint, to_sign=drawn
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
    """Return what owners decide with, whose records a key signs the head over."""
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
    """A key that took the place of another."""

    name: str
    role: str
    key: str
    """The new one."""

    replaces: str
    statement: dict[str, Any]
    """What both keys signed, for those who trusted the old one."""

    banks: list[BankKeyResult] = []
    """The banks of the store that the old key was a key of."""

    proposal: str | None = None
    """The file with what more owners have to sign."""

    @property
    def is_whole(self) -> bool:
        """Whether every bank knows."""
        return not any(bank.problem for bank in self.banks)


class KeyHandover(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was noted in the banks of a store of keys that were replaced."""

    name: str
    key: str
    banks: list[BankKeyResult] = []

    proposal: str | None = None
    """The file with what more owners have to sign."""

    @property
    def is_whole(self) -> bool:
        """Whether every bank knows."""
        return not any(bank.problem for bank in self.banks)


def rotate_key(
    settings: Settings,
    name: str,
    *,
    passphrase: str | None = None,
    owners: Owners = (),
) -> KeyRotation:
    """Put a new key in the place of one, here and in the banks of the store that it is a key of.

    The old key signs no more; what it signed stays good. An owner's key is replaced in a log by a
    record that both sign; a writer's by records of an owner, which admit one and retire the other.

    Args:
        settings: Where the keys and the store are.
        name: The key.
        passphrase: That of the old key, which the new one has as well.
        owners: Sign for a writer's key, the default owner's key where none is given; and with an
            owner's, where the bank wants several.

    Raises:
        SigningKeyError: If there is no such key, or its passphrase is wrong, or it was revoked.
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
    found = hand_over(settings, name, passphrase=passphrase, owners=owners)
    return KeyRotation(
        name=name, role=role, key=new.did, replaces=old.did, statement=statement, banks=found.banks
    )


def hand_over(
    settings: Settings,
    name: str,
    *,
    passphrase: str | None = None,
    owners: Owners = (),
) -> KeyHandover:
    """Note in the banks of the store what the keys were replaced by; once noted, nothing happens.

    For a store that was not the configured one when a key was rotated, or that refused then.

    Args and Raises: as ``rotate_key``.
    """
    require_owner(settings, "keys")
    ring = settings.keyring
    held = ring.read(name)
    line = _line(settings, held.key)
    if not line:
        raise UsageError(
            f"the key {name!r} did not replace another key", hint="See: satchel key rotate"
        )
    _register(settings, (ring.read(line[-1]).key, line[-1]), (held.key, name), held.role)
    if held.role == "writer":
        said = owners or (signing_key(settings)[0],)
        keys = [ring.read(one).key for one in line]
        return KeyHandover(
            name=name,
            key=held.key,
            banks=each_bank(settings, _Admitting(settings, ring.load(name), keys, said).tell),
        )
    secrets = [ring.load(one, passphrase=passphrase) for one in (*line, name)]
    return KeyHandover(
        name=name, key=held.key, banks=each_bank(settings, _Handing(settings, secrets, owners).tell)
    )


class _Handing:
    """Puts the newest key of a line in the place of whichever owns a bank."""

    def __init__(self, settings: Settings, line: list[SigningKey], others: Owners) -> None:
        self.settings, self.line, self.others = settings, line, others

    def tell(self, store: Store, bank: str, authority: Authority) -> bool | None:
        """Note it in one bank; None where none of the keys was an owner's."""
        places = [place for place, key in enumerate(self.line) if key.did in authority.owners]
        if not places:
            return None
        heirs = self.line[places[-1] + 1 :]
        if not heirs:
            return False
        writer = writer_key(self.settings)
        # A machine that was not admitted signs the head with the key that it has in hand.
        signer = writer if authority.admits(writer.did) else heirs[-1]
        owner = self.line[places[-1]]
        also = (one for one in self.others if one.did in authority.owners - {owner.did})
        return decider(self.settings, store, bank, (owner, *also), signer).hand_over(heirs)


class _Admitting:
    """Puts a machine's new key in the place of its old ones."""

    def __init__(
        self, settings: Settings, writer: SigningKey, before: list[str], owners: Owners
    ) -> None:
        self.settings, self.writer, self.before, self.owners = settings, writer, before, owners

    def tell(self, store: Store, bank: str, authority: Authority) -> bool | None:
        """Note it in one bank; None where none of the old keys was admitted."""
        old = [key for key in self.before if key in authority.writers]
        ended = [key for key in self.before if authority.keys.ending(key) is not None]
        if not old and not ended:
            return None
        if not old and self.writer.did in authority.writers:
            return False
        decide = decider(self.settings, store, bank, self.owners, self.writer)
        decide.admit(self.writer.did)
        for key in old:
            decide.end(RETIRED, key)
        return True


def _line(settings: Settings, key: str) -> list[str]:
    """Return the names of the keys that a key took the place of, the oldest first."""
    before, found = _statements(settings), list[str]()
    while key in before and before[key][1] not in found:
        key, name = before[key]
        found.insert(0, name)
    return found


def _statements(settings: Settings) -> Mapping[str, tuple[str, str]]:
    """Return for each key that replaced another here which one, and that one's name."""
    found = dict[str, tuple[str, str]]()
    ring = settings.keyring
    for path in sorted(ring.folder.glob(f"*{_STATEMENT}")):
        name = path.name.removesuffix(_STATEMENT)
        with open_input(path) as stream:
            try:
                stated = read_succession(msgspec.json.decode(stream.read(_MAX_STATEMENT)))
            except msgspec.MsgspecError:
                raise MalformedError("not a statement of succession", file=str(path)) from None
        if stated is not None and (ring.folder / f"{name}{SUFFIX}").exists():
            found[stated[1]] = (stated[0], name)
    return found


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
    """A key that counts no more on this machine, and in these banks."""

    entry: TrustedKey
    """What the registry says of it now."""

    statement: dict[str, Any] | None = None
    """For others; see ``revoke_key``."""

    banks: list[BankKeyResult] = []
    """The banks of the store that it was a key of."""

    proposal: str | None = None
    """The file with what more owners have to sign."""

    @property
    def is_whole(self) -> bool:
        """Whether every bank knows."""
        return not any(bank.problem for bank in self.banks)


def retire_key(
    settings: Settings, key: str, *, reason: str | None = None, owners: Owners = ()
) -> KeyEndResult:
    """Let a key go whose word was good: what it signed stays so, and it signs no more.

    Where a bank of the store cannot do without it, nothing changes on this machine.

    Args:
        settings: Where the registry and the store are.
        key: A did:key, or the name of a key in the registry.
        reason: Why.
        owners: Keys of other owners, for the banks that it is a key of.

    Raises:
        UsageError: If no key, or more than one, has that name, or it was revoked.
    """
    require_owner(settings, "keys")
    ended = named_key(settings, key)
    known = settings.registry.find(ended)
    if known is None or known.state == "revoked":
        settings.registry.retire(ended)  # refuses
    told = each_bank(settings, _Ending(settings, RETIRED, ended, owners, reason).tell)
    if known is None or not any(bank.problem for bank in told):
        known = settings.registry.retire(ended, reason)
    return KeyEndResult(entry=known, banks=told)


def revoke_key(
    settings: Settings,
    key: str,
    *,
    reason: str | None = None,
    signer: SigningKey | None = None,
    owners: Owners = (),
) -> KeyEndResult:
    """Stop believing a key, for good, on this machine and in the banks that it is a key of.

    Args:
        settings: Where the registry and the store are.
        key: A did:key, or the name of a key in the registry.
        reason: Why.
        signer: Signs a statement for others, when given.
        owners: Keys of other owners, for the banks.

    Raises:
        UsageError: If no key, or more than one, has that name.
    """
    require_owner(settings, "keys")
    ended = named_key(settings, key)
    entry = settings.registry.revoke(ended, reason)
    statement = revocation(signer, [ended], reason) if signer else None
    told = each_bank(settings, _Ending(settings, REVOKED, ended, owners, reason).tell)
    return KeyEndResult(entry=entry, statement=statement, banks=told)


class _Ending:
    """Ends a key in the banks that it is, or was, a key of."""

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

    def tell(self, store: Store, bank: str, authority: Authority) -> bool | None:
        """Note it in one bank; None where it was no key of it."""
        known = authority.keys.ending(self.key)
        if known is None and not authority.admits(self.key):
            return None
        if known is not None and (known.action == REVOKED or self.action == RETIRED):
            return False
        owners = tuple(
            one for one in self.owners if one.did != self.key and one.did in authority.owners
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
