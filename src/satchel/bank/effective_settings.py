"""What holds for one bank: the file of this machine, the bank's own settings, its profile.

In this order: ``[banks.NAME]`` of the file, what the bank carries in its log, the profile that
they name (of the file, else the one that came with the bank), the defaults.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from satchel.config.tables import BankProfile, BankSettings, ConfigTables
from satchel.errors import MalformedError
from satchel.model.values import resolved

VERSION = 1
MARK = "_satchel_bank_config"
"""The member that says what the document is, and its version."""

_Kind = TypeVar("_Kind", bound=BankProfile)


class NamedProfile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A profile that goes along with the settings that name it."""

    name: str
    settings: BankProfile = BankProfile()


class BankConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A bank's configuration as a document, beside an archive of its memory."""

    version: int = msgspec.field(name=MARK)
    settings: BankSettings = BankSettings()
    profile: NamedProfile | None = None


def understood(document: Mapping[str, Any]) -> BankConfig:
    """Return what this version understands of a document; other members are left to be kept.

    Raises:
        MalformedError: If it is no such document, or a member has the wrong shape.
    """
    try:
        version = msgspec.convert(document.get(MARK), int)
    except msgspec.ValidationError:
        raise MalformedError("not a bank configuration", field=MARK) from None
    if version != VERSION:
        raise MalformedError(
            f"version {version} of a bank configuration is not supported", field=MARK
        )
    profile = document.get("profile")
    if profile is not None and not (
        isinstance(profile, Mapping) and isinstance(profile.get("name"), str)
    ):
        raise MalformedError("a profile name must not be empty", field="profile")
    return BankConfig(
        version=VERSION,
        settings=_known(document.get("settings", {}), BankSettings, "settings"),
        profile=None
        if profile is None
        else NamedProfile(
            name=profile["name"],
            settings=_known(profile.get("settings", {}), BankProfile, "profile/settings"),
        ),
    )


def _known(given: Any, kind: type[_Kind], where: str) -> _Kind:
    if not isinstance(given, Mapping):
        raise MalformedError("must be an object", field=where)
    names = set(kind.__struct_fields__)
    try:
        return msgspec.convert({name: given[name] for name in names & set(given)}, resolved(kind))
    except msgspec.ValidationError as error:
        raise MalformedError(str(error), field=where) from None


def of_file(options: ConfigTables, bank: str, name: str | None) -> BankSettings:
    """Return what the file says of a bank, by its id or else by its name."""
    found = options.banks.get(bank)
    if found is None and name is not None:
        found = options.banks.get(name)
    return found or BankSettings()


def effective(
    options: ConfigTables, bank: str, name: str | None, own: BankConfig | None = None
) -> BankSettings:
    """Return what holds for a bank, all told; ``profile`` names the one that counts.

    Args:
        options: The file of this machine.
        bank: The bank's id.
        name: Its name.
        own: What the bank carries in its log.
    """
    settings = over(of_file(options, bank, name), own.settings if own else BankSettings())
    chosen = settings.profile or options.profile or None
    profile = profile_of(options, chosen, own)
    if profile is not None:
        settings = over(settings, BankSettings(**members(profile)))
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


def over(first: BankSettings, second: BankSettings) -> BankSettings:
    """Return settings of which the first win; metadata is merged, name by name."""
    merged = {**members(second), **members(first)}
    metadata = {**second.metadata, **first.metadata}
    return BankSettings(**{**merged, "metadata": metadata})


def members(settings: BankProfile) -> dict[str, Any]:
    """Return what settings say, without what they leave open."""
    found = {name: getattr(settings, name) for name in type(settings).__struct_fields__}
    return {name: value for name, value in found.items() if value not in (None, {})}
