"""Reading the command line of ``recall`` without the framework, which takes longer than recalling.

Only what is plain is read here. Anything else (help, an option that is not known or has no value, a
number that is none) is left to the framework, which says what is wrong. That both read the same
is tested, option by option.
"""

from collections.abc import Callable
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

    bank, as_json = values.pop("bank", None), values.pop("json", False)

    def run() -> None:
        from satchel.actions.recall import RecallOptions
        from satchel.surfaces.cli._recall import recall_and_show

        recall_and_show(bank, RecallOptions(**values), as_json=as_json)

    return run


def _values(arguments: list[str]) -> dict[str, Any] | None:
    """Return the values of options by their members, or None."""
    known = _known()
    values: dict[str, Any] = {}
    rest = iter(arguments)
    for argument in rest:
        name, given, value = argument.partition("=")
        if not argument.startswith("-"):
            if "text" in values:
                return None
            values["text"] = argument
            continue
        member, kind, switched = known.get(name, ("", "", None))
        if kind == "bool" and not given:
            values[member] = switched
        elif kind in {"str", "int", "list"}:
            value = value if given else next(rest, "-")
            if value.startswith("-") or not _add(values, member, kind, value):
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


def _known() -> dict[str, tuple[str, str, bool | None]]:
    """Return each flag's option, what it takes, and what a switch means."""
    from satchel.actions.recall import recall_in

    found: dict[str, tuple[str, str, bool | None]] = {
        "--bank": ("bank", "str", None),
        "--json": ("json", "bool", True),
    }
    for field in recall_in.offered("cli"):
        if field.option.argument:
            continue
        flags = (field.option.flag or "--" + field.name.replace("_", "-")).split("/")
        kind = "list" if field.is_many else field.scalar.__name__
        for flag, switched in zip(flags, (True, False), strict=False):
            found[flag] = (field.name, kind, switched)
    return found
