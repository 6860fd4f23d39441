"""Opening a bank: the default bank, effective settings, and finding a bank by name or ID."""

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
from satchel.model.values import (
    ID_PREFIX,
    id_digits,
    is_agent_name,
    is_id,
)
from satchel.ports.rows import Filter, bank_name_bytes
from satchel.ports.store import Reader, Store

if TYPE_CHECKING:  # not imported by commands without a token
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
    """Set the default bank of the store; None removes it."""
    location = written_place(settings.store)
    banks = {key: value for key, value in _read_default_banks(settings).items() if key != location}
    if bank is not None:
        banks[location] = bank
    private_folder(settings.home)
    text = json.dumps(banks, indent=1, sort_keys=True) + "\n"
    with atomic_write(settings.home / DEFAULT_BANKS_FILE, mode=PRIVATE_FILE) as stream:
        stream.write(text.encode("utf-8", "surrogateescape"))


def inherit_default_bank(
    target: Settings, chosen: str | None, banks: Collection[str]
) -> str | None:
    """Set the default bank of a copied store to that of the original, if it has none.

    Args:
        target: Settings with the store that was written.
        chosen: ID of the default bank of the original store.
        banks: IDs of the copied banks.

    Returns:
        ID of the default bank of the copy.
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
"""The member that identifies the document, with its version."""

_Kind = TypeVar("_Kind", bound=BankProfile)


class NamedProfile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A profile, with the name by which settings refer to it."""

    name: str
    settings: BankProfile = BankProfile()


class BankConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A bank's configuration as a document, stored beside an archive of its memory."""

    version: int = msgspec.field(name=CONFIG_MARK)
    settings: BankSettings = BankSettings()
    profile: NamedProfile | None = None


def parse_bank_config(document: Mapping[str, Any]) -> BankConfig:
    """Return a document as configuration, without members that this version does not know.

    Raises:
        MalformedError: If it is not such a document, or a member has the wrong shape.
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


def _convert_known(members: Any, kind: type[_Kind], where: str) -> _Kind:
    if not isinstance(members, Mapping):
        raise MalformedError("must be an object", field=where)
    names = set(kind.__struct_fields__)
    try:
        known = {name: members[name] for name in names & set(members)}
        return msgspec.convert(known, resolved(kind))
    except msgspec.ValidationError as error:
        raise MalformedError(str(error), field=where) from None


def file_settings(options: ConfigTables, bank: str, name: str | None) -> BankSettings:
    """Return a bank's settings in the configuration file, by its ID, else by its name."""
    settings = options.banks.get(bank)
    if settings is None and name is not None:
        settings = options.banks.get(name)
    return settings or BankSettings()


def effective_settings(
    options: ConfigTables, bank: str, name: str | None, own: BankConfig | None = None
) -> BankSettings:
    """Return the effective settings of a bank; ``profile`` names the profile that was applied.

    The first that sets a value wins: ``[banks.NAME]`` of the configuration file, the bank's own
    settings in its log, the profile that they name (of the file, else the bank's), the defaults.

    Args:
        options: The configuration file of this machine.
        bank: ID of the bank.
        name: Its name.
        own: The configuration in the bank's log.
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
    """Return a profile by name: from the configuration file, else from the bank."""
    if name is None:
        return None
    carried = own.profile if own is not None else None
    return options.profiles.get(name) or (
        carried.settings if carried is not None and carried.name == name else None
    )


def merge_settings(first: BankSettings, second: BankSettings) -> BankSettings:
    """Merge settings; the first take precedence, and metadata is merged by name."""
    merged = {**set_members(second), **set_members(first)}
    metadata = {**second.metadata, **first.metadata}
    return BankSettings(**{**merged, "metadata": metadata})


def set_members(settings: BankProfile) -> dict[str, Any]:
    """Return the settings that have a value, by name."""
    values = {name: getattr(settings, name) for name in type(settings).__struct_fields__}
    return {name: value for name, value in values.items() if value not in (None, {})}


SETTINGS = "settings"
"""Action of the config record with a bank's own settings."""

