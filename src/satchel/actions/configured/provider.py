"""The provider that a configuration names: a store of our own, or a product that is talked to."""

from typing import Any

import msgspec

from satchel.actions.configured.files import ConfigFile

STORES = {"sqlite": "path", "ladybug": "path", "postgresql": "dsn"}
"""Providers that are stores, and the member of ``provider_config`` that says where each is."""

_ADDRESSES = ("uri", "address")


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """A product that memory is read from, and written to, where it lives."""

    name: str
    there: str = ""
    """Where it is, in its own words: a folder, or what follows ``NAME://``."""

    config: dict[str, Any] = {}
    """What else it needs."""

    @property
    def address(self) -> str:
        """What to call it."""
        return f"{self.name}://{'/' if self.there else ''}{self.there}"


def store_address(
    found: ConfigFile, provider: str, config: dict[str, Any], tier: Any = ""
) -> str | None:
    """Return the address of the store that a provider is; None where it is none.

    Raises:
        ConfigError: If it is of another tier than was said, or where it is was not said.
    """
    if not provider:
        if config:
            raise found.wrong("no provider is configured for this", "provider_config")
        return None
    kind = "storage" if provider in STORES or provider.startswith("astrocyte-") else "engine"
    if tier not in ("", kind):
        raise found.wrong(f"the provider {provider!r} is of the tier {kind}", "provider_tier")
    if provider not in STORES:
        return None
    member = STORES[provider]
    known = (member, *_ADDRESSES)
    unknown = [name for name in config if name not in known]
    if unknown:
        where = f"provider_config.{unknown[0]}"
        raise found.wrong("no such key", where, f"Known: {', '.join(known)}.")
    given = [name for name in known if config.get(name)]
    if len(given) != 1 or not isinstance(config[given[0]], str):
        raise found.wrong("the store's location is set twice", "provider_config", f"Set {member}.")
    text: str = config[given[0]]
    if given[0] == "path":
        return f"{provider}:///{text}"
    if not text.startswith(f"{provider}://"):
        where = f"provider_config.{given[0]}"
        raise found.wrong(f"does not start with {provider}://", where)
    return text


def engine_of(provider: str, config: dict[str, Any]) -> Provider | None:
    """Return the product that a provider is; None where it is a store, or none is set."""
    if not provider or provider in STORES:
        return None
    rest = dict(config)
    there = str(rest.pop("path", ""))
    for name in _ADDRESSES:
        if name in rest and not there:
            there = str(rest.pop(name)).removeprefix(f"{provider}://").removeprefix("/")
    return Provider(name=provider, there=there, config=rest)
