"""Where the values of settings come from, and what of them may be shown."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from satchel.actions.configured.files import ConfigFile, nearest, with_variables
from satchel.actions.configured.provider import store_address
from satchel.actions.configured.sections import (
    AgentSettings,
    BankSettings,
    Declared,
    Profile,
)
from satchel.errors import ConfigError
from satchel.errors.addresses import shown_host, shown_place
from satchel.type_info import resolved

_IN_ENVIRONMENT = ("provider", "provider_tier", "profile")
_SECRET = re.compile(r"key|token|secret|pass|credential|dsn|auth", re.IGNORECASE)
_WEBHOOK = "webhook"  # its path is often the secret
_MASK = "***"
_AT = re.compile(r" - at `\$\.?([^`]*)`$")


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """One setting and where its value came from."""

    name: str
    value: Any
    origin: str
    """``default``, ``file``, the environment variable's name, or ``flag``."""

    variable: str
    """The environment variable that sets it; empty for what stands in the file only."""


def declared(found: ConfigFile, env: Mapping[str, str]) -> list[Value]:
    """Return what is set besides plain settings.

    Raises:
        ConfigError: If a variable that the file or the environment names is wrong.
    """
    values = []
    for name, default in msgspec.to_builtins(Declared()).items():
        variable = f"SATCHEL_{name}".upper() if name in _IN_ENVIRONMENT else ""
        if name == "provider_config":
            variable = "SATCHEL_PROVIDER_CONFIG"
        value, origin = default, "default"
        if variable and variable in env:
            value, origin = env[variable], variable
            if name == "provider_config":
                value = _object(value, variable)
        elif name in found.table:
            value, origin = found.table[name], "file"
        if name == "provider_config":
            value = with_variables(value, env, found, name)
        values.append(Value(name=name, value=value, origin=origin, variable=variable))
    return values


def _object(text: str, variable: str) -> Any:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        value = None
    if not isinstance(value, dict):
        raise ConfigError("not a JSON object", field=variable)
    return value


def with_provider(values: list[Value], said: list[Value], found: ConfigFile) -> list[Value]:
    """Return plain settings with the store that the provider is, where it is one.

    Args:
        values: Plain settings.
        said: What ``declared`` returned.
        found: The file, for errors.

    Raises:
        ConfigError: If the provider is wrong, or the file names another store besides.
    """
    named = {one.name: one for one in said}
    provider = named["provider"]
    # What nobody could mean is refused here; its shape is judged with all the rest.
    config, tier = named["provider_config"].value, named["provider_tier"].value
    if not isinstance(provider.value, str) or not isinstance(config, dict):
        return values
    address = store_address(found, provider.value, config, tier)
    if address is None:
        return values
    at, own = next((n, one) for n, one in enumerate(values) if one.name == "store.address")
    if own.origin in ("file", "default"):
        if own.origin == "file" and provider.origin == "file" and own.value:
            raise found.wrong("a provider, which is a store itself, is configured", "store.address")
        own = msgspec.structs.replace(own, value=address, origin=provider.origin)
    return [*values[:at], own, *values[at + 1 :]]


def require_profiles(options: Declared, found: ConfigFile) -> None:
    """Refuse the name of a profile that there is not.

    Raises:
        ConfigError: Naming the nearest.
    """
    named = {"profile": options.profile or None}
    named |= {f"banks.{name}.profile": bank.profile for name, bank in options.banks.items()}
    for where, name in named.items():
        if name is not None and name not in options.profiles:
            what = f"no profile named {name!r}"
            raise found.wrong(what, where, nearest(name, options.profiles or ["none yet"]))


def require_shapes(said: list[Value], found: ConfigFile) -> None:
    """Refuse a bank or profile with a value that is not what its key takes, naming which.

    Raises:
        ConfigError: Naming it.
    """
    for one in said:
        kind = {"banks": BankSettings, "profiles": Profile, "agents": AgentSettings}.get(one.name)
        if kind is None or not isinstance(one.value, dict):
            continue
        for name, held in one.value.items():
            try:
                msgspec.convert(held, resolved(kind))
            except msgspec.ValidationError as error:
                raise misfit(error, found, f"{one.name}.{name}") from None


def misfit(error: msgspec.ValidationError, found: ConfigFile, inside: str = "") -> ConfigError:
    """Return the error for a value that is not what its key takes, in a table."""
    text = str(error)
    at = _AT.search(text)
    path = re.sub(r"\[(\d+|\.\.\.)\]", "", at[1]).strip(".") if at else ""
    return found.wrong(text, ".".join(part for part in (inside, path) if part))


def shown(said: list[Value]) -> list[Value]:
    """Return settings as they may be shown: one line for each bank, profile and hook, no secrets.

    An address with a password in it is shown without.
    """
    lines = list[Value]()
    for one in said:
        if isinstance(one.value, dict) and one.name != "provider_config":
            for name, held in one.value.items():
                if held:
                    part = msgspec.structs.replace(one, name=f"{one.name}.{name}", value=held)
                    lines.append(masked(part))
        else:
            lines.append(masked(one))
    return lines


def masked(one: Value) -> Value:
    """Return a setting whose secrets are hidden."""
    return msgspec.structs.replace(one, value=_masked(one.value))


def _masked(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _masked(held, key) for key, held in value.items()}
    if isinstance(value, list):
        return [_masked(held, name) for held in value]
    if isinstance(value, str):
        # The name of a variable is no secret, though it names one.
        is_secret = bool(_SECRET.search(name)) and not name.endswith("_env")
        if is_secret and value:
            return _MASK
        return shown_host(value) if name == _WEBHOOK else shown_place(value)
    return value
