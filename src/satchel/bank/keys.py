"""A new key in the place of an old one: in the key ring, in the registry, in the logs of banks.

Whatever is cut short is gone on with by the same steps: ``hand_over`` notes in each log what it
lacks.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from satchel.bank.connections import (
    configured_store,
    has_store,
    open_ledger,
    witness_of,
    writer_key,
)
from satchel.bank.open_bank import name_of
from satchel.bank.owner_rights import require_owner
from satchel.bank.signing_keys import named_key, signing_key
from satchel.config.settings import Settings
from satchel.crypto.canonical import canonical, decode_canonical
from satchel.crypto.keyring import SUFFIX, Role, TrustedKey, read_succession, revocation, succession
from satchel.crypto.keys import RETIRED, REVOKED, SigningKey
from satchel.errors import MalformedError, SatchelError, SigningKeyError, ThresholdError, UsageError
from satchel.ledger.authority import Authority
from satchel.ledger.decisions import KeyDecider
from satchel.model.values import now
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
