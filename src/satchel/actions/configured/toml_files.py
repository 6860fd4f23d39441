"""Writing TOML, and finding where a key stands in it."""

import json
import math
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from satchel.errors import UsageError

_BARE = re.compile(r"^[A-Za-z0-9_-]+$")
_TABLE = re.compile(r"^\s*\[\[?\s*(.+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*((?:"[^"]*"|'[^']*'|[A-Za-z0-9_.\s-])+?)\s*=""")
_PART = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*(?:\.|$)""")


def line_of(text: str, wanted: str) -> int | None:
    """Return the line, from 1, on which a key or a table stands first; None where it is unclear.

    Args:
        text: A TOML document that was read without an error.
        wanted: The path of the key, such as ``banks.ada.profile``.
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
        if path == wanted or path.startswith(wanted + "."):
            return number
    return None


def _path(text: str) -> str:
    return ".".join(next(filter(None, part), "") for part in _PART.findall(text))


def toml_of(table: Mapping[str, Any]) -> str:
    """Return plain values as a TOML document.

    Raises:
        UsageError: If something in it has no form in TOML, such as a null.
    """
    lines = list[str]()
    _write(table, (), lines)
    return "\n".join(lines).strip() + "\n"


def _write(table: Mapping[str, Any], path: tuple[str, ...], lines: list[str]) -> None:
    tables = {name: held for name, held in table.items() if _is_table(held) or _are_tables(held)}
    for name, held in table.items():
        if name not in tables:
            lines.append(f"{_name(name)} = {_value(held, (*path, name))}")
    for name, held in tables.items():
        inner = (*path, name)
        heading = ".".join(map(_name, inner))
        if _is_table(held):
            if not held or any(not (_is_table(one) or _are_tables(one)) for one in held.values()):
                lines += ["", f"[{heading}]"]
            _write(held, inner, lines)
            continue
        for one in held:
            lines += ["", f"[[{heading}]]"]
            _write(one, inner, lines)


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _are_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_table, value))


def _name(name: str) -> str:
    return name if _BARE.match(name) else _text(name)


def _text(text: str) -> str:
    # What JSON escapes, TOML escapes the same; it wants one control character more.
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
    """Return a TOML document in which one table is another, and all the rest as it was.

    Comments and the order of everything else stay. What the table was is found by its headings.

    Args:
        text: A TOML document that can be read.
        path: Of the table, such as ``("agents", "syn")``.
        value: What it is to hold; None to take it away.

    Raises:
        UsageError: If it cannot be done so: the table is written inside another one.
    """
    wanted = tomllib.loads(text)
    outer = wanted.setdefault(path[0], {})
    if value is None:
        outer.pop(path[1], None)
        if not outer:
            del wanted[path[0]]
    else:
        outer[path[1]] = value
    made = _without_table(text, path).rstrip("\n")
    made += "\n" if made else ""
    if value is not None:
        made += ("\n" if made else "") + toml_of({path[0]: {path[1]: value}})
    try:
        found = tomllib.loads(made)
    except tomllib.TOMLDecodeError:  # there is the table, and it has no heading
        found = {}
    if value is None and not found.get(path[0], True):
        del found[path[0]]
    if found != wanted:
        hint = f"Write it as a table of its own: [{path[0]}.{_name(path[1])}]."
        raise UsageError("this value cannot be edited in place", field=path[0], hint=hint)
    return made


def _without_table(text: str, path: tuple[str, str]) -> str:
    kept, gone, start = list[str](), False, ".".join(path)
    for line in text.splitlines(keepends=True):
        heading = _TABLE.match(line)
        if heading is not None:
            found = _path(heading[1])
            gone = found == start or found.startswith(start + ".")
        if not gone:
            kept.append(line)
    return "".join(kept)
