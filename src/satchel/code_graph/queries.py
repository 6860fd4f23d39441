"""Queries of a bank's code graph: symbols, calls, inheritance, imports."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Literal, NamedTuple

import msgspec

from satchel.code_graph.facts import (
    MODULE,
    TYPES,
    CodeNode,
    Facts,
    ImportStatement,
    Use,
    last_module,
    last_of,
    stem_of,
)
from satchel.code_graph.folders import part_matches
from satchel.code_graph.index import Side, SourceTree, trees_of
from satchel.code_graph.languages.language import language_of_file, without_ending
from satchel.code_graph.resolution import Resolution, Resolver, SourceContext

MOST_MEANT = 50
"""Maximum symbols of a name."""

_WILD = frozenset("*?[")
_HIDDEN = frozenset({"__init__", "index", "mod", "lib"})


class CallSite(NamedTuple):
    """A call, or another reference."""

    tree: str
    path: str
    facts: Facts
    use: Use
    meaning: Resolution

    @property
    def caller(self) -> CodeNode | None:
        """The symbol that contains it; None for the file itself."""
        return None if self.use.by == MODULE else CodeNode(*self[:3], self.use.by)


class Inheritance(NamedTuple):
    """A type, and one of its base types."""

    node: CodeNode
    text: str
    meaning: Resolution


class ResolvedImport(NamedTuple):
    """An import, and the files that it refers to."""

    tree: str
    path: str
    imported: ImportStatement
    files: tuple[str, ...]


class CodeGraph:
    """The source trees of a bank.

    Args:
        side: Returns the bank's unlogged values, all of one view.

    Raises:
        StoreError: If the index is damaged; so do all methods.
    """

    def __init__(self, side: Side) -> None:
        self.trees = trees_of(side)
        self._by_name = {tree.name: tree for tree in self.trees}
        self._resolvers = {tree.name: Resolver(tree) for tree in self.trees}

    @property
    def complete(self) -> bool:
        """Whether everything was read; a name may be in too many files."""
        return all(tree.complete for tree in self.trees)

    def symbols(self, name: str) -> Iterator[CodeNode]:
        """Yield the symbols of a name, which may contain ``*``, ``?`` and ``[a-z]``."""
        for tree in self.trees:
            if _WILD & set(name):
                names = sorted(
                    {
                        symbol_name
                        for symbol_name in tree.all_names()
                        if part_matches(name, symbol_name)
                    }
                )
            else:
                names = [name]
            for symbol_name in names:
                yield from tree.defined(symbol_name)

    def files(self, text: str) -> Iterator[tuple[SourceTree, str]]:
        """Yield the files whose path equals, ends with or matches a text."""
        parts = [part for part in text.split("/") if part not in {"", "."}]
        for tree in self.trees:
            for path in self._paths(tree, parts):
                yield tree, path

    def _paths(self, tree: SourceTree, parts: list[str]) -> list[str]:
        if not parts:
            return []
        if _WILD & set("".join(parts)):
            paths = tree.paths()
        else:
            paths = sorted(path for path, _ in tree.files_called(parts[-1]))
        return [path for path in paths if _path_ends(f"{tree.name}/{path}".split("/"), parts)]

    def in_file(self, tree: SourceTree, path: str) -> list[CodeNode]:
        """Return the symbols of a file, in order."""
        facts = tree.facts(path)
        if facts is None:
            return []
        return [CodeNode(tree.name, path, facts, number) for number in range(len(facts.symbols))]

    def find(self, text: str) -> list[CodeNode]:
        """Return the symbols that a user's text refers to.

        Args:
            text: An ID; ``path#Config.load``; or a name with any qualification: ``load``,
                ``Config.load``, ``app.config.Config.load``, ``Config::load``.
        """
        path, sharp, rest = text.partition("#")
        if sharp and language_of_file(path) is not None:
            return self._in_path(path, rest)
        parts = parts_of_name(text)
        if not parts:
            return []
        nodes = (node for tree in self.trees for node in tree.defined(parts[-1]))
        return list(islice((node for node in nodes if matches_name(node, parts)), MOST_MEANT))

    def _in_path(self, path: str, rest: str) -> list[CodeNode]:
        nodes = list[CodeNode]()
        for tree, file in self.files(path):
            for node in self.in_file(tree, file):
                qualified = node.symbol.qualified
                if rest in {
                    node.id.rpartition("#")[2],
                    qualified,
                    f"{qualified}:{node.symbol.kind}",
                }:
                    nodes.append(node)
        return nodes[:MOST_MEANT]

    def callers(self, node: CodeNode) -> Iterator[CallSite]:
        """Yield the references to a symbol, certain ones and candidates."""
        tree, resolver = self._by_name[node.tree], self._resolvers[node.tree]
        name, identity = node.symbol.name, node.id
        for path, facts in tree.using(name):
            file = SourceContext(path, facts)
            bound = {imported.binds for imported in facts.imports if imported.name == name} | {name}
            for use in facts.uses:
                if last_of(use.text) not in bound:
                    continue
                meaning = resolver.meaning(file, use)
                if any(target.id == identity for target in meaning.nodes):
                    yield CallSite(tree.name, path, facts, use, meaning)

    def callees(self, node: CodeNode) -> Iterator[CallSite]:
        """Yield the references in a symbol, in text order."""
        file, resolver = SourceContext(node.path, node.facts), self._resolvers[node.tree]
        uses = [use for use in node.facts.uses if use.by == node.number]
        for use in sorted(uses, key=lambda each: each.line):
            yield CallSite(*node[:3], use, resolver.meaning(file, use))

    def methods(self, node: CodeNode) -> list[CodeNode]:
        """Return the methods of a type, also those outside of it."""
        return self._resolvers[node.tree].methods(node)

    def owner(self, node: CodeNode) -> CodeNode | None:
        """Return the type or function that contains a symbol; None for the file."""
        number = node.symbol.owner
        return None if number == MODULE else node._replace(number=number)

    def bases(self, node: CodeNode) -> list[Inheritance]:
        """Return the declared bases of a type."""
        file, resolver = SourceContext(node.path, node.facts), self._resolvers[node.tree]
        return [
            Inheritance(node, text, resolver.base(file, node.number, text))
            for text in node.symbol.bases
        ]

    def heirs(self, node: CodeNode) -> Iterator[Inheritance]:
        """Yield the direct subtypes of a type, certain ones and candidates."""
        tree, name, identity = self._by_name[node.tree], node.symbol.name, node.id
        for path, facts in tree.using(name):
            bound = {imported.binds for imported in facts.imports if imported.name == name} | {name}
            for number, symbol in enumerate(facts.symbols):
                for text in symbol.bases:
                    if last_of(text) not in bound:
                        continue
                    heir = CodeNode(tree.name, path, facts, number)
                    meaning = self._resolvers[tree.name].base(
                        SourceContext(path, facts), number, text
                    )
                    if any(target.id == identity for target in meaning.nodes):
                        yield Inheritance(heir, text, meaning)

    def imports(self, tree: SourceTree, path: str) -> list[ResolvedImport]:
        """Return the imports of a file."""
        facts, resolver = tree.facts(path), self._resolvers[tree.name]
        if facts is None:
            return []
        file = SourceContext(path, facts)
        return [
            ResolvedImport(tree.name, path, imported, tuple(resolver.files(file, imported)))
            for imported in facts.imports
        ]

    def importing(self, text: str) -> Iterator[ResolvedImport]:
        """Yield the imports of a module, of a name in it, or of a file."""
        targets = list(self.files(text)) if language_of_file(text) is not None else []
        for tree in self.trees:
            paths = {path for owner, path in targets if owner is tree}
            for path, facts in self._files_importing(tree, text, paths):
                for imported in facts.imports:
                    if not paths and not _names(imported, text):
                        continue
                    files = tuple(
                        self._resolvers[tree.name].files(SourceContext(path, facts), imported)
                    )
                    if not paths or paths & set(files):
                        yield ResolvedImport(tree.name, path, imported, files)

    def _files_importing(
        self, tree: SourceTree, text: str, paths: set[str]
    ) -> Iterator[tuple[str, Facts]]:
        """Yield the files that use the last part of a module, or of a name in it."""
        seen, names = set[str](), {last_module(text.replace("::", "."))}
        for path in paths:
            facts = tree.facts(path)
            symbols = () if facts is None else facts.symbols
            folder = path.rpartition("/")[0].rpartition("/")[2]
            names |= {stem_of(path)[1:], folder} | {symbol.name for symbol in symbols}
        for name in sorted(names - {""}):
            for path, facts in tree.using(name):
                if path not in seen and facts.imports:
                    seen.add(path)
                    yield path, facts


def parts_of_name(text: str) -> list[str]:
    """Return the parts of a name with any separators; none for an invalid name."""
    plain = text.strip().removesuffix("()").replace("::", ".").replace("#", ".").replace("->", ".")
    parts = plain.split(".")
    return parts if all(map(_is_name, parts)) else []


def _is_name(part: str) -> bool:
    return part.replace("$", "_").isidentifier()


def matches_name(node: CodeNode, parts: list[str]) -> bool:
    """Return whether a name matches a symbol: its qualified name, then its modules, in order."""
    own = node.symbol.qualified.split(".")
    if len(parts) <= len(own):
        return own[len(own) - len(parts) :] == parts
    if parts[len(parts) - len(own) :] != own:
        return False
    before = parts[: len(parts) - len(own)]
    modules = [node.tree, *without_ending(node.path)]
    modules = modules[:-1] if modules[-1] in _HIDDEN else modules
    if before[-1] not in modules:
        return False
    rest = iter(modules)
    return all(any(each == part for each in rest) for part in before)


def _path_ends(path: list[str], parts: list[str]) -> bool:
    tail = path[len(path) - len(parts) :]
    return len(tail) == len(parts) and all(map(part_matches, parts, tail))


def _names(imported: ImportStatement, text: str) -> bool:
    """Return whether an import refers to a module, or to a name in it."""
    plain = text.replace("::", ".").strip("/.")
    module = imported.module.lstrip("./@~")
    whole = f"{module}.{imported.name}".strip(".")
    return any(
        one == plain or one.endswith(("." + plain, "/" + plain)) for one in (module, whole) if one
    )


def is_type(node: CodeNode) -> bool:
    """Return whether a symbol can have methods and subtypes."""
    return node.symbol.kind in TYPES


EdgeKind = Literal["CALLS", "REFERENCES", "INHERITS", "IMPORTS", "METHOD_OF", "DEFINED_IN"]


class CodeSymbol(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A symbol."""

    id: str
    """Made of its tree, path, qualified name and kind; stable while they are."""

    name: str
    """Qualified: ``Config.load``."""

    kind: str
    tree: str
    path: str
    """Path of its file, from the root of the tree."""

    line: int
    last_line: int
    language: str
    signature: str = ""
    doc: str = ""
    complexity: int = 0
    """1 plus the number of branches; absent for symbols that are not called."""