_CONFIGS = Filter(types=frozenset({"config"}))
_ADMISSION = 1
_MOST_NAMED = 8
_SHOWN = 12
_ONE_BY_ONE = 16
"""Names that are looked up one by one; for more, the names of all banks are read once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenBank:
    """One bank of an open store."""

    settings: Settings
    store: Store
    ledger: Ledger
    name: str | None
    bearer: "Bearer | None" = None
    """The holder of the token that was presented; None for the owner."""

    @property
    def id(self) -> str:
        """ID of the bank."""
        return self.ledger.bank

    def asked(self, action: str) -> "OpenBank":
        """Return the bank as an action may see it. Every action on a bank starts with this call.

        For the owner, this is the bank itself; for the holder of a token, the part that the token
        covers. Before the call, a holder can read nothing.

        Args:
            action: One of ``permissions.NEEDS``. Actions that only the owner may do call
                ``require_owner`` instead.

        Raises:
            TokenError: If the token is not valid, or no longer.
            PermissionRefusedError: If it does not allow the action.
        """
        if self.bearer is None:
            return self
        return replace(self, ledger=self.bearer.asked(self.ledger, action))

    def shows(self, permission: str) -> bool:
        """Return whether output may include what needs a further permission."""
        return self.bearer is None or permission in self.bearer.chain.permissions

    def document(self, view: View) -> dict[str, Any]:
        """Return the configuration in the bank's log; empty if there is none."""
        if view.head.counts.get("config", 0) <= _ADMISSION:
            return {}
        for logged in view.whole.newest(_CONFIGS):
            value = logged.record.value
            if value.get("action") == SETTINGS and value["payload"].get("bank") == self.id:
                document = value["payload"].get("document")
                return document if isinstance(document, dict) else {}
        return {}

    def settled(self, view: View) -> BankSettings:
        """Return the effective settings of the bank; see ``effective_settings``."""
        document, own = self.document(view), None
        if document:
            with suppress(InputError):  # written by a later version
                own = parse_bank_config(document)
        return effective_settings(self.settings.options, self.id, self.name, own)

    def own_config(self, view: View) -> BankConfig | None:
        """Return the bank's own configuration, as far as this version knows it."""
        document = self.document(view)
        return parse_bank_config(document) if document else None

    def tell(
        self,
        event: str,
        ids: Sequence[str] = (),
        counts: Mapping[str, int] | None = None,
        content: Contents | None = None,
    ) -> None:
        """Run the hooks of an event of the bank; see ``Hooks.tell``."""
        self.settings.hooks.tell(
            event, bank=(self.id, self.name), ids=ids, counts=counts, content=content
        )


@contextmanager
def open_bank(
    settings: Settings, reference: str | None = None, *, writes: bool = False
) -> Iterator[OpenBank]:
    """Open the configured store and one of its banks, and close the store at the end.

    Args:
        settings: Settings with the store and the keys.
        reference: The bank, as for ``find_bank``; None for the one of the setting ``store.bank``,
            else the default bank.
        writes: Whether records will be appended.

    Raises:
        UnknownBankError: If there is no such bank.
        UsageError: If there are several, and none is the default.
        StoreError: If the store cannot be opened.
    """
    if not has_store(settings):
        missing = UnknownBankError("there is no store yet", hint="Create one: satchel init")
        raise missing if settings.token is not None else _elsewhere(settings, reference, missing)
    with configured_store(settings, read_only=not writes, for_holder=True) as store:
        yield open_bank_in(settings, store, reference, writes=writes)


def open_bank_in(
    settings: Settings, store: Store, reference: str | None = None, *, writes: bool = False
) -> OpenBank:
    """Return one bank of an open store; see ``open_bank``.

    With a token, it is the bank of the token, and nothing can be read before ``OpenBank.asked``.
    """
    if settings.token is not None:
        return _held_bank(settings, store, reference, writes=writes)
    bank = chosen_bank(settings, store, reference)
    ledger = open_ledger(settings, store, bank, writes=writes)
    with store.reading() as reader:
        name = name_of(reader, bank)
        is_only = not reference and not settings.options.store.bank
        require_not_missing(settings, reader, None if is_only else name, bank)
    return OpenBank(settings=settings, store=store, ledger=ledger, name=name)


