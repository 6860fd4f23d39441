"""Writing TOML, and finding where a key stands in it."""

import json
import math
import re
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
    raise UsageError("this has no form in TOML", field=".".join(path))
