"""Walks through tree-sitter's syntax trees; each language has a table of steps.

The grammars are wheels that include their parser; nothing is downloaded at run time. They skip what
they cannot parse.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from satchel.code_graph.facts import (
    CALLED,
    LONGEST_DOC,
    LONGEST_NAME,
    LONGEST_SIGNATURE,
    MODULE,
    TYPES,
    Facts,
    ImportStatement,
    Symbol,
    Use,
)
from satchel.code_graph.languages.language import UnparsedError
from satchel.errors import MissingExtraError
from satchel.screening.secrets import scrub

MOST_SYMBOLS, MOST_USES = 20_000, 100_000
"""Maximum of a file; the rest is skipped, and reported."""

_AMBIGUOUS = "?"
_OWN = frozenset({"self", "this"})


@dataclass(slots=True)
class _Draft:
    name: str
    qualified: str
    kind: str
    owner: int
    lines: tuple[int, int]
    signature: str
    doc: str
    bases: tuple[str, ...]
    complexity: int


@dataclass(slots=True)
class SymbolCollector:
    """The facts of a file so far."""

    language: str
    lines: int
    _symbols: list[_Draft] = field(default_factory=list)
    _uses: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    _types: dict[tuple[int, str], str] = field(default_factory=dict)
    _fields: dict[tuple[str, str], str] = field(default_factory=dict)
    _bases: dict[str, list[str]] = field(default_factory=dict)
    _imports: list[ImportStatement] = field(default_factory=list)
    _left_out: bool = False

    def define(  # noqa: PLR0913 - the members of a symbol
        self,
        name: str,
        kind: str,
        owner: int,
        lines: tuple[int, int],
        *,
        signature: str = "",
        doc: str = "",
        bases: Iterable[str] = (),
        within: str | None = None,
    ) -> int:
        """Add a symbol and return its number; that of its owner if there are too many.

        Args:
            name: Its name.
            kind: As ``Symbol.kind``.
            owner: Number of the symbol that contains it.
            lines: Its first and last line.
            signature: As written; truncated, on one line, without secrets.
            doc: Its documentation; likewise.
            bases: Its base types.
            within: The qualified name of its type, if that is not its owner.
        """
        if len(self._symbols) >= MOST_SYMBOLS:
            self._left_out = True
            return owner
        name = name[:LONGEST_NAME]
        above = within
        if above is None:
            above = "" if owner == MODULE else self._symbols[owner].qualified
        qualified = f"{above}.{name}" if above else name
        self._symbols.append(
            _Draft(
                name=name,
                qualified=qualified[-4 * LONGEST_NAME :],
                kind=kind,
                owner=owner,
                lines=lines,
                signature=shown(signature, LONGEST_SIGNATURE),
                doc=shown(doc, LONGEST_DOC, lines=True),
                bases=tuple(base[:LONGEST_NAME] for base in bases if base),
                complexity=1 if kind in CALLED else 0,
            )
        )
        return len(self._symbols) - 1

    def kind_of(self, number: int) -> str:
        """Return the kind of a symbol; empty for the file itself."""
        return "" if number == MODULE else self._symbols[number].kind

    def qualified(self, number: int) -> str:
        """Return the qualified name of a symbol."""
        return self._symbols[number].qualified

    def type_around(self, owner: int) -> int:
        """Return the number of the nearest type that contains a symbol, or ``MODULE``."""
        while owner != MODULE and self._symbols[owner].kind not in TYPES:
            owner = self._symbols[owner].owner
        return owner

    def add_bases(self, qualified: str, bases: Iterable[str]) -> None:
        """Add a base to a type of the file, declared apart from it."""
        self._bases.setdefault(qualified, []).extend(base[:LONGEST_NAME] for base in bases if base)

    def branch(self, owner: int, ways: int = 1) -> None:
        """Count branches of the callables that contain them."""
        while owner != MODULE and self._symbols[owner].kind not in CALLED:
            owner = self._symbols[owner].owner
        if owner != MODULE:
            self._symbols[owner].complexity += ways

    def call(self, owner: int, text: str, line: int) -> None:
        """Add a call; calls without any name are dropped."""
        if not text or text.endswith("?") or len(text) > LONGEST_NAME:
            return
        seen = self._uses.get((owner, text))
        if seen is not None:
            seen[1] += 1
        elif len(self._uses) < MOST_USES:
            self._uses[owner, text] = [line, 1]
        else:
            self._left_out = True

    def typed(self, owner: int, name: str, type_: str) -> None:
        """Set the declared type of a name in a function; contradictory ones make it unknown."""
        if not name or not type_ or len(type_) > LONGEST_NAME:
            return
        was = self._types.setdefault((owner, name), type_)
        if was != type_:
            self._types[owner, name] = _AMBIGUOUS
        first, _, field_ = name.partition(".")
        if field_ and first in _OWN and self.kind_of(owner) in TYPES:
            self._fields[self._symbols[owner].name, field_] = self._types[owner, name]

    def take(self, module: str, name: str, binds: str, line: int) -> None:
        """Add an import."""
        if len(self._imports) >= MOST_SYMBOLS:
            self._left_out = True
            return
        module, name, binds = (part[:LONGEST_NAME] for part in (module, name, binds))
        self._imports.append(ImportStatement(module, name, binds, line))

    def facts(self, finding: str = "") -> Facts:
        """Return the facts, in the order of the file."""
        if self._left_out and not finding:
            finding = "limit per file exceeded; the rest is skipped"
        return Facts(
            self.language,
            self.lines,
            tuple(self._numbered()),
            tuple(self._used()),
            tuple(self._imports),
            finding,
        )

    def _numbered(self) -> Iterable[Symbol]:
        times = dict[tuple[str, str], int]()
        for draft in self._symbols:
            again = times[draft.qualified, draft.kind] = (
                times.get((draft.qualified, draft.kind), 0) + 1
            )
            yield Symbol(
                draft.name,
                draft.qualified,
                draft.kind,
                draft.owner,
                *draft.lines,
                draft.signature,
                draft.doc,
                draft.complexity,
                (
                    *draft.bases,
                    *(self._bases.get(draft.qualified, ()) if draft.kind in TYPES else ()),
                ),
                again,
            )

    def _used(self) -> Iterable[Use]:
        for (owner, text), (line, times) in self._uses.items():
            yield Use(owner, text, line, times, self.type_of(owner, text.rpartition(".")[0]))

    def type_of(self, owner: int, name: str) -> str:
        """Return the declared type of a name where it is used; empty if unknown."""
        before, _, last = name.rpartition(".")
        type_name = self._declared(owner, name)
        if not type_name and before and "." not in before:
            type_name = self._fields.get((self._declared(owner, before), last), "")
        return "" if type_name == _AMBIGUOUS else type_name

    def _declared(self, owner: int, name: str) -> str:
        while name:
            type_name = self._types.get((owner, name))
            if type_name is not None or owner == MODULE:
                return type_name or ""
            owner = self._symbols[owner].owner
        return ""


def shown(text: str, most: int, *, lines: bool = False) -> str:
    """Return the beginning of a text, without likely secrets.

    Args:
        text: The text.
        most: Maximum number of characters.
        lines: Whether to keep line breaks; otherwise it becomes one line.
    """
    part = text[: 8 * most]
    if lines:
        part = "\n".join(line.strip() for line in part.strip().splitlines())
    else:
        part = " ".join(part.split())
    if len(part) > most:
        part = part[: most - 1].rstrip() + "…"
    return scrub(part)[0] if part else ""


Syntax = Any
"""A node of tree-sitter's tree."""

