"""Reading the command line of ``recall`` without the framework, which takes longer than recalling.

Only what is plain is read here. Anything else (help, an option that is not known or has no value, a
number that is none) is left to the framework, which says what is wrong. That both read the same
is tested, option by option.
"""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from satchel.surfaces.cli._console import state

_BEFORE = ("--home", "--config", "--store", "--backend", "--token")
_VERB = "recall"


def plainly(arguments: list[str]) -> Callable[[], None] | None:
    """Return what does the work that plain arguments ask for; None where they are not plain."""
    at, before = 0, dict[str, str]()
    while arguments[at : at + 1] and arguments[at] in _BEFORE and len(arguments) > at + 2:
        before[arguments[at]] = arguments[at + 1]
        at += 2
    if arguments[at : at + 1] != [_VERB]:
        return None
    values = _values(arguments[at + 1 :])
    if values is None:
        return None
    home, config = before.get("--home"), before.get("--config")
    state.home = None if home is None else Path(home)
    state.config = None if config is None else Path(config)
    state.store, state.backend = before.get("--store"), before.get("--backend")
    state.token = before.get("--token")

    def run() -> None:
        from satchel.surfaces.cli._recall import Asked, recall_and_show

        recall_and_show(Asked(**values))

    return run


def _values(arguments: list[str]) -> dict[str, Any] | None:
    """Return the values of options by their members, or None."""
    kinds = _kinds()
    values: dict[str, Any] = {}
    rest = iter(arguments)
    for argument in rest:
        name, given, value = argument.partition("=")
        kind = kinds.get(name)
        if not argument.startswith("-"):
            if "text" in values:
                return None
            values["text"] = argument
        elif kind == "bool" and not given:
            values[_member(name)] = True
        elif kind in {"str", "int", "list"}:
            value = value if given else next(rest, "-")
            if value.startswith("-") or not _add(values, _member(name), kind, value):
                return None
        else:
            return None
    return values


def _add(values: dict[str, Any], member: str, kind: str, value: str) -> bool:
    if kind == "list":
        values.setdefault(member, []).append(value)
    elif kind == "str":
        values[member] = value
    elif value.isascii() and value.isdigit() and len(value) < 10:  # noqa: PLR2004 - no huge number
        values[member] = int(value)
    else:
        return False
    return True


def _kinds() -> dict[str, str]:
    """Return the options of the command, and what each takes."""
    from satchel.surfaces.cli._recall import Asked

    found = {}
    for member in fields(Asked):
        kind = str(member.type).removesuffix(" | None")
        kind = "list" if kind.startswith("list") else kind.replace("<class '", "").replace("'>", "")
        found["--" + member.name.replace("_", "-")] = kind
    del found["--text"]
    return found


def _member(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")
