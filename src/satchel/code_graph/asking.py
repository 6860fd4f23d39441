"""Asking a bank's code graph: what is there, who calls whom, who inherits from what."""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from satchel.code_graph.facts import (
    MODULE,
    TYPES,
    Facts,
    Import,
    Node,
    Use,
    last_module,
    last_of,
    stem_of,
)
from satchel.code_graph.keeping import Side
from satchel.code_graph.languages.known import language_of_file
from satchel.code_graph.languages.language import without_ending
from satchel.code_graph.resolving import File, Meaning, Resolver
from satchel.code_graph.sources.ignoring import part_matches
from satchel.code_graph.trees import Tree, trees_of

MOST_MEANT = 50
"""Symbols that one name may mean at most."""

_WILD = frozenset("*?[")
_HIDDEN = frozenset({"__init__", "index", "mod", "lib"})


class Called(NamedTuple):
    """A call, or another place that names something."""

    tree: str
    path: str
    facts: Facts
    use: Use
    meaning: Meaning

    @property
    def caller(self) -> Node | None:
        """The symbol that it stands in; None for the file itself."""
        return None if self.use.by == MODULE else Node(*self[:3], self.use.by)


class Inherits(NamedTuple):
    """A type, and what it says that it inherits from."""

    node: Node
    text: str
    meaning: Meaning


class Imported(NamedTuple):
    """An import, and the files it means."""

    tree: str
    path: str
    imported: Import
    files: tuple[str, ...]


class CodeGraph:
    """The source trees of a bank.

    Args:
        side: Gives the bank's unlogged values, all of one view.

    Raises:
        StoreError: If what is kept is damaged; so do all methods.
    """

    def __init__(self, side: Side) -> None:
        self.trees = trees_of(side)
        self._by_name = {tree.name: tree for tree in self.trees}
        self._resolvers = {tree.name: Resolver(tree) for tree in self.trees}

    @property
    def complete(self) -> bool:
        """Whether everything was looked at; a name may be in too many files."""
        return all(tree.complete for tree in self.trees)

    def symbols(self, name: str) -> Iterator[Node]:
        """Yield the symbols of a name, which may hold ``*``, ``?`` and ``[a-z]``."""
        for tree in self.trees:
            if _WILD & set(name):
                names = sorted({one for one in tree.all_names() if part_matches(name, one)})
            else:
                names = [name]
            for one in names:
                yield from tree.defined(one)

    def files(self, wanted: str) -> Iterator[tuple[Tree, str]]:
        """Yield the files whose path is, ends with or matches what is wanted."""
        parts = [part for part in wanted.split("/") if part not in {"", "."}]
        for tree in self.trees:
            for path in self._paths(tree, parts):
                yield tree, path

    def _paths(self, tree: Tree, parts: list[str]) -> list[str]:
        if not parts:
            return []
        if _WILD & set("".join(parts)):
            paths = tree.paths()
        else:
            paths = sorted(path for path, _ in tree.files_called(parts[-1]))
        return [path for path in paths if _path_ends(f"{tree.name}/{path}".split("/"), parts)]

    def in_file(self, tree: Tree, path: str) -> list[Node]:
        """Return the symbols of a file, in its order."""
        facts = tree.facts(path)
        if facts is None:
            return []
        return [Node(tree.name, path, facts, number) for number in range(len(facts.symbols))]

    def find(self, said: str) -> list[Node]:
        """Return the symbols that somebody means.

        Args:
            said: An id; ``path#Config.load``; or a name with as much before it as one likes:
                ``load``, ``Config.load``, ``app.config.Config.load``, ``Config::load``.
        """
        path, sharp, rest = said.partition("#")
        if sharp and language_of_file(path) is not None:
            return self._in_path(path, rest)
        parts = parts_of_name(said)
        if not parts:
            return []
        found = (node for tree in self.trees for node in tree.defined(parts[-1]))
        return list(islice((node for node in found if fits(node, parts)), MOST_MEANT))

    def _in_path(self, path: str, rest: str) -> list[Node]:
        found = list[Node]()
        for tree, there in self.files(path):
            for node in self.in_file(tree, there):
                qualified = node.symbol.qualified
                if rest in {
                    node.id.rpartition("#")[2],
                    qualified,
                    f"{qualified}:{node.symbol.kind}",
                }:
                    found.append(node)
        return found[:MOST_MEANT]

    def callers(self, node: Node) -> Iterator[Called]:
        """Yield the places that mean a symbol, or may: those in which it is a candidate."""
        tree, resolver = self._by_name[node.tree], self._resolvers[node.tree]
        name, wanted = node.symbol.name, node.id
        for path, facts in tree.using(name):
            file = File(path, facts)
            bound = {one.binds for one in facts.imports if one.name == name} | {name}
            for use in facts.uses:
                if last_of(use.text) not in bound:
                    continue
                meaning = resolver.meaning(file, use)
                if any(found.id == wanted for found in meaning.nodes):
                    yield Called(tree.name, path, facts, use, meaning)

    def callees(self, node: Node) -> Iterator[Called]:
        """Yield what a symbol names, in the order of its text."""
        file, resolver = File(node.path, node.facts), self._resolvers[node.tree]
        uses = [use for use in node.facts.uses if use.by == node.number]
        for use in sorted(uses, key=lambda one: one.line):
            yield Called(*node[:3], use, resolver.meaning(file, use))

    def methods(self, node: Node) -> list[Node]:
        """Return the methods of a type, also those that stand apart from it."""
        return self._resolvers[node.tree].methods(node)

    def owner(self, node: Node) -> Node | None:
        """Return the type or function that a symbol stands in; None for the file."""
        number = node.symbol.owner
        return None if number == MODULE else node._replace(number=number)

    def bases(self, node: Node) -> list[Inherits]:
        """Return what a type says that it inherits from."""
        file, resolver = File(node.path, node.facts), self._resolvers[node.tree]
        return [
            Inherits(node, text, resolver.base(file, node.number, text))
            for text in node.symbol.bases
        ]

    def heirs(self, node: Node) -> Iterator[Inherits]:
        """Yield the types that inherit from a type directly, or may."""
        tree, name, wanted = self._by_name[node.tree], node.symbol.name, node.id
        for path, facts in tree.using(name):
            bound = {one.binds for one in facts.imports if one.name == name} | {name}
            for number, symbol in enumerate(facts.symbols):
                for text in symbol.bases:
                    if last_of(text) not in bound:
                        continue
                    heir = Node(tree.name, path, facts, number)
                    meaning = self._resolvers[tree.name].base(File(path, facts), number, text)
                    if any(found.id == wanted for found in meaning.nodes):
                        yield Inherits(heir, text, meaning)

    def imports(self, tree: Tree, path: str) -> list[Imported]:
        """Return the imports of a file."""
        facts, resolver = tree.facts(path), self._resolvers[tree.name]
        if facts is None:
            return []
        file = File(path, facts)
        return [
            Imported(tree.name, path, one, tuple(resolver.files(file, one)))
            for one in facts.imports
        ]

    def importing(self, said: str) -> Iterator[Imported]:
        """Yield the imports of a module, of something in it, or of a file."""
        wanted = list(self.files(said)) if language_of_file(said) is not None else []
        for tree in self.trees:
            paths = {path for one, path in wanted if one is tree}
            for path, facts in self._that_import(tree, said, paths):
                for one in facts.imports:
                    if not paths and not _names(one, said):
                        continue
                    files = tuple(self._resolvers[tree.name].files(File(path, facts), one))
                    if not paths or paths & set(files):
                        yield Imported(tree.name, path, one, files)

    def _that_import(self, tree: Tree, said: str, paths: set[str]) -> Iterator[tuple[str, Facts]]:
        """Yield the files in which the last part of a module, or of a name in it, is used."""
        seen, names = set[str](), {last_module(said.replace("::", "."))}
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