_LONGEST_CHAIN, _MOST, _MOST_NAME = 8, 4000, 200
_end = re.compile(r"(?:=>|[\s{=;])+$")
_COMMENTS = frozenset({"comment", "line_comment", "block_comment"})


@dataclass(slots=True)
class SyntaxWalk:
    """A walk through a file, with the facts so far."""

    found: SymbolCollector
    source: bytes
    waiting: list[tuple[Syntax, int]] = field(default_factory=list)

    def text(self, node: Syntax | None, most: int = _MOST) -> str:
        """Return the text of a node; empty for None."""
        if node is None:
            return ""
        end = min(node.end_byte, node.start_byte + most)
        return self.source[node.start_byte : end].decode("utf-8", "replace")

    def field_text(self, node: Syntax, name: str) -> str:
        """Return the text of a short field of a node, such as its type; empty if missing."""
        return self.text(node.child_by_field_name(name), _MOST_NAME)

    def later(self, nodes: list[Syntax], owner: int) -> None:
        """Visit nodes, in order, as parts of a symbol."""
        self.waiting += reversed([(node, owner) for node in nodes])

    def define(  # noqa: PLR0913 - the members of a symbol
        self,
        node: Syntax,
        kind: str,
        owner: int,
        *,
        name: str = "",
        bases: list[str] | None = None,
        within: str | None = None,
        whole: Syntax | None = None,
    ) -> int:
        """Add the symbol that a node defines, visit its body, and return its number.

        Args:
            node: The node; its fields ``name`` and ``body`` are used.
            kind: As ``Symbol.kind``.
            owner: Number of the symbol that contains it.
            name: Its name, if it is not in the field.
            bases: Its base types.
            within: The qualified name of its type, if that is not its owner.
            whole: The outermost node, such as an ``export`` around it.
        """
        whole = whole or node
        name = name or self.text(node.child_by_field_name("name"))
        body = node.child_by_field_name("body") or _body_of_value(node)
        number = owner
        if name:
            start = _behind_decorators(whole)
            end = body.start_byte if body is not None else whole.end_byte
            number = self.found.define(
                name,
                kind,
                owner,
                (whole.start_point[0] + 1, whole.end_point[0] + 1),
                signature=_end.sub("", self._between(start, end)),
                doc=self._doc(whole),
                bases=bases or (),
                within=within,
            )
        self.later([child for child in node.children if child.is_named], number)
        return number

    def _between(self, start: int, end: int) -> str:
        return self.source[start : min(end, start + _MOST)].decode("utf-8", "replace")

    def method_or_function(self, owner: int) -> str:
        """Return the kind of a function in its owner."""
        return "method" if self.found.kind_of(owner) in TYPES else "function"

    def _doc(self, node: Syntax) -> str:
        """Return the comments right above a node."""
        lines = list[str]()
        above, line = node.prev_sibling, node.start_point[0]
        while above is not None and above.type in _COMMENTS and len(lines) < _MOST_COMMENTS:
            end = above.end_point[0] - (above.end_point[1] == 0)
            if line - end > 1:
                break
            lines.append(_without_signs(self.text(above)))
            above, line = above.prev_sibling, above.start_point[0]
        return "\n".join(reversed(lines))


