"""Reading a configuration file, TOML or YAML, and saying where something in it is wrong.

Astrocyte's ``astrocyte.yaml`` is read by the same model. What belongs to its pipeline alone has
no meaning here: it is left out by name, and told.
"""

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec

from satchel.actions.configured.sections import AgentSettings
from satchel.actions.configured.toml_files import line_of
from satchel.disk.reading import reading
from satchel.errors import ConfigError, MalformedError

YAML_ENDINGS = (".yaml", ".yml")

_MAX_FILE = 2**20
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

_ASTROCYTES = frozenset(
    {
        "access_control",
        "access_grants",
        "agents",
        "barriers",
        "compliance_profile",
        "deployment",
        "dlp",
        "escalation",
        "extraction_profiles",
        "homeostasis",
        "identity",
        "lifecycle",
        "mcp",
        "mip_config_path",
        "observability",
        "signal_quality",
        "sources",
        *(f"{kind}_store" for kind in ("graph", "document", "wiki", "mental_model", "source")),
        *(
            f"{kind}_store_config"
            for kind in ("graph", "document", "wiki", "mental_model", "source", "pageindex")
        ),
        "pageindex_store",
        *(f"{kind}_provider" for kind in ("llm", "embedding")),
        *(f"{kind}_provider_config" for kind in ("llm", "embedding")),
    }
)
_ASTROCYTES_OF_A_BANK = frozenset({"access", "barriers", "homeostasis", "signal_quality"})
_ASTROCYTES_PROFILES = frozenset({"coding", "minimal", "personal", "research", "support"})


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A configuration file that was read."""

    path: Path
    table: dict[str, Any] = field(default_factory=dict)
    line: Callable[[str], int | None] = lambda _: None
    """Gives the line of a key by its path, where that is known."""

    notes: list[str] = field(default_factory=list)
    """What was left out, for people."""

    def wrong(self, what: str, path: str, hint: str | None = None) -> ConfigError:
        """Return the error to raise about a key."""
        return ConfigError(
            what, file=str(self.path), line=self.line(path), field=path or None, hint=hint
        )


def is_yaml(path: Path) -> bool:
    """Tell whether a file is read as YAML, by its name."""
    return path.suffix.lower() in YAML_ENDINGS


def read_file(path: Path) -> ConfigFile:
    """Read a configuration file.

    Raises:
        UnreadableError: If it is not there or cannot be read.
        ConfigError: If it is not TOML or YAML.
    """
    with reading(path) as stream:
        data = stream.read(_MAX_FILE + 1)
    if len(data) > _MAX_FILE:
        raise ConfigError("the file is too large for a configuration", file=str(path))
    try:
        text = data.decode()
        if is_yaml(path):
            found = _from_yaml(text, path)
        else:
            found = ConfigFile(path, tomllib.loads(text), lambda wanted: line_of(text, wanted))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        what = "YAML" if is_yaml(path) else "TOML"
        raise ConfigError(f"not {what}: {error}", file=str(path)) from None
    except MalformedError as error:
        raise ConfigError(
            error.message, file=error.file, line=error.line, hint=error.hint
        ) from None
    return _ours(found)


def _from_yaml(text: str, path: Path) -> ConfigFile:
    from satchel.actions.configured.yaml_files import read_yaml

    value, lines = read_yaml(text, str(path))
    if not isinstance(value, dict):
        raise ConfigError("must be a table of names and values", file=str(path))
    return ConfigFile(path, value, lines.get)


def _ours(found: ConfigFile) -> ConfigFile:
    """Take Astrocyte's words for ours, and leave out what is its pipeline's alone."""
    table, left = dict(found.table), set[str]()
    if "vector_store" in table:
        if "provider" in table:
            raise found.wrong("both a provider and a vector store are configured", "vector_store")
        table["provider"] = f"astrocyte-{table.pop('vector_store')}"
        table["provider_config"] = table.pop("vector_store_config", {})
    elif table.get("provider_tier") == "storage" and "vector_store_config" in table:
        raise found.wrong("no vector store is configured for this", "vector_store_config")
    for name in sorted(_ASTROCYTES & set(table)):
        # `sources` could be ours one day; what is here belongs to Astrocyte.
        if name == "agents" and _are_ours(found.path, table[name]):
            continue
        del table[name]
        left.add(name)
    banks = table.get("banks")
    if isinstance(banks, dict):
        table["banks"] = {name: _bank_of(name, held, left) for name, held in banks.items()}
    known = table.get("profiles")
    if table.get("profile") in _ASTROCYTES_PROFILES and table["profile"] not in (known or {}):
        left.add(f"profile {table.pop('profile')}")
    if left:
        found.notes.append(f"specific to Astrocyte, ignored here: {', '.join(sorted(left))}")
    return ConfigFile(found.path, table, found.line, found.notes)


def _are_ours(path: Path, agents: Any) -> bool:
    """Tell whether a table of agents is ours: Astrocyte's files are YAML, and say other things."""
    members = {each.name for each in msgspec.structs.fields(AgentSettings)}
    tables = isinstance(agents, dict) and all(isinstance(one, dict) for one in agents.values())
    return not is_yaml(path) or (tables and all(set(one) <= members for one in agents.values()))


