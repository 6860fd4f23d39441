"""An open bank: which one a person means, and what the actions on it work with."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from satchel.bank.connections import (
    configured_store,
    has_store,
    open_ledger,
    require_not_missing,
    witness_of,
)
from satchel.config import store_selection
from satchel.config.hooks import Contents
from satchel.config.settings import Settings
from satchel.config.store_selection import address_of
from satchel.config.tables import BankSettings
from satchel.crypto.sealed_records import open_record
from satchel.errors import (
    InputError,
    StoreError,
    TokenError,
    UnknownBankError,
    UsageError,
    ValueRefusedError,
    VerificationError,
)
from satchel.ledger.heads import missing_bank_error, read_bank_name
from satchel.ledger.ledger import Ledger
from satchel.ledger.view import View
from satchel.model.records import Bank
from satchel.model.values import is_agent_name, is_id
from satchel.ports.rows import Filter, bank_name_bytes
from satchel.ports.store import Reader, Store

if TYPE_CHECKING:  # what a command without a token does not need, it does not import
    from satchel.bank.permissions import Bearer
import json
from collections.abc import Collection
from typing import TypeVar

import msgspec

from satchel.bank.connections import written_place
from satchel.config.tables import BankProfile, ConfigTables
from satchel.errors import ConfigError, MalformedError
from satchel.model.values import resolved
from satchel.runtime.files import PRIVATE_FILE, atomic_write
from satchel.runtime.private_files import private_folder

DEFAULT_BANKS_FILE = "default-banks.json"
_MOST_BYTES = 1 << 20


def default_bank(settings: Settings) -> str | None:
    """Return the ID of the store's default bank, if one was chosen.

    Raises:
        ConfigError: If the file in the home is damaged.
    """
    return _read_default_banks(settings).get(written_place(settings.store))


def set_default_bank(settings: Settings, bank: str | None) -> None:
    """Remember the default bank of the store; None forgets it."""
    place = written_place(settings.store)
    banks = {key: value for key, value in _read_default_banks(settings).items() if key != place}
    if bank is not None:
        banks[place] = bank
    private_folder(settings.home)
    text = json.dumps(banks, indent=1, sort_keys=True) + "\n"
    with atomic_write(settings.home / DEFAULT_BANKS_FILE, mode=PRIVATE_FILE) as stream:
        stream.write(text.encode("utf-8", "surrogateescape"))


def inherit_default_bank(
    target: Settings, chosen: str | None, banks: Collection[str]
) -> str | None:
    """Give a store that banks were copied to the default bank of the other, if it has none.

    Args:
        target: The surroundings with the store that was written.
        chosen: ID of the default bank of the other store.
        banks: IDs of the banks that were copied.

    Returns:
        ID of the default bank that the store has now.
    """
    present = default_bank(target)
    if present is None and chosen is not None and chosen in banks:
        set_default_bank(target, chosen)
        return chosen
    return present


def _read_default_banks(settings: Settings) -> dict[str, str]:
    path = settings.home / DEFAULT_BANKS_FILE
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"cannot read: {error.strerror or error}", file=str(path)) from None
    try:
        banks = json.loads(data.decode("utf-8", "surrogateescape"))
    except ValueError:
        banks = None
    if not isinstance(banks, dict) or not all(map(_is_bank_id, banks.values())):
        raise ConfigError(
            "this file does not map stores to IDs of banks",
            file=str(path),
            hint="Remove the file and choose the default bank again: satchel bank use NAME",
        )
    return banks


def _is_bank_id(value: object) -> bool:
    return isinstance(value, str) and is_id(value)


CONFIG_VERSION = 1
CONFIG_MARK = "_satchel_bank_config"
"""The member that says what the document is, and its version."""

_Kind = TypeVar("_Kind", bound=BankProfile)


class NamedProfile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A profile that goes along with the settings that name it."""

    name: str
    settings: BankProfile = BankProfile()


class BankConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A bank's configuration as a document, beside an archive of its memory."""

    version: int = msgspec.field(name=CONFIG_MARK)
    settings: BankSettings = BankSettings()
    profile: NamedProfile | None = None


