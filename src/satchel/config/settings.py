"""Settings: flag over environment over file over default, with the origin of each value."""

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import platformdirs

from satchel.config.files import (
    ConfigFile,
    Provider,
    default_file,
    live_product,
    nearest,
    read_file,
    require_known,
    store_address,
    with_variables,
)
from satchel.config.hooks import NO_HOOKS, Hooks
from satchel.config.store_selection import (
    FLAG,
    STORE_VARIABLE,
    StoreChoice,
    StoreRequest,
    StoreSelection,
)
from satchel.config.tables import (
    AgentSettings,
    BackupSettings,
    BankProfile,
    BankSettings,
    ConfigTables,
    FilesSettings,
    InferenceSettings,
    RehydrateSettings,
)
from satchel.crypto.canonical import Limits
from satchel.crypto.encryption import Unlocker
from satchel.errors import ConfigError, UnreadableError, shown_host, shown_place
from satchel.model.values import resolved

if TYPE_CHECKING:
    from satchel.artifact.verification import TrustPolicy
    from satchel.crypto.key_files import KeyRing, StatementHistory, TrustRegistry

_IN_ENVIRONMENT = ("provider", "provider_tier", "profile")
_SECRET = re.compile(r"key|token|secret|pass|credential|dsn|auth", re.IGNORECASE)
_WEBHOOK = "webhook"  # its path is often the secret
_MASK = "***"
_AT = re.compile(r" - at `\$\.?([^`]*)`$")


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A setting and the origin of its value."""

    name: str
    value: Any
    origin: str
    """``default``, ``file``, the environment variable's name, or ``flag``."""

    variable: str
    """The environment variable that sets it; empty if it can be set in the file only."""


def declared(config: ConfigFile, env: Mapping[str, str]) -> list[Value]:
    """Return the values that are no plain settings.

    Raises:
        ConfigError: If a variable in the file or the environment is invalid.
    """
    values = []
    for name, default in msgspec.to_builtins(ConfigTables()).items():
        variable = f"SATCHEL_{name}".upper() if name in _IN_ENVIRONMENT else ""
        if name == "provider_config":
            variable = "SATCHEL_PROVIDER_CONFIG"
        value, origin = default, "default"
        if variable and variable in env:
            value, origin = env[variable], variable
            if name == "provider_config":
                value = _object(value, variable)
        elif name in config.table:
            value, origin = config.table[name], "file"
        if name == "provider_config":
            value = with_variables(value, env, config, name)
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


def with_provider(values: list[Value], settings: list[Value], source: ConfigFile) -> list[Value]:
    """Return plain settings with the store of the provider, if it is one.

    Args:
        values: Plain settings.
        settings: The result of ``declared``.
        source: The file, for errors.

    Raises:
        ConfigError: If the provider is invalid, or the file names another store as well.
    """
    named = {setting.name: setting for setting in settings}
    provider = named["provider"]
    # Values that are certainly wrong are refused here; their types are verified with all others.
    config, tier = named["provider_config"].value, named["provider_tier"].value
    if not isinstance(provider.value, str) or not isinstance(config, dict):
        return values
    address = store_address(source, provider.value, config, tier)
    if address is None:
        return values
    at, own = next(
        (n, setting) for n, setting in enumerate(values) if setting.name == "store.address"
    )
    if own.origin in ("file", "default"):
        if own.origin == "file" and provider.origin == "file" and own.value:
            raise source.wrong(
                "a provider, which is a store itself, is configured", "store.address"
            )
        own = msgspec.structs.replace(own, value=address, origin=provider.origin)
    return [*values[:at], own, *values[at + 1 :]]


def require_profiles(options: ConfigTables, config: ConfigFile) -> None:
    """Refuse the name of a profile that does not exist.

    Raises:
        ConfigError: Naming the nearest.
    """
    named = {"profile": options.profile or None}
    named |= {f"banks.{name}.profile": bank.profile for name, bank in options.banks.items()}
    for where, name in named.items():
        if name is not None and name not in options.profiles:
            what = f"no profile named {name!r}"
            raise config.wrong(what, where, nearest(name, options.profiles or ["none yet"]))