_MOST_COMMENTS = 40


def _without_signs(comment: str) -> str:
    """Return the text of a comment."""
    lines = []
    for line in comment.splitlines():
        text = line.strip().removesuffix("*/").lstrip("/*!").strip()
        if text:
            lines.append(text)
    return "\n".join(lines)


def _behind_decorators(node: Syntax) -> int:
    for child in node.children:
        if child.type not in _DECORATING:
            return int(child.start_byte)
    return int(node.start_byte)


_DECORATING = frozenset({"decorator", "attribute_item", "marker_annotation", "annotation"})


def _body_of_value(node: Syntax) -> Syntax | None:
    """Return the body of a function that is assigned to a name."""
    value = node.child_by_field_name("value")
    return None if value is None else value.child_by_field_name("body")


Step = Callable[[SyntaxWalk, Syntax, int], None]
"""Handles a node, and returns the nodes to visit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """The steps of a language."""

    language: str
    package: str
    """The package of the grammar."""

    entry: str = "language"
    """Its function that returns the grammar."""

    steps: Mapping[str, Step]
    """The step of each type of node; the children of others are visited."""

    branches: frozenset[str]
    """Types of nodes at which a function branches."""

    deciding: frozenset[str] = frozenset({"&&", "||", "??"})
    """Operators that branch."""

    def read(self, source: bytes) -> Facts:
        """Return the facts of a file.

        Raises:
            MissingExtraError: If the grammar is not installed.
            UnparsedError: If nothing of it can be parsed.
        """
        language = _language(self.package, self.entry)
        from tree_sitter import Parser

        tree = Parser(language).parse(source)  # one parser each: other threads may parse as well
        if tree is None:
            raise UnparsedError("it cannot be read")
        walk = SyntaxWalk(SymbolCollector(self.language, source.count(b"\n") + 1), source)
        walk.waiting.append((tree.root_node, MODULE))
        while walk.waiting:
            node, owner = walk.waiting.pop()
            if node.type in self.branches:
                walk.found.branch(owner)
            elif node.type == "binary_expression":
                self._decide(walk, node, owner)
            step = self.steps.get(node.type)
            if step is not None:
                step(walk, node, owner)
            elif node.named_child_count:
                walk.later(node.named_children, owner)
        finding = ""
        if tree.root_node.has_error:
            finding = f"syntax error in line {_first_error(tree.root_node)}; the rest was read"
        return walk.found.facts(finding)

    def _decide(self, walk: SyntaxWalk, node: Syntax, owner: int) -> None:
        operator = node.child_by_field_name("operator")
        if operator is not None and operator.type in self.deciding:
            walk.found.branch(owner)


def _first_error(node: Syntax) -> int:
    """Return the line of the first part that could not be parsed."""
    while not (node.is_error or node.is_missing):
        wrong = next((child for child in node.children if child.has_error), None)
        if wrong is None:
            break
        node = wrong
    return int(node.start_point[0]) + 1


@cache
def _language(package: str, entry: str) -> Any:
    try:
        import tree_sitter

        grammar: object = getattr(import_module(package), entry)()
    except ImportError:
        raise MissingExtraError(
            f"reading this language needs {package.replace('_', '-')}, which is not installed",
            hint="pip install 'satchel[code]'",
        ) from None
    return tree_sitter.Language(grammar)


def chain(
    walk: SyntaxWalk,
    node: Syntax | None,
    members: Mapping[str, tuple[str, str]],
    names: frozenset[str],
) -> str:
    """Return names joined by dots, as written; ``?`` for an expression without a name.

    Args:
        walk: The walk.
        node: The node.
        members: For each type of node that joins names: its fields before and after the dot.
        names: Types of nodes that are names.
    """
    parts = list[str]()
    while node is not None and node.type in members and len(parts) < _LONGEST_CHAIN:
        before, behind = members[node.type]
        parts.append(last_name(walk.field_text(node, behind)))
        node = node.child_by_field_name(before)
    is_name = node is not None and node.type in names
    parts.append(walk.text(node, _MOST_NAME) if is_name else "?")
    return ".".join(reversed(parts))


def last_name(text: str) -> str:
    """Return a name without the syntax around it."""
    return text.partition("<")[0].lstrip("#").strip()


def plain_type(text: str) -> str:
    """Return the name of a type without its parameters, references and pointers."""
    name = text.strip().lstrip(":&*?[] ").removeprefix("mut ").removeprefix("dyn ").strip()
    name = name.partition("<")[0].partition("[")[0].replace("::", ".").rstrip("?*[] ")
    return name if name.replace(".", "").replace("_", "").replace("$", "").isalnum() else ""