def still_matches(bank: OpenBank, reference: str) -> bool:
    """Check whether an open bank still has a name or ID, and still verifies.

    It may have been renamed or removed since it was opened.

    Args:
        bank: The bank.
        reference: The name or ID, as for ``find_bank``.
    """
    ledger = bank.ledger if bank.bearer is None else bank.bearer.whole(bank.ledger)
    try:
        with ledger.reading() as view:
            name = view.authority.name
    except (VerificationError, UnknownBankError):
        return False
    return name == bank.name and (reference == name or _names(reference, bank.id))


def _names(reference: str, bank: str) -> bool:
    """Return whether a text is the ID of a bank or a prefix of it."""
    digits = id_digits(reference)
    return digits is not None and bank.startswith(ID_PREFIX + digits)


def _held_bank(
    settings: Settings, store: Store, reference: str | None, *, writes: bool
) -> OpenBank:
    """Return the bank of the presented token, without a word about other banks."""
    from satchel.bank.permissions import load_bearer

    bearer = load_bearer(settings)
    bank, name = bearer.chain.bank, None
    with store.reading() as reader:
        exists = bank_exists(reader, bank)
        if exists:
            name = name_of(reader, bank)
    if not exists or not (_names(reference or bank, bank) or reference == name):
        raise TokenError("the token is not for this bank", field="bank")
    ledger = bearer.unasked(open_ledger(settings, store, bank, writes=writes))
    return OpenBank(settings=settings, store=store, ledger=ledger, name=name, bearer=bearer)


def chosen_bank(settings: Settings, store: Store, reference: str | None) -> str:
    """Return the ID of the bank to open in a store; see ``open_bank``."""
    reference = reference or settings.options.store.bank or None
    if reference is not None:
        try:
            return find_bank(store, reference)
        except UnknownBankError as error:
            _require_unseen(settings, store, reference)
            with store.reading() as reader:
                require_not_missing(settings, reader, reference, "")
            raise _elsewhere(settings, reference, error) from None
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
    """The store of a single agent in amplihack's layout."""

    path: Path
    address: str

    @property
    def command(self) -> str:
        """The command that uses it."""
        return f"satchel --store {shlex.quote(self.address)}"


def own_store_of(settings: Settings, name: str) -> OwnStore | None:
    """Return an agent's own store in amplihack's layout; None if it has none.

    A store that was chosen explicitly is used as it is, so this returns None for it.

    Raises:
        PathRefusedError: If the path contains a link.
    """
    selection = settings.selection.with_address(settings.options.store.address)
    if selection.choice.stated or not is_agent_name(name):
        return None
    named = selection.choice.backend if selection.request.backend else None
    for kind in store_selection.own_stores(settings.home, name):
        path = store_selection.own_path(settings.home, name, kind)
        own = OwnStore(path, address_of(kind, path))
        if named in (None, kind):
            return None if settings.options.store.address == own.address else own
    return None


def _elsewhere(
    settings: Settings, reference: str | None, error: UnknownBankError
) -> UnknownBankError:
    """Return the error for a bank that is not in the store; an agent may have it elsewhere."""
    name = reference or settings.options.store.bank
    own = own_store_of(settings, name)
    if own is None:
        return error
    return UnknownBankError(
        f"the agent {name!r} has its memory in its own store",
        file=str(own.path),
        hint=f"Use it: {own.command}.",
    )


def _several(reader: Reader, banks: Sequence[str]) -> UsageError:
    """Return the error for a store with several banks and no default."""
    names = [name_of(reader, bank) or bank[len(ID_PREFIX) :][:_SHOWN] for bank in banks]
    listed = ", ".join(sorted(names[:_MOST_NAMED]))
    more = ", ..." if len(names) > _MOST_NAMED else ""
    return UsageError(
        f"several banks exist, and none is the default: {listed}{more}",
        field="bank",
        hint="Choose one with --bank NAME, or set the default: satchel bank use NAME",
    )


