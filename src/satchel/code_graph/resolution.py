"""Resolution of names in a program to symbols.

Nothing is run, and no types are inferred beyond what is written: names are searched in the scopes
of the language, and a result has the way that it was found. Where only the name matches, every
symbol of that name is a candidate and none is certain.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

from satchel.code_graph.facts import (
    CALLED,
    MODULE,
    TYPES,
    CodeNode,
    Facts,
    ImportStatement,
    Use,
    last_module,
    last_of,
)
from satchel.code_graph.index import SourceTree, language_of

DEEPEST = 64
"""Maximum nested symbols."""


def dots_before(module: str) -> int:
    """Return the number of dots before the name of a module."""
    return len(module) - len(module.lstrip("."))


def are_kin(facts: Facts, other: Facts) -> bool:
    """Return whether two files are in languages that share names."""
    if facts.language == other.language:
        return True
    first, second = language_of(facts), language_of(other)
    return bool(first.family) and first.family == second.family


def sees_types_inside(facts: Facts) -> bool:
    """Return whether methods see the members of their type by name."""
    return language_of(facts).methods_bare


def around(facts: Facts, number: int) -> list[int]:
    """Return the symbols around a symbol, the innermost first, the file itself last."""
    symbols = list[int]()
    while number != MODULE and len(symbols) < DEEPEST:
        symbols.append(number)
        number = facts.symbols[number].owner
    return [*symbols, MODULE]


def type_around(facts: Facts, number: int) -> int:
    """Return the innermost type around a symbol, or ``MODULE``."""
    kinds = (each for each in around(facts, number) if each != MODULE)
    return next((each for each in kinds if facts.symbols[each].kind in TYPES), MODULE)


def folder_of(path: str) -> str:
    """Return the folder that a file is in."""
    return path.rpartition("/")[0]


def may_share(type_: CodeNode, path: str) -> bool:
    """Return whether a file may extend a type of another one."""
    language = language_of(type_.facts)
    return language.name == "rust" or (
        language.by_folder and folder_of(type_.path) == folder_of(path)
    )


MOST_CANDIDATES = 10
"""Maximum candidates where only the name matches."""

MOST_LOOKED_AT = 2000
"""Maximum symbols of a name that are read."""

_DEEPEST = 8
_SELF, _LOCAL, _FOLDER, _IMPORT, _PACKAGE, _TYPE, _KEY = (
    *("self", "file", "folder", "import", "package", "type", "index"),
)
NAME, OUTSIDE = "name", "outside"
"""Ways of uncertain results: by name alone; outside of the tree."""


class Resolution(NamedTuple):
    """The result of resolving a name."""

    how: str
    """``self``, ``file``, ``folder``, ``import``, ``package``, ``type`` (declared) or ``index``
    (from another tool) if certain; ``name`` if only the name matches; ``outside`` if it is not in
    the tree; empty if unknown."""

    nodes: tuple[CodeNode, ...] = ()
    """The targets, or candidates."""

    @property
    def is_certain(self) -> bool:
        """Whether the nodes are targets, not candidates."""
        return bool(self.nodes) and self.how != NAME


_UNKNOWN, _OUTSIDE = Resolution(""), Resolution(OUTSIDE)


class SourceContext(NamedTuple):
    """The file of a name."""

    path: str
    facts: Facts


class Resolver:
    """Resolves names in one tree."""

    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree

    def meaning(self, file: SourceContext, use: Use) -> Resolution:
        """Resolve a reference."""
        if use.key:
            return self._by_key(use.text, use.key)
        before, _, last = use.text.rpartition(".")
        if not before:
            return self._bare(file, use.by, last, CALLED | TYPES)
        language = language_of(file.facts)
        if before in language.receivers:
            resolution = self._of_receiver(file, use.by, before, last)
            if resolution.nodes:
                return resolution
        if use.type in language.outside:
            return _OUTSIDE
        if use.type:
            resolution = self._members(self._type(file, use.by, use.type), last, _TYPE)
            if resolution.nodes:
                return resolution
        return self._dotted(file, use.by, before, last)

    def base(self, file: SourceContext, number: int, text: str) -> Resolution:
        """Resolve a base of a type."""
        symbol = file.facts.symbols[number]
        if symbol.key:
            nodes = self._all(last_of(text), lambda node: node.symbol.qualified == text)
            return Resolution(_KEY, tuple(nodes[:1])) if nodes else _OUTSIDE
        return self._type_meaning(file, symbol.owner, text)

    def methods(self, node: CodeNode) -> list[CodeNode]:
        """Return the members of a type, in it or declared elsewhere."""
        qualified = node.symbol.qualified
        methods = [
            node._replace(number=number)
            for number, symbol in enumerate(node.facts.symbols)
            if symbol.kind == "method" and symbol.qualified.rpartition(".")[0] == qualified
        ]
        language = language_of(node.facts)
        if language.by_folder or language.name == "rust":
            methods += self._methods_elsewhere(node)
        return methods

    def _methods_elsewhere(self, node: CodeNode) -> list[CodeNode]:
        """Return methods of a type in other files, which use the type's name."""
        methods = list[CodeNode]()
        for path, facts in islice(self._tree.using(node.symbol.name), MOST_LOOKED_AT):
            if path != node.path and may_share(node, path):
                methods += [
                    CodeNode(node.tree, path, facts, number)
                    for number, symbol in enumerate(facts.symbols)
                    if symbol.kind == "method"
                    and symbol.owner == MODULE
                    and symbol.qualified.rpartition(".")[0] == node.symbol.qualified
                ]
        return methods

    def files(self, file: SourceContext, imported: ImportStatement) -> list[str]:
        """Return the paths of the files that an import refers to."""
        leads_to = language_of(file.facts).leads_to
        stems = {last_module(imported.module), imported.name} - {"", "*", "default"}
        folder = file.path.rpartition("/")[0].rpartition("/")[2]
        stems |= {folder} if not last_module(imported.module) else set()
        paths = set[str]()
        for stem in stems:
            for path, facts in self._tree.files_called("/" + stem.partition("/")[0]):
                kin = path != file.path and are_kin(file.facts, facts)
                if kin and leads_to(imported, file.path, path):
                    paths.add(path)
        return sorted(paths)

    def _by_key(self, text: str, key: str) -> Resolution:
        nodes = self._all(last_of(text), lambda node: node.symbol.key == key)
        return Resolution(_KEY, tuple(nodes)) if nodes else _OUTSIDE

    def _all(self, name: str, accepts: Callable[[CodeNode], bool]) -> list[CodeNode]:
        return [node for node in self._tree.defined(name)[:MOST_LOOKED_AT] if accepts(node)]

    def _bare(self, file: SourceContext, by: int, name: str, kinds: frozenset[str]) -> Resolution:
        """Resolve a name in the scopes of the language: around it, file, imports, folder."""
        language = language_of(file.facts)
        if language.methods_bare:
            owner = type_around(file.facts, by)
            named = owner != MODULE and file.facts.symbols[owner].name == name
            if owner != MODULE and "method" in kinds and not named:  # Java: new Cart() in a Cart
                own = CodeNode(self._tree.name, file.path, file.facts, owner)
                resolution = self._members([own], name, _SELF)
                if resolution.nodes:
                    return resolution
        local = self._local(file, by, name, kinds)
        if local:
            return Resolution(_LOCAL, tuple(local))
        for imported in file.facts.imports:
            if imported.binds == name and imported.name:
                return self._imported(file, imported, kinds)
        resolution = self._starred(file, name, kinds)
        if not resolution.nodes and language.by_folder:
            resolution = self._in_folder(file, name, kinds)
        if resolution.nodes:
            return resolution
        if name in language.outside:
            return _OUTSIDE
        return self._by_name(file, name, kinds - {"method"})

    def _local(
        self, file: SourceContext, by: int, name: str, kinds: frozenset[str]
    ) -> list[CodeNode]:
        """Resolve a name in the enclosing scopes, the innermost first."""
        symbols = file.facts.symbols
        for owner in around(file.facts, by):
            if (
                owner != MODULE
                and symbols[owner].kind in TYPES
                and not sees_types_inside(file.facts)
            ):
                continue  # members of a class are not visible by name in its methods
            nodes = [
                CodeNode(self._tree.name, file.path, file.facts, number)
                for number, symbol in enumerate(symbols)
                if symbol.name == name
                and symbol.owner == owner
                and symbol.kind in kinds - {"method"}
                and (owner != MODULE or symbol.qualified == name)
            ]
            if nodes:
                return nodes
        return []

    def _imported(
        self, file: SourceContext, imported: ImportStatement, kinds: frozenset[str]
    ) -> Resolution:
        """Resolve an imported name."""
        if imported.name == "default":
            return self._default(file, imported, kinds)
        resolution = self._reached(file, imported, imported.name, kinds)
        return resolution or self._missing(file, imported)

    def _missing(self, file: SourceContext, imported: ImportStatement) -> Resolution:
        """Return the result for an imported name that no file of the tree defines."""
        return _UNKNOWN if self.files(file, imported) else _OUTSIDE

    def _default(
        self, file: SourceContext, imported: ImportStatement, kinds: frozenset[str]
    ) -> Resolution:
        """Return the default export of a JavaScript file."""
        exported = list[CodeNode]()
        for path in self.files(file, imported):
            facts = self._tree.facts(path)
            exported += [
                CodeNode(self._tree.name, path, facts, number)
                for number, symbol in enumerate(facts.symbols if facts is not None else ())
                if facts is not None
                and symbol.signature.startswith("export default")
                and symbol.kind in kinds
            ]
        return Resolution(_IMPORT, tuple(exported)) if exported else self._missing(file, imported)

    def _reached(
        self, file: SourceContext, imported: ImportStatement, name: str, kinds: frozenset[str]
    ) -> Resolution | None:
        """Return the symbols of a name in the file of an import, or below its folder."""
        language = language_of(file.facts)

        def fits(node: CodeNode) -> bool:
            symbol = node.symbol
            top = symbol.owner == MODULE or node.facts.symbols[symbol.owner].kind == "module"
            inside = language.methods_bare  # Java: a member of a class that is imported
            return (
                symbol.kind in kinds
                and are_kin(file.facts, node.facts)
                and (inside or (top and symbol.kind != "method"))
            )

        candidates = self._all(name, fits)
        exact = [node for node in candidates if language.leads_to(imported, file.path, node.path)]
        if exact:
            return Resolution(_IMPORT, tuple(exact))
        below = [node for node in candidates if self._is_below(file, imported, node)]
        # A package re-exports names of its files; of several, which one is unknown.
        if below:
            return Resolution(_PACKAGE if len({n.path for n in below}) == 1 else NAME, tuple(below))
        return None

    def _is_below(self, file: SourceContext, imported: ImportStatement, node: CodeNode) -> bool:
        language = language_of(file.facts)
        plain = ImportStatement(imported.module, "", "", imported.line)
        return any(
            language.leads_to(plain, file.path, index) for index in language.packages(node.path)
        )

    def _starred(self, file: SourceContext, name: str, kinds: frozenset[str]) -> Resolution:
        for imported in file.facts.imports:
            if imported.name == "*":
                resolution = self._reached(file, imported, name, kinds)
                if resolution is not None and resolution.is_certain:
                    return resolution
        return _UNKNOWN

    def _in_folder(self, file: SourceContext, name: str, kinds: frozenset[str]) -> Resolution:
        nodes = self._all(
            name,
            lambda node: (
                node.symbol.kind in kinds - {"method"}
                and node.symbol.owner == MODULE
                and folder_of(node.path) == folder_of(file.path)
            ),
        )
        return Resolution(_FOLDER, tuple(nodes)) if nodes else _UNKNOWN

    def _dotted(self, file: SourceContext, by: int, before: str, last: str) -> Resolution:
        """Resolve a name after a dot: in an imported module, or in a type."""
        first, _, rest = before.partition(".")
        for imported in file.facts.imports:
            if imported.binds == first:
                return self._through(file, imported, rest, last)
        types = self._type(file, by, before)
        if types:
            resolution = self._members(types, last, _TYPE)
            return resolution if resolution.nodes else _UNKNOWN
        language = language_of(file.facts)
        if language.name == "rust":
            reached = self._reached(file, ImportStatement(before, "", "", 0), last, CALLED | TYPES)
            if reached is not None:
                return reached
        if first in language.outside and not rest:
            return _OUTSIDE
        return self._by_name(file, last, frozenset({"method"}))

    def _through(
        self, file: SourceContext, imported: ImportStatement, rest: str, last: str
    ) -> Resolution:
        """Resolve a name in an import: in a module, or in a type of one."""
        if imported.name:
            types = self._reached(file, imported, imported.name, TYPES)
            if types is not None:
                return self._members(list(types.nodes), last, _IMPORT)
            join = "" if imported.module.endswith(".") or not imported.module else "."
            module = f"{imported.module}{join}{imported.name}"
        else:
            module = imported.module
        if rest and not imported.name and module.partition(".")[0] == imported.binds:
            module = f"{imported.binds}.{rest}"  # import a.b; a.b.f()
        elif rest:
            types_inside = self._reached(
                file, ImportStatement(module, "", "", 0), last_of(rest), TYPES
            )
            if types_inside is not None:
                return self._members(list(types_inside.nodes), last, _IMPORT)
            module = f"{module}.{rest}"
        resolution = self._reached(file, ImportStatement(module, "", "", 0), last, CALLED | TYPES)
        return resolution or self._missing(file, imported)

    def _of_receiver(self, file: SourceContext, by: int, word: str, name: str) -> Resolution:
        owner = type_around(file.facts, by)
        if owner == MODULE:
            return _UNKNOWN
        node = CodeNode(self._tree.name, file.path, file.facts, owner)
        if word == "super":
            return self._members(self._bases(node), name, _SELF)
        return self._members([node], name, _SELF)

    def _members(self, types: Iterable[CodeNode], name: str, how: str) -> Resolution:
        """Search a method in types, then in their bases."""
        level, seen = list(types), set[str]()
        for _ in range(_DEEPEST):
            members = [node for type_ in level for node in self._own(type_, name)]
            if members:
                return Resolution(how, tuple(members))
            seen |= {node.id for node in level}
            above = [base for type_ in level for base in self._bases(type_)]
            level = [node for node in above if node.id not in seen]
            if not level:
                break
        return _UNKNOWN

    def _own(self, type_: CodeNode, name: str) -> list[CodeNode]:
        qualified = f"{type_.symbol.qualified}.{name}"
        return self._all(
            name,
            lambda node: (
                node.symbol.qualified == qualified
                and node.symbol.kind in CALLED | TYPES
                and (node.path == type_.path or may_share(type_, node.path))
            ),
        )

    def _bases(self, node: CodeNode) -> list[CodeNode]:
        file = SourceContext(node.path, node.facts)
        bases = list[CodeNode]()
        for text in node.symbol.bases:
            meaning = self.base(file, node.number, text)
            bases += meaning.nodes if meaning.is_certain else ()
        return bases

    def _type(self, file: SourceContext, by: int, text: str) -> list[CodeNode]:
        meaning = self._type_meaning(file, by, text)
        return list(meaning.nodes) if meaning.is_certain else []

    def _type_meaning(self, file: SourceContext, by: int, text: str) -> Resolution:
        before, _, last = text.rpartition(".")
        if not before:
            return self._bare(file, by, last, TYPES)
        first, _, rest = before.partition(".")
        for imported in file.facts.imports:
            if imported.binds == first:
                module = imported.module
                if imported.name:
                    module = f"{module.rstrip('.')}.{imported.name}".lstrip(".")
                    module = "." * dots_before(imported.module) + module
                module += f".{rest}" if rest else ""
                return (
                    self._reached(file, ImportStatement(module, "", "", 0), last, TYPES) or _OUTSIDE
                )
        local = [
            CodeNode(self._tree.name, file.path, file.facts, number)
            for number, symbol in enumerate(file.facts.symbols)
            if symbol.qualified == text and symbol.kind in TYPES
        ]
        return Resolution(_LOCAL, tuple(local)) if local else _UNKNOWN

    def _by_name(self, file: SourceContext, name: str, kinds: frozenset[str]) -> Resolution:
        nodes = self._all(
            name, lambda node: node.symbol.kind in kinds and are_kin(file.facts, node.facts)
        )
        return Resolution(NAME, tuple(nodes[:MOST_CANDIDATES])) if nodes else _UNKNOWN