def _bank_of(name: str, held: Any, left: set[str]) -> Any:
    if not isinstance(held, dict):
        return held
    left.update(f"banks.{name}.{each}" for each in _ASTROCYTES_OF_A_BANK & set(held))
    return {each: value for each, value in held.items() if each not in _ASTROCYTES_OF_A_BANK}


def require_known(found: ConfigFile, model: type[msgspec.Struct]) -> None:
    """Refuse a key that a model does not have, naming the nearest one that it has.

    Raises:
        ConfigError: Naming file, key, and line where that is known.
    """
    _require(found, model, found.table, "")


def _require(found: ConfigFile, kind: Any, value: Any, path: str) -> None:
    inner = get_args(kind)
    if _is_struct(kind):
        _require_members(found, kind, value, path)
    elif get_origin(kind) is dict and inner[1] is not Any:
        if not isinstance(value, dict):
            raise found.wrong("must be a table", path)
        for name, held in value.items():
            _require(found, inner[1], held, f"{path}.{name}")
    elif get_origin(kind) is tuple and _is_struct(inner[0]):
        if not isinstance(value, list):
            raise found.wrong("must be a list of tables", path)
        for held in value:
            _require(found, inner[0], held, path)


def _require_members(found: ConfigFile, kind: type[msgspec.Struct], value: Any, path: str) -> None:
    if not isinstance(value, dict):
        raise found.wrong("must be a table", path)
    members = {each.encode_name: each.type for each in msgspec.structs.fields(kind)}
    for name, held in value.items():
        where = f"{path}.{name}" if path else name
        if name not in members:
            what = "no such section" if not path and isinstance(held, dict) else "no such key"
            raise found.wrong(what, where, nearest(name, members))
        _require(found, members[name], held, where)


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint: the name that was meant, or all there are."""
    from difflib import get_close_matches

    names = list(known)
    close = get_close_matches(name, names, n=1)
    return f"Did you mean {close[0]}?" if close else f"Known: {', '.join(names)}."


def with_variables(value: Any, env: Mapping[str, str], found: ConfigFile, path: str) -> Any:
    """Return a value with ``${NAME}`` in its texts replaced from the environment.

    Raises:
        ConfigError: If there is no such variable.
    """
    if isinstance(value, dict):
        return {name: with_variables(one, env, found, path) for name, one in value.items()}
    if isinstance(value, list):
        return [with_variables(one, env, found, path) for one in value]
    if not isinstance(value, str):
        return value

    def of(match: "re.Match[str]") -> str:
        if match[1] not in env:
            raise found.wrong(f"the environment has no {match[1]}", path, "Set the variable.")
        return env[match[1]]

    return _VARIABLE.sub(of, value)


def default_file(folder: Path, name: str) -> Path:
    """Return the configuration file of a folder; the YAML one where there is no TOML."""
    toml = folder / name
    stem = os.path.splitext(name)[0]  # noqa: PTH122 - a name, not a path
    others = (folder / f"{stem}{ending}" for ending in YAML_ENDINGS)
    return toml if toml.exists() else next((one for one in others if one.exists()), toml)