def _require_unseen(settings: Settings, store: Store, reference: str) -> None:
    """Refuse a bank that this machine has seen in the store and that is missing from it.

    A bank whose copy to this store is incomplete is not missing.

    Raises:
        RolledBackError: If this machine has seen the bank.
    """
    digits, witness = id_digits(reference), witness_of(settings)
    if digits is None:
        return
    here = {seen.bank for seen in witness.seen_here()} | set(witness.banks_without_store())
    for bank in witness.banks(ID_PREFIX + digits):
        if bank not in here:
            continue  # a bank of another store
        last = witness.last(bank)
        with store.reading() as reader:
            is_incomplete = is_partial_copy(reader, bank)
        if last is not None and not is_incomplete:
            raise missing_bank_error(bank, last.head, store.name)


def find_bank(store: Store, reference: str) -> str:
    """Return the ID of a bank by name, ID or ID prefix.

    Args:
        store: The store.
        reference: Its name, its ID, or at least the first six digits of the ID.

    Raises:
        UnknownBankError: If there is no such bank.
        UsageError: If several banks match.
    """
    with store.reading() as reader:
        if bank_exists(reader, reference):
            return reference
        digits = id_digits(reference)
        matches = find_by_name(reader, reference)
        if not matches and digits is not None:
            matches = reader.banks(ID_PREFIX + digits)
        is_incomplete = not matches and is_partial_copy(reader, reference)
    if not matches:
        hint = "See: satchel bank list. Or create it: satchel bank create NAME."
        if is_incomplete:
            hint = "A copy of it to this store is incomplete; resume it: satchel store copy."
        raise UnknownBankError(f"there is no bank {reference!r} here", file=store.name, hint=hint)
    if len(matches) > 1:
        raise UsageError(
            f"{len(matches)} banks are named {reference!r}",
            hint=f"Choose one: {', '.join(matches)}",
        )
    return matches[0]


def bank_exists(reader: Reader, bank: str) -> bool:
    """Return whether a store has the bank of a full ID; an incomplete copy does not count."""
    stored = reader.head(bank) if is_id(bank) else None
    return stored is not None and bool(stored.signed)


def is_partial_copy(reader: Reader, bank: str) -> bool:
    """Return whether a store has an incomplete copy of the bank of a full ID."""
    stored = reader.head(bank) if is_id(bank) else None
    return stored is not None and not stored.signed


def banks_called(store: Store, name: str) -> list[str]:
    """Return the IDs of the banks of a store that have a name; see ``find_by_name``."""
    with store.reading() as reader:
        return find_by_name(reader, name)


def find_by_name(reader: Reader, name: str) -> list[str]:
    """Return the IDs of the banks that have a name, sorted. The name of each is verified.

    The store searches the bytes of the log for the name, which finds every bank that has it. No
    index of names is stored, so none can be out of date or forged.
    """
    try:
        pattern = bank_name_bytes(name)
    except ValueRefusedError:
        return []
    try:
        likely = reader.named(pattern)
    except StoreError:  # in a damaged store, undamaged banks are still found
        likely = reader.banks()
    return [bank for bank in likely if name_of(reader, bank) == name]


class BankNames:
    """The banks of a store by name, cached for many lookups.

    Args:
        store: The store; None if there is none.
    """

    def __init__(self, store: Store | None) -> None:
        self._store = store
        self._known = dict[str, list[str]]()
        self._is_all = store is None

    def called(self, name: str) -> list[str]:
        """Return the IDs of the banks that have a name, as of the first lookup of it."""
        if name not in self._known and self._store is not None and not self._is_all:
            if len(self._known) < _ONE_BY_ONE:
                self._known[name] = banks_called(self._store, name)
            else:
                self._known, self._is_all = named_banks(self._store) | self._known, True
        return self._known.get(name, [])


def named_banks(store: Store) -> dict[str, list[str]]:
    """Return the IDs of the banks by name."""
    banks = dict[str, list[str]]()
    with store.reading() as reader:
        for bank in reader.banks():
            name = name_of(reader, bank)
            if name is not None:
                banks.setdefault(name, []).append(bank)
    return banks


def name_of(reader: Reader, bank: str) -> str | None:
    """Return the name of a bank, as its owner signed it last.

    If the store does not verify, it is the name in the record whose hash is the bank's ID; opening
    the bank reports the problem.
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
