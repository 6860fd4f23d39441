"""The two ends of a migration, from what a person says: two configurations, or two addresses."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from satchel.actions.config import Settings, load_settings
from satchel.actions.configured.provider import STORES
from satchel.errors import UsageError

_OF_A_STORE = frozenset(
    {
        "SATCHEL_STORE",
        "SATCHEL_MEMORY_BACKEND",
        "SATCHEL_GRAPH_DB_PATH",
        "AMPLIHACK_MEMORY_BACKEND",
        "AMPLIHACK_GRAPH_DB_PATH",
        "AMPLIHACK_KUZU_DB_PATH",
        "SATCHEL_BANK",
        "SATCHEL_PROVIDER",
        "SATCHEL_PROVIDER_TIER",
        "SATCHEL_PROVIDER_CONFIG",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """What is to be left, and what to go to: as configurations, or as addresses."""

    from_config: Path | None = None
    to_config: Path | None = None
    from_store: str | None = None
    to_store: str | None = None


def ends(
    said: Ends, *, home: Path | None = None, config: Path | None = None
) -> tuple[Settings, ...]:
    """Return the surroundings of both ends; what the environment says of a store is for neither.

    Args:
        said: The ends.
        home: Where keys and trust are, as for ``load_settings``.
        config: The configuration that holds for addresses.

    Raises:
        UsageError: If one end is missing, or said in both ways.
        ConfigError: If a configuration is wrong.
    """
    configs, stores = (said.from_config, said.to_config), (said.from_store, said.to_store)
    env = {name: value for name, value in os.environ.items() if name not in _OF_A_STORE}
    if all(configs) and not any(stores):
        return tuple(_settings(home, one, None, env) for one in configs)
    if all(stores) and not any(configs):
        return tuple(_settings(home, config, one, env) for one in stores)
    raise UsageError(
        "two stores or two configurations are required",
        hint="Use --from-config and --to-config, or FROM and TO.",
    )


def _settings(
    home: Path | None, config: Path | None, store: str | None, env: Mapping[str, str]
) -> Settings:
    scheme, is_address, there = (store or "").partition("://")
    if is_address and scheme not in STORES:
        place = {"path": there.removeprefix("/")}
        provider = {"PROVIDER": scheme, "PROVIDER_CONFIG": json.dumps(place)}
        env = {**env, **{f"SATCHEL_{name}": value for name, value in provider.items()}}
        store = None
    return load_settings(home=home, config=config, store=store, environment=env)