def parts_of_name(said: str) -> list[str]:
    """Return the parts of a name as a person writes it, whatever joins them; none for no name."""
    plain = said.strip().removesuffix("()").replace("::", ".").replace("#", ".").replace("->", ".")
    parts = plain.split(".")
    return parts if all(map(_is_name, parts)) else []


def _is_name(part: str) -> bool:
    return part.replace("$", "_").isidentifier()


def fits(node: Node, parts: list[str]) -> bool:
    """Tell whether a symbol can be called so: its qualified name, then its modules, in order."""
    own = node.symbol.qualified.split(".")
    if len(parts) <= len(own):
        return own[len(own) - len(parts) :] == parts
    if parts[len(parts) - len(own) :] != own:
        return False
    before = parts[: len(parts) - len(own)]
    there = [node.tree, *without_ending(node.path)]
    there = there[:-1] if there[-1] in _HIDDEN else there
    if before[-1] not in there:
        return False
    rest = iter(there)
    return all(any(each == part for each in rest) for part in before)


def _path_ends(path: list[str], parts: list[str]) -> bool:
    tail = path[len(path) - len(parts) :]
    return len(tail) == len(parts) and all(map(part_matches, parts, tail))


def _names(imported: Import, said: str) -> bool:
    """Tell whether an import names a module, or something in it."""
    plain = said.replace("::", ".").strip("/.")
    module = imported.module.lstrip("./@~")
    whole = f"{module}.{imported.name}".strip(".")
    return any(
        one == plain or one.endswith(("." + plain, "/" + plain)) for one in (module, whole) if one
    )


def is_type(node: Node) -> bool:
    """Tell whether a symbol can have methods and heirs."""
    return node.symbol.kind in TYPES