def parse_bank_config(document: Mapping[str, Any]) -> BankConfig:
    """Return what this version understands of a document; other members are kept.

    Raises:
        MalformedError: If it is no such document, or a member has the wrong shape.
    """
    try:
        version = msgspec.convert(document.get(CONFIG_MARK), int)
    except msgspec.ValidationError:
        raise MalformedError("not a bank configuration", field=CONFIG_MARK) from None
    if version != CONFIG_VERSION:
        raise MalformedError(
            f"version {version} of a bank configuration is not supported", field=CONFIG_MARK
        )
    profile = document.get("profile")
    if profile is not None and not (
        isinstance(profile, Mapping) and isinstance(profile.get("name"), str)
    ):
        raise MalformedError("a profile name must not be empty", field="profile")
    return BankConfig(
        version=CONFIG_VERSION,
        settings=_convert_known(document.get("settings", {}), BankSettings, "settings"),
        profile=None
        if profile is None
        else NamedProfile(
            name=profile["name"],
            settings=_convert_known(profile.get("settings", {}), BankProfile, "profile/settings"),
        ),
    )


def _convert_known(given: Any, kind: type[_Kind], where: str) -> _Kind:
    if not isinstance(given, Mapping):
        raise MalformedError("must be an object", field=where)
    names = set(kind.__struct_fields__)
    try:
        return msgspec.convert({name: given[name] for name in names & set(given)}, resolved(kind))
    except msgspec.ValidationError as error:
        raise MalformedError(str(error), field=where) from None


def file_settings(options: ConfigTables, bank: str, name: str | None) -> BankSettings:
    """Return what the file says of a bank, by its id or else by its name."""
    found = options.banks.get(bank)
    if found is None and name is not None:
        found = options.banks.get(name)
    return found or BankSettings()


def effective_settings(
    options: ConfigTables, bank: str, name: str | None, own: BankConfig | None = None
) -> BankSettings:
    """Return what holds for a bank, all told; ``profile`` names the one that counts.

    Args:
        options: The file of this machine.
        bank: The bank's id.
        name: Its name.
        own: What the bank carries in its log.
    """
    settings = merge_settings(
        file_settings(options, bank, name), own.settings if own else BankSettings()
    )
    chosen = settings.profile or options.profile or None
    profile = profile_of(options, chosen, own)
    if profile is not None:
        settings = merge_settings(settings, BankSettings(**set_members(profile)))
    return msgspec.structs.replace(settings, profile=chosen)


def profile_of(
    options: ConfigTables, name: str | None, own: BankConfig | None
) -> BankProfile | None:
    """Return a profile by name: the file's, else the one that came with the bank."""
    if name is None:
        return None
    came = own.profile if own is not None else None
    return options.profiles.get(name) or (
        came.settings if came is not None and came.name == name else None
    )


def merge_settings(first: BankSettings, second: BankSettings) -> BankSettings:
    """Return settings of which the first win; metadata is merged, name by name."""
    merged = {**set_members(second), **set_members(first)}
    metadata = {**second.metadata, **first.metadata}
    return BankSettings(**{**merged, "metadata": metadata})


def set_members(settings: BankProfile) -> dict[str, Any]:
    """Return what settings say, without what they leave open."""
    found = {name: getattr(settings, name) for name in type(settings).__struct_fields__}
    return {name: value for name, value in found.items() if value not in (None, {})}


SETTINGS = "settings"
"""The action of the config record that carries a bank's own settings."""

