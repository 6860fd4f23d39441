"""A new key in the place of an old one: in the key ring, in the registry, in the logs of banks.

Whatever is cut short is gone on with by the same steps: ``hand_over`` notes in each log what it
lacks.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from satchel.actions.config import Settings
from satchel.actions.keys.told import BankTold, Owners, decider, each_bank
from satchel.actions.permitted.owning import require_owner
from satchel.actions.signing import signing_key
from satchel.actions.wiring import writer_key
from satchel.disk.reading import reading
from satchel.disk.writing import PRIVATE_FILE, writing
from satchel.errors import MalformedError, SigningKeyError, UsageError
from satchel.ledger.authority import Authority
from satchel.memory.times import now
from satchel.ports.store import Store
from satchel.seal.encoding.jcs import canonical
from satchel.seal.keys.ended import RETIRED
from satchel.seal.signing.key import SigningKey
from satchel.seal.signing.keyring import SUFFIX, read_succession, succession
from satchel.seal.signing.trust import Role, TrustedKey

_STATEMENT = ".succession.json"
_MAX_STATEMENT = 16_384


class Rotated(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key that took the place of another."""

    name: str
    role: str
    key: str
    """The new one."""

    replaces: str
    statement: dict[str, Any]
    """What both keys signed, for those who trusted the old one."""

    banks: list[BankTold] = []
    """The banks of the store that the old key was a key of."""

    proposal: str | None = None
    """The file with what more owners have to sign."""

    @property
    def is_whole(self) -> bool:
        """Whether every bank knows."""
        return not any(bank.problem for bank in self.banks)


class HandedOver(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was noted in the banks of a store of keys that were replaced."""

    name: str
    key: str
    banks: list[BankTold] = []

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
) -> Rotated:
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
    with writing(path, mode=PRIVATE_FILE) as stream:
        stream.write(canonical(statement) + b"\n")
    settings.keyring.create(name, role=role, passphrase=passphrase, key=new, replace=True)
    _register(settings, (old.did, aside), (new.did, name), role)
    found = hand_over(settings, name, passphrase=passphrase, owners=owners)
    return Rotated(
        name=name, role=role, key=new.did, replaces=old.did, statement=statement, banks=found.banks
    )


def hand_over(
    settings: Settings,
    name: str,
    *,
    passphrase: str | None = None,
    owners: Owners = (),
) -> HandedOver:
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
        return HandedOver(
            name=name,
            key=held.key,
            banks=each_bank(settings, _Admitting(settings, ring.load(name), keys, said).tell),
        )
    secrets = [ring.load(one, passphrase=passphrase) for one in (*line, name)]
    return HandedOver(
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
        with reading(path) as stream:
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