def require_shapes(settings: list[Value], config: ConfigFile) -> None:
    """Refuse a bank or profile with a value of the wrong type.

    Raises:
        ConfigError: Naming it.
    """
    for setting in settings:
        kind = {"banks": BankSettings, "profiles": BankProfile, "agents": AgentSettings}.get(
            setting.name
        )
        if kind is None or not isinstance(setting.value, dict):
            continue
        for name, held in setting.value.items():
            try:
                msgspec.convert(held, resolved(kind))
            except msgspec.ValidationError as error:
                raise wrong_type_error(error, config, f"{setting.name}.{name}") from None


def wrong_type_error(
    error: msgspec.ValidationError, config: ConfigFile, inside: str = ""
) -> ConfigError:
    """Return the error for a value of the wrong type in a table."""
    text = str(error)
    at = _AT.search(text)
    path = re.sub(r"\[(\d+|\.\.\.)\]", "", at[1]).strip(".") if at else ""
    return config.wrong(text, ".".join(part for part in (inside, path) if part))


def displayed(settings: list[Value]) -> list[Value]:
    """Return settings to display: one line for each bank, profile and hook, without secrets.

    Passwords in addresses are hidden.
    """
    lines = list[Value]()
    for setting in settings:
        if isinstance(setting.value, dict) and setting.name != "provider_config":
            for name, held in setting.value.items():
                if held:
                    part = msgspec.structs.replace(
                        setting, name=f"{setting.name}.{name}", value=held
                    )
                    lines.append(masked(part))
        else:
            lines.append(masked(setting))
    return lines


def masked(setting: Value) -> Value:
    """Return a setting with its secrets hidden."""
    return msgspec.structs.replace(setting, value=_masked(setting.value))


def _masked(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _masked(held, key) for key, held in value.items()}
    if isinstance(value, list):
        return [_masked(held, name) for held in value]
    if isinstance(value, str):
        # The name of a variable that holds a secret is not secret.
        is_secret = bool(_SECRET.search(name)) and not name.endswith("_env")
        if is_secret and value:
            return _MASK
        return shown_host(value) if name == _WEBHOOK else shown_place(value)
    return value


FILE_NAME = "satchel.toml"
_INSTEAD_OF_HOME = {"SATCHEL_HOME": ("XDG_DATA_HOME",), "SATCHEL_WITNESS": ("XDG_STATE_HOME",)}
_APP = "satchel"
_SHORT = {
    ("store", "address"): STORE_VARIABLE,
    ("store", "backend"): "SATCHEL_MEMORY_BACKEND",
    ("store", "bank"): "SATCHEL_BANK",
    ("store", "graph_path"): "SATCHEL_GRAPH_DB_PATH",
}
_ALSO = {
    ("portability", "roots"): ("ASTROCYTE_PORTABILITY_ROOTS",),
    ("store", "backend"): ("AMPLIHACK_MEMORY_BACKEND",),
    ("store", "graph_path"): ("AMPLIHACK_GRAPH_DB_PATH", "AMPLIHACK_KUZU_DB_PATH"),
}
"""Variables of other products with the same meaning; ours wins, then the first."""


class KeySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[keys]``."""

    name: str = "default"
    """Name of the default signing key."""


class VerifySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[verify]``."""

    threshold: int = 1
    """Number of distinct trusted keys that must have signed."""

    require_fresh: bool = False
    """Whether a copy that is older than the newest verified one is a failure."""


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[store]``."""

    address: str = ""
    """Address of the store, such as ``sqlite:///path.db`` or ``postgresql://USER@HOST/DATABASE``;
    empty for ``satchel.db`` in the home.
    """

    backend: str = ""
    """Kind of store if ``address`` is empty: ``sqlite``, ``graph-db`` or ``postgres``; ``kuzu``
    means ``graph-db``. Empty for an existing graph, or else SQLite.
    """

    graph_path: str = ""
    """Absolute path of the flat graph; empty for ``memory_graph.db`` in the home."""

    encrypted: bool = False
    """Whether to refuse a store that is not encrypted; ``satchel store encrypt`` encrypts one."""

    bank: str = ""
    """The default bank; empty for the only one."""


class PortabilitySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[portability]``."""

    roots: tuple[str, ...] | None = None
    """Folders that exports and imports are limited to; not set means anywhere, empty means nowhere.

    In the environment: joined by ``:``.
    """