_PREFIX = "blake3:"
_CONFIGS = Filter(types=frozenset({"config"}))
_ADMISSION = 1
_LEAST_DIGITS = 6
_MOST_NAMED = 8
_SHOWN = 12
_DIGITS = frozenset("0123456789abcdef")
_ONE_BY_ONE = 16
"""Names that are looked up alone before all of them are: each looks at all banks, unproved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenBank:
    """One bank of an open store."""

    settings: Settings
    store: Store
    ledger: Ledger
    name: str | None
    bearer: "Bearer | None" = None
    """Who presented a token; None for the owner."""

    @property
    def id(self) -> str:
        """The bank's id."""
        return self.ledger.bank

    def asked(self, action: str) -> "OpenBank":
        """Return the bank for an action, which everything that it does has to go through.

        The one place where permission is asked for: an action on a bank begins with it. For the
        owner that is the bank itself. For a holder it is what the token covers; the bank that was
        opened gives nothing before.

        Args:
            action: One of ``permitted.needs.NEEDS``; what is the owner's alone asks by
                ``permitted.owning.require_owner``.

        Raises:
            TokenError: If the token does not hold, or not any more.
            PermissionRefusedError: If it does not allow the action.
        """
        if self.bearer is None:
            return self
        return replace(self, ledger=self.bearer.asked(self.ledger, action))

    def shows(self, permission: str) -> bool:
        """Tell whether something may be told that needs a permission beyond that of the action."""
        return self.bearer is None or permission in self.bearer.chain.permissions

    def document(self, view: View) -> dict[str, Any]:
        """Return the configuration that the bank carries in its log; empty for none."""
        if view.head.counts.get("config", 0) <= _ADMISSION:
            return {}
        for logged in view.whole.newest(_CONFIGS):
            value = logged.record.value
            if value.get("action") == SETTINGS and value["payload"].get("bank") == self.id:
                found = value["payload"].get("document")
                return found if isinstance(found, dict) else {}
        return {}

    def settled(self, view: View) -> BankSettings:
        """Return what holds for the bank: the file's, its own and its profile's settings."""
        document, own = self.document(view), None
        if document:
            with suppress(InputError):  # what a later version wrote has no meaning here
                own = parse_bank_config(document)
        return effective_settings(self.settings.options, self.id, self.name, own)

    def own_config(self, view: View) -> BankConfig | None:
        """Return what this version understands of the bank's own configuration."""
        document = self.document(view)
        return parse_bank_config(document) if document else None

    def tell(
        self,
        event: str,
        ids: Sequence[str] = (),
        counts: Mapping[str, int] | None = None,
        content: Contents | None = None,
    ) -> None:
        """Have hooks told what happened to the bank; see ``Hooks.tell``."""
        self.settings.hooks.tell(
            event, bank=(self.id, self.name), ids=ids, counts=counts, content=content
        )


@contextmanager
def open_bank(
    settings: Settings, wanted: str | None = None, *, writes: bool = False
) -> Iterator[OpenBank]:
    """Open the configured store and one of its banks, and close it again.

    Args:
        settings: Where the store and the keys are.
        wanted: The bank, as ``find_bank`` takes it; None for the one that ``store.bank`` names, or
            else the default one.
        writes: Whether something is going to be added.

    Raises:
        UnknownBankError: If there is none.
        UsageError: If there are several, and none is the default.
        StoreError: If the store cannot be opened.
    """
    if not has_store(settings):
        missing = UnknownBankError("there is no store yet", hint="Create one: satchel init")
        raise missing if settings.token is not None else _elsewhere(settings, wanted, missing)
    with configured_store(settings, read_only=not writes, for_holder=True) as store:
        yield open_bank_in(settings, store, wanted, writes=writes)


def open_bank_in(
    settings: Settings, store: Store, wanted: str | None = None, *, writes: bool = False
) -> OpenBank:
    """Return one bank of a store that is open; see ``opened_bank``.

    With a token presented, it is the bank of that, which gives nothing before an action has asked.
    """
    if settings.token is not None:
        return _held_bank(settings, store, wanted, writes=writes)
    bank = chosen_bank(settings, store, wanted)
    ledger = open_ledger(settings, store, bank, writes=writes)
    with store.reading() as reader:
        name = name_of(reader, bank)
        is_only = not wanted and not settings.options.store.bank
        require_not_missing(settings, reader, None if is_only else name, bank)
    return OpenBank(settings=settings, store=store, ledger=ledger, name=name)


def is_still_meant(bank: OpenBank, wanted: str) -> bool:
    """Tell whether a bank that was opened before is the one that is meant now, and sound.

    Others may have renamed or removed it since.

    Args:
        bank: The bank.
        wanted: As ``find_bank`` takes it.
    """
    ledger = bank.ledger if bank.bearer is None else bank.bearer.whole(bank.ledger)
    try:
        with ledger.reading() as view:
            name = view.authority.name
    except (VerificationError, UnknownBankError):
        return False
    digits = wanted.removeprefix(_PREFIX)
    is_id = len(digits) >= _LEAST_DIGITS and bank.id.startswith(_PREFIX + digits)
    return name == bank.name and (wanted == name or is_id)


