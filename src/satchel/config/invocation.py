"""How this program is started by something else: a timer, an agent host, a hook of one.

Nobody there has the environment of whoever asked for it. So what was said by it, or by options
before the verb, is part of the command. A secret never is: it has to be in the configuration.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import platformdirs

from satchel.config.files import default_file
from satchel.config.settings import FILE_NAME, Settings, Value, masked


class Timer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What makes the system start a command when it is due."""

    kind: str
    """``systemd``, ``cron`` or ``launchd``."""

    text: str
    missing: list[str] = []
    """Variables that hold a secret, and so are not in it: they belong in the configuration."""


_OPTIONS = {"home": "--home", "store.address": "--store", "store.backend": "--backend"}
_FLAG = "flag"
_SECRET = frozenset({"token"})


def invocation(
    settings: Settings, arguments: Sequence[str], program: Sequence[str] | None = None
) -> list[str]:
    """Return the words that start this program with the same settings from any environment.

    Args:
        settings: The settings as they are here.
        arguments: The verb and what follows.
        program: How the program is called; by this interpreter when left out.
    """
    options, variables = list[str](), list[str]()
    for value in settings.values:
        text = _said(value)
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
    """Return the variables that hold a secret, and so are not in the command."""
    return [
        value.origin
        for value in settings.values
        if _is_given(value) and value.origin != _FLAG and _said(value) is None
    ]


def _is_given(value: Value) -> bool:
    return value.origin == _FLAG or (value.origin in os.environ and value.origin.isupper())


def _said(value: Value) -> str | None:
    """Return what was said, the same from any folder; None for a secret, or what was not."""
    if not _is_given(value) or value.name in _SECRET:
        return None
    text = str(value.value) if value.origin == _FLAG else os.environ[value.origin]
    shown = masked(Value(name=value.name, value=text, origin="", variable="")).value
    if shown != text or "***" in str(value.value):
        return None
    is_place = value.name in ("home", "witness") or value.name == "store.address"
    return str(Path(text).expanduser().absolute()) if is_place and "://" not in text else text
