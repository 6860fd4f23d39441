"""Front matter: the lines between ``---`` at the start of a Markdown file.

They are YAML by their looks; what is read of it is what such files have: texts, numbers, lists and
objects, one below the other or in brackets. Nothing in them is ever run or followed, and a line
that is none of this is left out; who needs all of it keeps the lines themselves.
"""

import io
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from satchel.errors import InputError
from satchel.formats._sniffing import BOM
from satchel.seal.encoding.carry import escape_keys
from satchel.seal.encoding.foreign_json import ForeignReader

Values = dict[str, Any]

_FENCE = "---"
_DEEPEST = 8
_KEY = re.compile(r"""("(?:[^"\\]|\\.)*"|'[^']*'|[^\s:#\-"'\[{][^:]*|-[^\s:][^:]*):(?:\s+(.*))?""")
_BLOCK = re.compile(r"[|>][+-]?")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|NaN|-?Infinity")
_WORDS = frozenset({"true", "false", "null"})
_PLAIN = re.compile(r"[^\W\d_](?:[\w .,;()/+-]*[\w.)])?")
_TAKEN_OTHERWISE = _WORDS | {"yes", "no", "on", "off", "y", "n", "nan", "infinity"}
_CONTROLS = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class Front(NamedTuple):
    """The start of a file, and what is below it."""

    raw: str
    """As it is in the file, with the lines of hyphens and an empty line after them."""

    body: str
    is_there: bool


def split(text: str) -> Front:
    """Part a file from its front matter; where it has none, ``raw`` is empty or a mark."""
    mark = BOM.decode()
    start = len(mark) if text.startswith(mark) else 0
    end = _line_end(text, start)
    if text[start:end].rstrip() != _FENCE or end == len(text):
        return Front(text[:start], text[start:], is_there=False)
    at = end
    while at < len(text):
        end = _line_end(text, at)
        if text[at:end].rstrip() == _FENCE:
            gap = _line_end(text, end)
            if end < gap and text[end:gap] in ("\n", "\r\n"):
                end = gap
            return Front(text[:end], text[end:], is_there=True)
        at = end
    return Front(text[:start], text[start:], is_there=False)


def _line_end(text: str, start: int) -> int:
    found = text.find("\n", start)
    return len(text) if found < 0 else found + 1


def values_in(raw: str) -> Values:
    """Return what front matter says; keys are in the reversible form of foreign ones."""
    lines = [line.rstrip("\r") for line in raw.split("\n")]
    inner = [line for line in lines[1:] if line.rstrip() != _FENCE]
    return _object(inner, 0)


def _object(lines: list[str], depth: int) -> Values:
    found: Values = {}
    for key, said, below in _members(lines):
        name = _name_of(key)
        if name not in found:
            found[name] = _value(said, below, depth)
    return dict(escape_keys(list(found.items())))


def _members(lines: list[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each key at the left, what stands behind it, and the lines that belong to it."""
    key, said, below = "", "", list[str]()
    for line in lines:
        match = None if line.startswith((" ", "\t", "- ")) else _KEY.fullmatch(line.rstrip())
        if match is None:
            below.append(line)
            continue
        if key:
            yield key, said, below
        key, said, below = match[1], match[2] or "", []
    if key:
        yield key, said, below


def _name_of(key: str) -> str:
    if key.startswith('"'):
        found = _json(key)
        return found if isinstance(found, str) else key
    return key.strip("'").strip()


def _value(said: str, below: list[str], depth: int) -> Any:
    some = [line for line in below if line.strip() and not line.lstrip().startswith("#")]
    if _BLOCK.fullmatch(said):
        return _folded(said, below)
    if said.strip() or not some:
        return scalar(said) if said.strip() else None
    if depth >= _DEEPEST:
        return "\n".join(some)
    if all(line.lstrip().startswith("- ") for line in some):
        return [scalar(line.lstrip()[2:]) for line in some]
    left = min(len(line) - len(line.lstrip()) for line in some)
    return _object([line[left:] for line in some], depth + 1) or "\n".join(some)


def _folded(sign: str, below: list[str]) -> str:
    some = [line for line in below if line.strip()]
    left = min((len(line) - len(line.lstrip()) for line in some), default=0)
    text = ("\n" if sign[0] == "|" else " ").join(line[left:] for line in below)
    return text.rstrip() + ("" if sign.endswith("-") else "\n")


def scalar(said: str) -> Any:
    """Return the value that stands behind a key or a hyphen; what is no other value is a text."""
    said = said.strip()
    if said.startswith("'") and said.endswith("'") and len(said) > 1:
        return said[1:-1].replace("''", "'")
    if said.startswith(('"', "[", "{")) or said in _WORDS or _NUMBER.fullmatch(said):
        found = _json(said)
        if found is not _NOT_JSON:
            return found
    if said.startswith("[") and said.endswith("]"):
        inner = said[1:-1].strip()
        return [scalar(part) for part in inner.split(",")] if inner else []
    return said.partition(" #")[0].rstrip()


_NOT_JSON = object()


def _json(said: str) -> Any:
    try:
        document = ForeignReader(io.BytesIO(said.encode()), "")
        found = document.value()
        document.end()
    except InputError:
        return _NOT_JSON
    return found


def spelled(value: Any) -> str:
    """Return how a value is written: a simple text as it is, all else as JSON, which is YAML.

    Args:
        value: As JSON has it; nothing in the reversible form of foreign values.
    """
    if isinstance(value, str) and _PLAIN.fullmatch(value) and _is_only_text(value):
        return value
    text = json.dumps(value, ensure_ascii=False)
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _is_only_text(value: str) -> bool:
    return value.lower() not in _TAKEN_OTHERWISE and " #" not in value