def _held_bank(settings: Settings, store: Store, wanted: str | None, *, writes: bool) -> OpenBank:
    """Return the bank of the token that is presented; nothing is said of the others."""
    from satchel.bank.permissions import load_bearer

    bearer = load_bearer(settings)
    bank, name = bearer.chain.bank, None
    with store.reading() as reader:
        is_there = bank_exists(reader, bank)
        if is_there:
            name = name_of(reader, bank)
    digits = (wanted or bank).removeprefix(_PREFIX)
    is_meant = len(digits) >= _LEAST_DIGITS and bank.startswith(_PREFIX + digits)
    if not is_there or not (is_meant or wanted == name):
        raise TokenError("the token is not for this bank", field="bank")
    ledger = bearer.unasked(open_ledger(settings, store, bank, writes=writes))
    return OpenBank(settings=settings, store=store, ledger=ledger, name=name, bearer=bearer)


def chosen_bank(settings: Settings, store: Store, wanted: str | None) -> str:
    """Return the id of the bank of a store that is meant; see ``opened_bank``."""
    wanted = wanted or settings.options.store.bank or None
    if wanted is not None:
        try:
            return find_bank(store, wanted)
        except UnknownBankError as error:
            _require_unseen(settings, store, wanted)
            with store.reading() as reader:
                require_not_missing(settings, reader, wanted, "")
            raise _elsewhere(settings, wanted, error) from None
    default = default_bank(settings)
    with store.reading() as reader:
        if default is not None and bank_exists(reader, default):
            return default
        banks = reader.banks(limit=_MOST_NAMED + 1)
        if len(banks) > 1:
            raise _several(reader, banks)
    if not banks:
        raise UnknownBankError(
            "the store has no bank yet", file=store.name, hint="Create one: satchel init"
        )
    return banks[0]


class OwnStore(NamedTuple):
    """A store in amplihack's layout that one agent has to itself."""

    path: Path
    address: str

    @property
    def command(self) -> str:
        """How it is named on the command line."""
        return f"satchel --store {shlex.quote(self.address)}"


def own_store_of(settings: Settings, name: str) -> OwnStore | None:
    """Return the store of its own that an agent has in the layout; None for any other name.

    A store that was stated is taken as stated, and the agent's own store has its bank in it.

    Raises:
        PathRefusedError: If there is a link on the way.
    """
    selection = settings.selection.with_address(settings.options.store.address)
    if selection.choice.stated or not is_agent_name(name):
        return None
    named = selection.choice.backend if selection.said.backend else None
    for kind in store_selection.own_stores(settings.home, name):
        path = store_selection.own_path(settings.home, name, kind)
        own = OwnStore(path, address_of(kind, path))
        if named in (None, kind):
            return None if settings.options.store.address == own.address else own
    return None


def _elsewhere(settings: Settings, wanted: str | None, error: UnknownBankError) -> UnknownBankError:
    """Return what to raise for a bank that is not here, which may be an agent's elsewhere."""
    name = wanted or settings.options.store.bank
    own = own_store_of(settings, name)
    if own is None:
        return error
    return UnknownBankError(
        f"the agent {name!r} has its memory in its own store",
        file=str(own.path),
        hint=f"Use it: {own.command}.",
    )


def _several(reader: Reader, banks: Sequence[str]) -> UsageError:
    """Return the error for a store with several banks of which none is the default."""
    names = [name_of(reader, bank) or bank[len(_PREFIX) :][:_SHOWN] for bank in banks]
    listed = ", ".join(sorted(names[:_MOST_NAMED]))
    more = ", ..." if len(names) > _MOST_NAMED else ""
    return UsageError(
        f"several banks exist, and none is the default: {listed}{more}",
        field="bank",
        hint="Choose one with --bank NAME, or set the default: satchel bank use NAME",
    )


def _require_unseen(settings: Settings, store: Store, wanted: str) -> None:
    """Require that a bank that is not here was not here before either.

    One of which a copy to here is not complete is not gone.

    Raises:
        RolledBackError: If this machine saw it.
    """
    digits, witness = wanted.removeprefix(_PREFIX), witness_of(settings)
    if len(digits) < _LEAST_DIGITS or not _DIGITS.issuperset(digits):
        return
    here = {one.bank for one in witness.seen_here()} | set(witness.banks_without_store())
    for bank in witness.banks(_PREFIX + digits):
        if bank not in here:
            continue  # it is another store's
        last = witness.last(bank)
        with store.reading() as reader:
            is_begun = is_on_its_way(reader, bank)
        if last is not None and not is_begun:
            raise missing_bank_error(bank, last.head, store.name)