class CodeEdge(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A relation of a symbol or a file."""

    kind: EdgeKind
    source: str
    """ID of the source symbol; ``TREE/PATH`` for a file."""

    name: str
    """The target, as written."""

    targets: list[str] = []
    """IDs of the target symbols, or the files; several for one name in one place."""

    candidates: list[str] = []
    """IDs of possible targets: only the name matches."""

    how: str = ""
    """How it was found: ``self``, ``file``, ``folder``, ``import``, ``package``, ``type``
    (declared), ``index`` (from another tool); ``name`` with candidates; ``outside`` of the tree;
    absent if unknown."""

    line: int = 0
    times: int = 1
    of: CodeSymbol | None = None
    """The symbol at the other end, if known."""

    @property
    def is_certain(self) -> bool:
        """Whether the target is certain."""
        return bool(self.targets)


def code_of(node: CodeNode) -> CodeSymbol:
    """Return a symbol in the form of results."""
    symbol = node.symbol
    return CodeSymbol(
        id=node.id,
        name=symbol.qualified,
        kind=symbol.kind,
        tree=node.tree,
        path=node.path,
        line=symbol.first,
        last_line=symbol.last,
        language=node.facts.language,
        signature=symbol.signature,
        doc=symbol.doc,
        complexity=symbol.complexity,
    )


def call_of(call: CallSite, *, of: CodeNode | None) -> CodeEdge:
    """Return a call or another reference as an edge.

    Args:
        call: The reference.
        of: The symbol at the other end.
    """
    ids = [node.id for node in call.meaning.nodes]
    certain = call.meaning.is_certain
    caller = call.caller
    return CodeEdge(
        kind="CALLS" if call.use.is_call else "REFERENCES",
        source=caller.id if caller is not None else f"{call.tree}/{call.path}",
        name=call.use.text,
        targets=ids if certain else [],
        candidates=[] if certain else ids,
        how=call.meaning.how,
        line=call.use.line,
        times=call.use.times,
        of=None if of is None else code_of(of),
    )


def inheritance_of(inheritance: Inheritance, *, of: CodeNode | None) -> CodeEdge:
    """Return an inheritance as an edge."""
    ids = [node.id for node in inheritance.meaning.nodes]
    certain = inheritance.meaning.is_certain
    return CodeEdge(
        kind="INHERITS",
        source=inheritance.node.id,
        name=inheritance.text,
        targets=ids if certain else [],
        candidates=[] if certain else ids,
        how=inheritance.meaning.how,
        line=inheritance.node.symbol.first,
        of=None if of is None else code_of(of),
    )


def import_of(resolved: ResolvedImport) -> CodeEdge:
    """Return an import as an edge; its targets are files."""
    name = f"{resolved.imported.module} {resolved.imported.name}".strip()
    return CodeEdge(
        kind="IMPORTS",
        source=f"{resolved.tree}/{resolved.path}",
        name=name,
        targets=[f"{resolved.tree}/{path}" for path in resolved.files],
        how="import" if resolved.files else "outside",
        line=resolved.imported.line,
    )


def belonging(kind: Literal["METHOD_OF", "DEFINED_IN"], node: CodeNode, target: str) -> CodeEdge:
    """Return the relation of a symbol to its type or file."""
    return CodeEdge(
        kind=kind,
        source=node.id,
        name=target.rpartition("#")[2].partition(":")[0],
        targets=[target],
        how="file",
        line=node.symbol.first,
        of=code_of(node),
    )


def certain_first(edges: Iterable[CodeEdge]) -> list[CodeEdge]:
    """Return edges, certain ones first, then by source and line."""
    return sorted(edges, key=lambda edge: (not edge.is_certain, edge.source, edge.line))
