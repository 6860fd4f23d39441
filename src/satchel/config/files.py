"""Configuration files in TOML or YAML, with the position of each error.

Astrocyte's ``astrocyte.yaml`` is read by the same model. Keys of its pipeline have no meaning here:
they are ignored, and listed in a note.
"""

import json
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

import msgspec

from satchel.config.tables import AgentSettings
from satchel.errors import ConfigError, MalformedError, UsageError
from satchel.runtime.files import PRIVATE_FILE, PRIVATE_FOLDER, atomic_write, open_input

if TYPE_CHECKING:
    import yaml

_BARE = re.compile(r"^[A-Za-z0-9_-]+$")
_TABLE = re.compile(r"^\s*\[\[?\s*(.+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*((?:"[^"]*"|'[^']*'|[A-Za-z0-9_.\s-])+?)\s*=""")
_PART = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*(?:\.|$)""")


def line_of(text: str, key_path: str) -> int | None:
    """Return the line, from 1, of the first occurrence of a key or table; None if it is unclear.

    Args:
        text: A valid TOML document.
        key_path: The path of the key, such as ``banks.ada.profile``.
    """
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        heading = _TABLE.match(line)
        if heading is not None:
            table = path = _path(heading[1])
        else:
            key = _KEY.match(line)
            if key is None:
                continue
            path = ".".join(part for part in (table, _path(key[1])) if part)
        if path == key_path or path.startswith(key_path + "."):
            return number
    return None


def _path(text: str) -> str:
    return ".".join(next(filter(None, part), "") for part in _PART.findall(text))


def to_toml(table: Mapping[str, Any]) -> str:
    """Return plain values as a TOML document.

    Raises:
        UsageError: If TOML cannot represent a value, such as a null.
    """
    lines = list[str]()
    _write(table, (), lines)
    return "\n".join(lines).strip() + "\n"


def _write(table: Mapping[str, Any], path: tuple[str, ...], lines: list[str]) -> None:
    tables = {
        name: value for name, value in table.items() if _is_table(value) or _are_tables(value)
    }
    for name, value in table.items():
        if name not in tables:
            lines.append(f"{_name(name)} = {_value(value, (*path, name))}")
    for name, value in tables.items():
        inner = (*path, name)
        heading = ".".join(map(_name, inner))
        if _is_table(value):
            if not value or any(
                not (_is_table(item) or _are_tables(item)) for item in value.values()
            ):
                lines += ["", f"[{heading}]"]
            _write(value, inner, lines)
            continue
        for item in value:
            lines += ["", f"[[{heading}]]"]
            _write(item, inner, lines)


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _are_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_table, value))


def _name(name: str) -> str:
    return name if _BARE.match(name) else _text(name)


def _text(text: str) -> str:
    # TOML escapes like JSON, and one more control character.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any, path: tuple[str, ...]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, list):
        return "[" + ", ".join(_value(one, path) for one in value) + "]"
    if _is_table(value):
        inner = (f"{_name(name)} = {_value(one, path)}" for name, one in value.items())
        return "{" + ", ".join(inner) + "}"
    raise UsageError("this cannot be written as TOML", field=".".join(path))


def with_table(text: str, path: tuple[str, str], value: Mapping[str, Any] | None) -> str:
    """Return a TOML document with one table replaced and everything else unchanged.

    Comments and the order of everything else stay. The old table is found by its headings.

    Args:
        text: A valid TOML document.
        path: Path of the table, such as ``("agents", "syn")``.
        value: Its new content; None to remove it.

    Raises:
        UsageError: If the table is written inside another one.
    """
    expected = tomllib.loads(text)
    outer = expected.setdefault(path[0], {})
    if value is None:
        outer.pop(path[1], None)
        if not outer:
            del expected[path[0]]
    else:
        outer[path[1]] = value
    edited = _without_table(text, path).rstrip("\n")
    edited += "\n" if edited else ""
    if value is not None:
        edited += ("\n" if edited else "") + to_toml({path[0]: {path[1]: value}})
    try:
        parsed = tomllib.loads(edited)
    except tomllib.TOMLDecodeError:  # the table exists without a heading
        parsed = {}
    if value is None and not parsed.get(path[0], True):
        del parsed[path[0]]
    if parsed != expected:
        hint = f"Write it as a table of its own: [{path[0]}.{_name(path[1])}]."
        raise UsageError("this value cannot be edited in place", field=path[0], hint=hint)
    return edited


def _without_table(text: str, path: tuple[str, str]) -> str:
    lines, skipped, start = list[str](), False, ".".join(path)
    for line in text.splitlines(keepends=True):
        heading = _TABLE.match(line)
        if heading is not None:
            table = _path(heading[1])
            skipped = table == start or table.startswith(start + ".")
        if not skipped:
            lines.append(line)
    return "".join(lines)


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
    """Returns the line of a key by its path, if known."""

    notes: list[str] = field(default_factory=list)
    """Notices for people, such as ignored keys."""

    def wrong(self, message: str, path: str, hint: str | None = None) -> ConfigError:
        """Return the error about a key."""
        return ConfigError(
            message, file=str(self.path), line=self.line(path), field=path or None, hint=hint
        )


def is_yaml(path: Path) -> bool:
    """Return whether a file is read as YAML, according to its name."""
    return path.suffix.lower() in YAML_ENDINGS


def read_file(path: Path) -> ConfigFile:
    """Read a configuration file.

    Raises:
        UnreadableError: If it does not exist or cannot be read.
        ConfigError: If it is not TOML or YAML.
    """
    with open_input(path) as stream:
        data = stream.read(_MAX_FILE + 1)
    if len(data) > _MAX_FILE:
        raise ConfigError("the file is too large for a configuration", file=str(path))
    try:
        text = data.decode()
        if is_yaml(path):
            config = _from_yaml(text, path)
        else:
            config = ConfigFile(path, tomllib.loads(text), lambda key: line_of(text, key))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        what = "YAML" if is_yaml(path) else "TOML"
        raise ConfigError(f"not {what}: {error}", file=str(path)) from None
    except MalformedError as error:
        raise ConfigError(
            error.message, file=error.file, line=error.line, hint=error.hint
        ) from None
    return _translate_astrocyte(config)


def _from_yaml(text: str, path: Path) -> ConfigFile:

    value, lines = read_yaml(text, str(path))
    if not isinstance(value, dict):
        raise ConfigError("must be a table of names and values", file=str(path))
    return ConfigFile(path, value, lines.get)


def _translate_astrocyte(config: ConfigFile) -> ConfigFile:
    """Translate Astrocyte's keys, and remove those of its pipeline."""
    table, left = dict(config.table), set[str]()
    if "vector_store" in table:
        if "provider" in table:
            raise config.wrong("both a provider and a vector store are configured", "vector_store")
        table["provider"] = f"astrocyte-{table.pop('vector_store')}"
        table["provider_config"] = table.pop("vector_store_config", {})
    elif table.get("provider_tier") == "storage" and "vector_store_config" in table:
        raise config.wrong("no vector store is configured for this", "vector_store_config")
    for name in sorted(_ASTROCYTES & set(table)):
        # `sources` may get a meaning here; in these files it belongs to Astrocyte.
        if name == "agents" and _are_agent_settings(config.path, table[name]):
            continue
        del table[name]
        left.add(name)
    banks = table.get("banks")
    if isinstance(banks, dict):
        table["banks"] = {name: _translate_bank(name, held, left) for name, held in banks.items()}
    known = table.get("profiles")
    if table.get("profile") in _ASTROCYTES_PROFILES and table["profile"] not in (known or {}):
        left.add(f"profile {table.pop('profile')}")
    if left:
        config.notes.append(f"specific to Astrocyte, ignored here: {', '.join(sorted(left))}")
    return ConfigFile(config.path, table, config.line, config.notes)


def _are_agent_settings(path: Path, agents: Any) -> bool:
    """Return whether a table of agents is Satchel's: Astrocyte's is in YAML and has other keys."""
    members = {each.name for each in msgspec.structs.fields(AgentSettings)}
    tables = isinstance(agents, dict) and all(isinstance(one, dict) for one in agents.values())
    return not is_yaml(path) or (tables and all(set(one) <= members for one in agents.values()))


def _translate_bank(name: str, table: Any, left: set[str]) -> Any:
    if not isinstance(table, dict):
        return table
    left.update(f"banks.{name}.{each}" for each in _ASTROCYTES_OF_A_BANK & set(table))
    return {each: value for each, value in table.items() if each not in _ASTROCYTES_OF_A_BANK}


def require_known(config: ConfigFile, model: type[msgspec.Struct]) -> None:
    """Refuse a key that a model does not have, and suggest the nearest one.

    Raises:
        ConfigError: With the file, the key, and the line if known.
    """
    _require(config, model, config.table, "")


def _require(config: ConfigFile, kind: Any, value: Any, path: str) -> None:
    inner = get_args(kind)
    if _is_struct(kind):
        _require_members(config, kind, value, path)
    elif get_origin(kind) is dict and inner[1] is not Any:
        if not isinstance(value, dict):
            raise config.wrong("must be a table", path)
        for name, item in value.items():
            _require(config, inner[1], item, f"{path}.{name}")
    elif get_origin(kind) is tuple and _is_struct(inner[0]):
        if not isinstance(value, list):
            raise config.wrong("must be a list of tables", path)
        for item in value:
            _require(config, inner[0], item, path)


def _require_members(config: ConfigFile, kind: type[msgspec.Struct], value: Any, path: str) -> None:
    if not isinstance(value, dict):
        raise config.wrong("must be a table", path)
    members = {each.encode_name: each.type for each in msgspec.structs.fields(kind)}
    for name, item in value.items():
        where = f"{path}.{name}" if path else name
        if name not in members:
            what = "no such section" if not path and isinstance(item, dict) else "no such key"
            raise config.wrong(what, where, nearest(name, members))
        _require(config, members[name], item, where)


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the nearest name, or all names."""
    from difflib import get_close_matches

    names = list(known)
    close = get_close_matches(name, names, n=1)
    return f"Did you mean {close[0]}?" if close else f"Known: {', '.join(names)}."


def with_variables(value: Any, env: Mapping[str, str], config: ConfigFile, path: str) -> Any:
    """Return a value with ``${NAME}`` in its texts replaced from the environment.

    Raises:
        ConfigError: If the variable is not set.
    """
    if isinstance(value, dict):
        return {name: with_variables(one, env, config, path) for name, one in value.items()}
    if isinstance(value, list):
        return [with_variables(one, env, config, path) for one in value]
    if not isinstance(value, str):
        return value

    def of(match: "re.Match[str]") -> str:
        if match[1] not in env:
            raise config.wrong(f"the environment has no {match[1]}", path, "Set the variable.")
        return env[match[1]]

    return _VARIABLE.sub(of, value)


def default_file(folder: Path, name: str) -> Path:
    """Return the configuration file of a folder; the YAML one if there is no TOML."""
    toml = folder / name
    stem = os.path.splitext(name)[0]  # noqa: PTH122 - a name, not a path
    others = (folder / f"{stem}{ending}" for ending in YAML_ENDINGS)
    return toml if toml.exists() else next((one for one in others if one.exists()), toml)


Lines = dict[str, int]
"""Line numbers, from 1, by the path of a key such as ``banks.ada.profile``."""

DEEPEST = 32
"""Maximum depth of nested tables."""

_PLAIN = {"null": None, "true": True, "false": False}
_TAG = "tag:yaml.org,2002:"


def read_yaml(text: str, file: str) -> tuple[Any, Lines]:
    """Return the value of a YAML document, and the lines of its keys.

    Raises:
        ConfigError: If the YAML library is not installed.
        MalformedError: If it is not YAML, or has more than plain values.
    """
    try:
        import yaml
    except ImportError:
        raise ConfigError(
            "reading YAML needs PyYAML",
            file=file,
            hint="Reinstall satchel, or write the file as TOML.",
        ) from None
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            _require_plain(event, yaml, file)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        lines: Lines = {}
        value = (
            {} if node is None else _YamlReader(yaml.SafeLoader(""), file, lines).value(node, "")
        )
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or "it cannot be read"
        line = None if mark is None else mark.line + 1
        raise MalformedError(f"not YAML: {reason}", file=file, line=line) from None
    except (RecursionError, ValueError) as error:
        raise MalformedError(f"not YAML: {error}", file=file) from None
    return value, lines


def _require_plain(event: Any, yaml: Any, file: str) -> None:
    line = event.start_mark.line + 1 if event.start_mark is not None else None
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
        raise MalformedError(
            "anchors and aliases are not supported",
            file=file,
            line=line,
            hint="Write the value out.",
        )
    tag = getattr(event, "tag", None)
    if tag is not None and tag != "!":
        raise MalformedError(f"YAML tags are not supported: {tag}", file=file, line=line)


class _YamlReader:
    """The conversion of one document to plain values."""

    def __init__(self, loader: "yaml.SafeLoader", file: str, lines: Lines) -> None:
        self._loader = loader
        self._file = file
        self._lines = lines

    def value(self, node: Any, path: str, depth: int = 0) -> Any:
        if depth > DEEPEST:
            raise self._refused("nested too deeply", node)
        if node.id == "scalar":
            return self._scalar(node)
        if node.id == "sequence":
            return [self.value(each, path, depth + 1) for each in node.value]
        table = dict[str, Any]()
        for key, node_value in node.value:
            name = key.value if key.id == "scalar" else None
            if name is None or key.tag == _TAG + "merge":
                raise self._refused("not a valid key name", key)
            if name in table:
                raise self._refused(f"{name} occurs twice", key)
            where = f"{path}.{name}" if path else name
            self._lines[where] = key.start_mark.line + 1
            table[name] = self.value(node_value, where, depth + 1)
        return table

    def _scalar(self, node: Any) -> Any:
        kind = node.tag.removeprefix(_TAG)
        if kind in ("int", "float", "bool", "null"):
            # YAML 1.1 reads `no` as a boolean; YAML 1.2, and people who write names, do not.
            if kind == "bool" and node.value.lower() not in _PLAIN:
                return node.value
            return self._loader.construct_object(node)
        return node.value

    def _refused(self, problem: str, node: Any) -> MalformedError:
        return MalformedError(problem, file=self._file, line=node.start_mark.line + 1)


class Activation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of replacing the active configuration."""

    file: str
    """The active file."""

    kept: str | None = None
    """The path of the saved old content; None if there was none, or it did not change."""

    changed: bool = True
    """False if the content was the same."""


def activate(new: Path, active: Path) -> Activation:
    """Replace the content of the active configuration file.

    The old content is durable under another name before the file changes, and the file changes in
    one step: a concurrent reader sees the old or the new content. If the file is a link, its target
    changes.

    Args:
        new: The new configuration.
        active: The default configuration file; created if it does not exist. If one is YAML and the
            other TOML, the content is converted, without its comments.

    Raises:
        TargetError: If it cannot be written; it is unchanged.
        ConfigError: If the new one cannot be read.
    """
    target = active.resolve()
    data = _content(new, as_yaml=is_yaml(target))
    if not target.exists():
        target.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        with atomic_write(target, overwrite=False, mode=PRIVATE_FILE) as stream:
            stream.write(data)
        return Activation(file=str(active))
    with open_input(target) as stream:
        old, mode = stream.read(), target.stat().st_mode & 0o777
    if old == data:
        return Activation(file=str(active), changed=False)
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    saved = target.with_name(f"{target.name}.before-{moment}")
    with atomic_write(saved, overwrite=False, mode=mode) as stream:
        stream.write(old)
    with atomic_write(target, mode=mode) as stream:
        stream.write(data)
    return Activation(file=str(active), kept=str(saved))


def _content(new: Path, *, as_yaml: bool) -> bytes:
    if is_yaml(new) is as_yaml:
        with open_input(new) as stream:
            return stream.read()
    table = without_nulls(read_file(new).table)
    if as_yaml:
        import yaml

        return yaml.safe_dump(table, sort_keys=False, allow_unicode=True, encoding="utf-8")
    return to_toml(table).encode()


def without_nulls(value: Any) -> Any:
    """Return a value without the nulls, which TOML cannot represent."""
    if isinstance(value, dict):
        return {name: without_nulls(held) for name, held in value.items() if held is not None}
    if isinstance(value, list):
        return [without_nulls(held) for held in value if held is not None]
    return value


STORES = {"sqlite": "path", "ladybug": "path", "postgresql": "dsn"}
"""Providers that are stores, and the member of ``provider_config`` with the location of each."""

_ADDRESSES = ("uri", "address")


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """A product whose memory is read and written in place."""

    name: str
    there: str = ""
    """Its location in its own form: a folder, or what follows ``NAME://``."""

    config: dict[str, Any] = {}
    """Further settings of the product."""

    @property
    def address(self) -> str:
        """Its name with its location."""
        return f"{self.name}://{'/' if self.there else ''}{self.there}"


def store_address(
    source: ConfigFile, provider: str, config: dict[str, Any], tier: Any = ""
) -> str | None:
    """Return the address of the store that a provider is; None if it is not a store.

    Raises:
        ConfigError: If it has another tier than configured, or no location.
    """
    if not provider:
        if config:
            raise source.wrong("no provider is configured for this", "provider_config")
        return None
    kind = "storage" if provider in STORES or provider.startswith("astrocyte-") else "engine"
    if tier not in ("", kind):
        raise source.wrong(f"the provider {provider!r} is of the tier {kind}", "provider_tier")
    if provider not in STORES:
        return None
    member = STORES[provider]
    known = (member, *_ADDRESSES)
    unknown = [name for name in config if name not in known]
    if unknown:
        where = f"provider_config.{unknown[0]}"
        raise source.wrong("no such key", where, f"Known: {', '.join(known)}.")
    present = [name for name in known if config.get(name)]
    if len(present) != 1 or not isinstance(config[present[0]], str):
        raise source.wrong("the store's location is set twice", "provider_config", f"Set {member}.")
    text: str = config[present[0]]
    if present[0] == "path":
        return f"{provider}:///{text}"
    if not text.startswith(f"{provider}://"):
        where = f"provider_config.{present[0]}"
        raise source.wrong(f"does not start with {provider}://", where)
    return text


def live_product(provider: str, config: dict[str, Any]) -> Provider | None:
    """Return the product that a provider is; None if it is a store, or none is set."""
    if not provider or provider in STORES:
        return None
    rest = dict(config)
    location = str(rest.pop("path", ""))
    for name in _ADDRESSES:
        if name in rest and not location:
            location = str(rest.pop(name)).removeprefix(f"{provider}://").removeprefix("/")
    return Provider(name=provider, there=location, config=rest)