def find_bank(store: Store, wanted: str) -> str:
    """Return the id of the bank that a person means.

    Args:
        store: Where to look.
        wanted: Its name, its id, or the first six digits or more of that.

    Raises:
        UnknownBankError: If there is none.
        UsageError: If there are several.
    """
    with store.reading() as reader:
        if bank_exists(reader, wanted):
            return wanted
        digits = wanted.removeprefix(_PREFIX)
        found = find_by_name(reader, wanted)
        if not found and len(digits) >= _LEAST_DIGITS:
            found = starting(reader, digits)
        is_begun = not found and is_on_its_way(reader, wanted)
    if not found:
        hint = "See: satchel bank list. Or create it: satchel bank create NAME."
        if is_begun:
            hint = "A copy of it to this store is incomplete; resume it: satchel store copy."
        raise UnknownBankError(f"there is no bank {wanted!r} here", file=store.name, hint=hint)
    if len(found) > 1:
        raise UsageError(
            f"{len(found)} banks are named {wanted!r}",
            hint=f"Choose one: {', '.join(found)}",
        )
    return found[0]


def bank_exists(reader: Reader, bank: str) -> bool:
    """Tell whether a store has a bank of a whole id; one that is on its way here is none yet."""
    stored = reader.head(bank) if is_id(bank) else None
    return stored is not None and bool(stored.signed)


def is_on_its_way(reader: Reader, bank: str) -> bool:
    """Tell whether a copy of a bank of a whole id to this store is not complete."""
    stored = reader.head(bank) if is_id(bank) else None
    return stored is not None and not stored.signed


def starting(reader: Reader, digits: str) -> list[str]:
    """Return the ids of the banks whose hash starts with digits, sorted."""
    return reader.banks(_PREFIX + digits) if _DIGITS.issuperset(digits) else []


def banks_called(store: Store, name: str) -> list[str]:
    """Return the ids of the banks of a store that have a name; see ``called``."""
    with store.reading() as reader:
        return find_by_name(reader, name)


def find_by_name(reader: Reader, name: str) -> list[str]:
    """Return the ids of the banks that have a name, sorted; each is proved to have it.

    The store nominates those that say it anywhere, and nobody else can have it: a name is what a
    record says that stands in the log, and the bytes of that are searched. So nothing is kept that
    could be out of date, and what somebody forges is proved as all else, or refused.
    """
    try:
        said = bank_name_bytes(name)
    except ValueRefusedError:
        return []
    try:
        likely = reader.named(said)
    except StoreError:  # where it is damaged, a bank that is not is still found
        likely = reader.banks()
    return [bank for bank in likely if name_of(reader, bank) == name]


class BankNames:
    """The banks of a store by name, for whoever may ask for many names.

    Args:
        store: The store; None for none.
    """

    def __init__(self, store: Store | None) -> None:
        self._store = store
        self._known = dict[str, list[str]]()
        self._is_all = store is None

    def called(self, name: str) -> list[str]:
        """Return the ids of the banks that have a name, as when it was first asked for."""
        if name not in self._known and self._store is not None and not self._is_all:
            if len(self._known) < _ONE_BY_ONE:
                self._known[name] = banks_called(self._store, name)
            else:
                self._known, self._is_all = named_banks(self._store) | self._known, True
        return self._known.get(name, [])


def named_banks(store: Store) -> dict[str, list[str]]:
    """Return the ids of the banks that have each name."""
    found = dict[str, list[str]]()
    with store.reading() as reader:
        for bank in reader.banks():
            name = name_of(reader, bank)
            if name is not None:
                found.setdefault(name, []).append(bank)
    return found


def name_of(reader: Reader, bank: str) -> str | None:
    """Return what a bank is called, as its owner signed it last.

    Of a store that is not what was signed, the name from the record whose hash the bank's id is;
    whoever opens the bank is told what is wrong.
    """
    with suppress(VerificationError, StoreError):
        return read_bank_name(reader, bank)
    for row in reader.at(bank, [0]):
        try:
            record, model = open_record(row.body or b"")
        except InputError:
            return None
        if record.id == bank and isinstance(model, Bank):
            return model.name
    return None
