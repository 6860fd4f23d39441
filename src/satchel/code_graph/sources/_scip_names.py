"""The names of SCIP: what a symbol's string says (scip.proto, message ``Symbol``)."""

from typing import NamedTuple

from satchel.code_graph.facts import CALLED, TYPES

_PACKAGE_PARTS = 4
_NAMESPACE, _TYPE, _TERM, _METHOD, _MACRO = "/", "#", ".", "().", "!"
_DEEPEST = 64

_TYPE_KINDS = {11: "enum", 21: "interface", 42: "interface", 49: "struct", 53: "trait"}
_ALIASES = frozenset({54, 55, 59})
_FUNCTIONS = frozenset({17, 25})
"""Numbers of ``SymbolInformation.Kind``."""


class Named(NamedTuple):
    """What is named by a symbol's string."""

    parts: tuple[tuple[str, str], ...]
    """Names, and the sign behind each."""

    @property
    def name(self) -> str:
        """The last name."""
        return self.parts[-1][0]

    @property
    def qualified(self) -> str:
        """The names that are not those of packages and modules, joined by dots."""
        return ".".join(name for name, sign in self.parts if sign != _NAMESPACE)

    @property
    def above(self) -> "Named":
        """What it stands in."""
        return Named(self.parts[:-1])

    def kind(self, said: int) -> str:
        """Return the kind of symbol; empty for what is no part of the graph.

        Args:
            said: ``SymbolInformation.kind``; 0 for none.
        """
        sign = self.parts[-1][1]
        if sign == _TYPE:
            return "type" if said in _ALIASES else _TYPE_KINDS.get(said, "class")
        inside = len(self.parts) > 1 and self.parts[-2][1] == _TYPE
        if sign == _METHOD:
            return "method" if inside else "function"
        return "function" if sign == _MACRO or said in _FUNCTIONS else ""

    @property
    def is_called(self) -> bool:
        """Whether a place that names it calls it."""
        return self.kind(0) in CALLED

    @property
    def is_known(self) -> bool:
        """Whether its string alone says that it is a part of the graph."""
        return self.kind(0) in CALLED | TYPES


def named(symbol: str) -> Named | None:
    """Return what a symbol's string names; None for what is local to a file, or no symbol."""
    if symbol.startswith("local ") or len(symbol) > _LONGEST:
        return None
    at = 0
    for _ in range(_PACKAGE_PARTS):
        at = _behind_space(symbol, at)
        if at < 0:
            return None
    parts = list[tuple[str, str]]()
    while at < len(symbol) and len(parts) < _DEEPEST:
        found = _part(symbol, at)
        if found is None:
            return None
        name, sign, at = found
        if sign:
            parts.append((name, sign))
    return Named(tuple(parts)) if parts and at == len(symbol) else None


_LONGEST = 2000


def _behind_space(symbol: str, at: int) -> int:
    """Return the place behind the next space that is not doubled; -1 if there is none."""
    while True:
        at = symbol.find(" ", at)
        if at < 0 or symbol[at + 1 : at + 2] != " ":
            return at + 1 if at >= 0 else -1
        at += 2


def _part(symbol: str, at: int) -> tuple[str, str, int] | None:
    """Return a name, the sign behind it (empty for parameters), and the place behind both."""
    if symbol[at] in "[(":
        found = _name(symbol, at + 1)
        if found is None or symbol[found[1] : found[1] + 1] not in {"]", ")"}:
            return None
        return found[0], "", found[1] + 1
    found = _name(symbol, at)
    if found is None:
        return None
    name, at = found
    sign = symbol[at : at + 1]
    if sign == "(":
        end = symbol.find(").", at)
        return None if end < 0 else (name, _METHOD, end + 2)
    if sign == ":":
        return name, "", at + 1
    return (name, sign, at + 1) if sign in {_NAMESPACE, _TYPE, _TERM, _MACRO} else None


def _name(symbol: str, at: int) -> tuple[str, int] | None:
    if symbol[at : at + 1] != "`":
        end = at
        while end < len(symbol) and (symbol[end].isalnum() or symbol[end] in "_+-$"):
            end += 1
        return (symbol[at:end], end) if end > at else None
    end = at + 1
    while True:
        end = symbol.find("`", end)
        if end < 0:
            return None
        if symbol[end + 1 : end + 2] != "`":
            return symbol[at + 1 : end].replace("``", "`"), end + 1
        end += 2