class ConfigContents(ConfigTables, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a configuration file."""

    keys: KeySettings = KeySettings()
    verify: VerifySettings = VerifySettings()
    store: StoreSettings = StoreSettings()
    portability: PortabilitySettings = PortabilitySettings()
    inference: InferenceSettings = InferenceSettings()
    files: FilesSettings = FilesSettings()
    backup: BackupSettings = BackupSettings()
    rehydrate: RehydrateSettings = RehydrateSettings()
    limits: Limits = Limits()


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The surroundings of an operation."""

    home: Path
    """The folder of keys and the trust registry."""

    state: Path
    """The folder of what was verified; apart from the home, so that restoring one leaves the other.
    """

    file: Path
    """The configuration file, which may not exist."""

    options: ConfigContents
    values: list[Value]
    notes: list[str] = []
    """Notices about the file, such as ignored keys."""

    hooks: Hooks = NO_HOOKS
    """The listeners of events."""
    token: str | None = None
    """A capability token, as a file or JSON; None for the owner."""
    proven: bool = False
    """Whether the interface verified that the token's audience presents it."""
    selection: StoreSelection
    """The selected store."""
    roots: tuple[str | Path, ...] | None = None
    """Folders that paths must be in, besides those of the options; None for any."""
    unlocking: Unlocker = Unlocker()
    """Identities and passphrases that decrypt files."""

    @property
    def store(self) -> str:
        """The address of the store; raises as ``chosen``."""
        return self.chosen.address

    def at(self, address: str) -> "Settings":
        """Return the same settings with another store."""
        store = msgspec.structs.replace(self.options.store, address=address)
        options = msgspec.structs.replace(self.options, store=store)
        return msgspec.structs.replace(self, options=options)

    @property
    def chosen(self) -> StoreChoice:
        """The selected store, and the reason.

        Raises:
            ConfigError: If its settings are contradictory.
            PathRefusedError: If a path that is searched is a link.
        """
        # An address that was set in the options after they were read wins.
        return self.selection.with_address(self.options.store.address).choice

    @property
    def provider(self) -> Provider | None:
        """The product that export and import use instead of the store; None for none."""
        return live_product(self.options.provider, self.options.provider_config)

    @property
    def keyring(self) -> "KeyRing":
        """The signing keys."""
        from satchel.crypto.key_files import KeyRing

        return KeyRing(self.home / "keys")

    @property
    def registry(self) -> "TrustRegistry":
        """The registry of trusted keys."""
        from satchel.crypto.key_files import TrustRegistry

        return TrustRegistry(self.home / "trust.json")

    @property
    def seen(self) -> "StatementHistory":
        """The history of verified statements."""
        from satchel.crypto.key_files import StatementHistory

        return StatementHistory(self.state / "seen.jsonl")

    def policy(
        self, keys: frozenset[str] = frozenset(), threshold: int | None = None
    ) -> "TrustPolicy":
        """Return the policy that decides which signatures count."""
        from satchel.artifact.verification import TrustPolicy

        return TrustPolicy(
            registry=self.registry,
            keys=keys,
            seen=self.seen,
            threshold=threshold or self.options.verify.threshold,
        )


def load_settings(
    *,
    home: Path | None = None,
    config: Path | None = None,
    store: str | None = None,
    token: str | None = None,
    backend: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """Read the settings.

    Args:
        home: The folder of keys and trust; ``SATCHEL_HOME`` or the platform's data folder by
            default.
        config: The configuration file; ``SATCHEL_CONFIG`` or the platform's by default.
        store: Address of the store; ``SATCHEL_STORE`` or ``store.address`` by default.
        token: A capability token, as a file or JSON; ``SATCHEL_TOKEN`` by default.
        backend: The kind of store; see ``store_selection``.
        environment: The environment; the process's own by default.

    Raises:
        ConfigError: If the file or a variable has an unknown key or a value of the wrong type.
    """
    env = os.environ if environment is None else environment
    found_home, home_origin = _folder(home, env, "SATCHEL_HOME", platformdirs.user_data_path)
    state, state_origin = _folder(None, env, "SATCHEL_WITNESS", platformdirs.user_state_path)
    chosen = env.get("SATCHEL_CONFIG")
    file = config or (
        Path(chosen) if chosen else default_file(platformdirs.user_config_path(_APP), FILE_NAME)
    )
    source = _read(file, required=config is not None or bool(chosen))
    values = [
        Value(name="home", value=str(found_home), origin=home_origin, variable="SATCHEL_HOME"),
        Value(name="witness", value=str(state), origin=state_origin, variable="SATCHEL_WITNESS"),
    ]
    presented, is_flag = token or env.get("SATCHEL_TOKEN") or None, bool(token)
    if presented is not None:
        # The JSON of a bearer token is a secret.
        shown_token = "JSON" if presented.lstrip().startswith("{") else presented
        origin = "flag" if is_flag else "SATCHEL_TOKEN"
        values.append(
            Value(name="token", value=shown_token, origin=origin, variable="SATCHEL_TOKEN")
        )
    plain = list[Value]()
    for section, fields in sections().items():
        for name, default in fields.items():
            value = _value(section, name, default, source.table, env)
            override = {"store.address": store, "store.backend": backend}.get(value.name)
            if override is not None:
                value = msgspec.structs.replace(value, value=override, origin=FLAG)
            plain.append(value)
    stated = declared(source, env)
    plain = with_provider(plain, stated, source)
    options = _options(plain, stated, source)
    values += [*map(masked, plain), *displayed(stated)]
    return Settings(
        home=found_home,
        state=state,
        file=file,
        options=options,
        values=values,
        notes=source.notes,
        hooks=Hooks.of(options.hooks),
        token=presented,
        selection=StoreSelection(found_home, _store_request(plain)),
        unlocking=Unlocker(folder=found_home / "identities"),
    )


def _store_request(plain: list[Value]) -> StoreRequest:
    """Return the settings about the store."""
    named = {one.name: one for one in plain}
    address, backend = named["store.address"], named["store.backend"]
    graph = named["store.graph_path"]
    return StoreRequest(
        address=address.value,
        address_origin=address.origin,
        backend=backend.value,
        backend_origin=backend.origin,
        graph_path=graph.value,
        graph_path_origin="store.graph_path" if graph.origin == "file" else graph.origin,
    )


def _folder(
    folder: Path | None, env: Mapping[str, str], variable: str, default: Callable[[str], Path]
) -> tuple[Path, str]:
    if folder is not None:
        return folder.expanduser(), FLAG
    if env.get(variable):
        return Path(env[variable]).expanduser(), variable
    if not any(os.environ.get(name) for name in ("HOME", *_INSTEAD_OF_HOME[variable])):
        raise ConfigError(
            "there is no home directory: HOME is not set",
            field=variable,
            hint=f"Set HOME, or set {variable} to a folder.",
        )
    return default(_APP), "default"


def _read(file: Path, *, required: bool) -> ConfigFile:
    try:
        config = read_file(file)
    except UnreadableError as error:
        if file.exists():
            raise ConfigError(error.message, file=str(file)) from error
        if not required:
            return ConfigFile(file)
        raise ConfigError(
            "no such configuration file",
            file=str(file),
            hint="Create it (it may be empty), or choose another: --config, or SATCHEL_CONFIG.",
        ) from error
    require_known(config, ConfigContents)
    return config


def sections() -> dict[str, dict[str, Any]]:
    """Return the sections of plain settings, with their keys and defaults."""
    every: dict[str, Any] = msgspec.to_builtins(ConfigContents())
    return {
        name: held for name, held in every.items() if name not in ConfigTables.__struct_fields__
    }


def _value(
    section: str, name: str, default: Any, table: dict[str, Any], env: Mapping[str, str]
) -> Value:
    variable = _SHORT.get((section, name), f"SATCHEL_{section}_{name}".upper())
    for candidate in (variable, *_ALSO.get((section, name), ())):
        if candidate in env:
            return Value(
                name=f"{section}.{name}",
                value=_from_text(env[candidate], default, candidate),
                origin=candidate,
                variable=variable,
            )
    if name in table.get(section, {}):
        value, origin = table[section][name], "file"
    else:
        value, origin = default, "default"
    return Value(name=f"{section}.{name}", value=value, origin=origin, variable=variable)


def _from_text(text: str, default: Any, variable: str) -> Any:
    if default is None:  # a list of folders, with no other hint of its type
        return text.split(os.pathsep) if text else []
    try:
        return msgspec.convert(text, resolved(type(default)), strict=False)
    except msgspec.ValidationError:
        raise ConfigError(f"{text!r} is not a {type(default).__name__}", field=variable) from None


def _options(plain: list[Value], settings: list[Value], config: ConfigFile) -> ConfigContents:
    require_shapes(settings, config)
    merged: dict[str, Any] = {one.name: one.value for one in settings}
    for one in plain:
        section, _, name = one.name.partition(".")
        merged.setdefault(section, {})[name] = one.value
    try:
        options = msgspec.convert(merged, resolved(ConfigContents))
    except msgspec.ValidationError as error:
        raise wrong_type_error(error, config) from None
    require_profiles(options, config)
    if options.verify.threshold < 1:
        raise ConfigError("the threshold must be at least 1", field="verify.threshold")
    return options


class Timer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The file that makes the system start a command on a schedule."""

    kind: str
    """``systemd``, ``cron`` or ``launchd``."""

    text: str
    missing: list[str] = []
    """Variables that hold a secret and so are not in the text: set them in the configuration."""


_OPTIONS = {"home": "--home", "store.address": "--store", "store.backend": "--backend"}
_FLAG = "flag"
_NOT_IN_COMMANDS = frozenset({"token"})


def invocation(
    settings: Settings, arguments: Sequence[str], program: Sequence[str] | None = None
) -> list[str]:
    """Return the command line that starts this program with the same settings, in any environment.

    Timers, agent hosts and hooks start it without the environment of the person who set them up. So
    options and variables become part of the command. A secret never does: it must be in the
    configuration.

    Args:
        settings: The current settings.
        arguments: The command and its arguments.
        program: How to start the program; this interpreter by default.
    """
    options, variables = list[str](), list[str]()
    for value in settings.values:
        text = _portable_text(value)
        if text is None:
            continue
        if value.name in _OPTIONS:
            options += [_OPTIONS[value.name], text]
        else:
            variables.append(f"{value.origin}={text}")
    if settings.file != default_file(platformdirs.user_config_path("satchel"), FILE_NAME):
        options += ["--config", str(settings.file.absolute())]
    words = [*(program or (sys.executable, "-m", "satchel")), *options, *arguments]
    return [shutil.which("env") or "/usr/bin/env", *variables, *words] if variables else words


def secret_variables(settings: Settings) -> list[str]:
    """Return the variables that hold a secret and so are not in the command line."""
    return [
        value.origin
        for value in settings.values
        if _is_set(value) and value.origin != _FLAG and _portable_text(value) is None
    ]


def _is_set(value: Value) -> bool:
    return value.origin == _FLAG or (value.origin in os.environ and value.origin.isupper())


def _portable_text(value: Value) -> str | None:
    """Return a value that was set, independent of the folder; None for a secret or a default."""
    if not _is_set(value) or value.name in _NOT_IN_COMMANDS:
        return None
    text = str(value.value) if value.origin == _FLAG else os.environ[value.origin]
    shown = masked(Value(name=value.name, value=text, origin="", variable="")).value
    if shown != text or "***" in str(value.value):
        return None
    is_place = value.name in ("home", "witness") or value.name == "store.address"
    return str(Path(text).expanduser().absolute()) if is_place and "://" not in text else text
