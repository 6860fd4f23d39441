"""Operations on a bank's code graph: index, query, show."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import OpenBank
from satchel.code_graph import index
from satchel.code_graph.facts import KINDS, CodeNode, CodeSource
from satchel.code_graph.folders import SourceFolder
from satchel.code_graph.index import TreeHead
from satchel.code_graph.languages.language import language_of_file
from satchel.code_graph.mentions import mentions
from satchel.code_graph.queries import (
    CallSite,
    CodeEdge,
    CodeGraph,
    CodeSymbol,
    belonging,
    call_of,
    certain_first,
    code_of,
    import_of,
    inheritance_of,
    is_type,
)
from satchel.code_graph.scip import ScipIndex
from satchel.config.options import (
    DryRun,
    OnProgress,
    PathOptions,
    PathPermission,
    file_to_read,
    folder_to_read,
    is_contained,
)
from satchel.errors import EmptyInputError, MissingExtraError, UnknownCodeError, UsageError
from satchel.ledger.view import View
from satchel.model.records import Entry
from satchel.model.text import memory_text
from satchel.ports.operations import Option, Options, PathText, operation

Progress = Callable[[int, int], None]

MOST = 1000
"""Maximum symbols or edges of a result."""

NOT_SERVED = {
    "http": "Code is read and queried on its own machine; `recall` shows it with memories.",
    "mcp": "`recall` shows code with the memories that mention it.",
}


@dataclass(frozen=True, slots=True)
class CodeIndexOptions(PathOptions):
    """Which source tree to index."""

    path: Annotated[
        PathText,
        Option("Folder of source files, or a SCIP index (.scip).", argument=True, values="file"),
    ]
    _: KW_ONLY
    name: Annotated[str | None, Option("Name of the source tree. Default: that of the folder.")] = (
        None
    )
    rebuild: Annotated[bool, Option("Read all of it again, not only what has changed.")] = False
    progress: OnProgress = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeQueryOptions(Options):
    """A question about code: at most one relation; the other options narrow it."""

    name: Annotated[str | None, Option("Symbols with this name; may contain *, ? and [a-z].")] = (
        None
    )
    file: Annotated[
        str | None, Option("Symbols of this file: its path, or the last part of it.")
    ] = None
    kind: Annotated[str | None, Option("Only symbols of this kind, such as class.")] = None
    callers_of: Annotated[str | None, Option("Where this symbol is called.")] = None
    callees_of: Annotated[str | None, Option("What this symbol calls.")] = None
    methods_of: Annotated[str | None, Option("Methods of this type.")] = None
    inherits: Annotated[str | None, Option("Types that inherit from this one.")] = None
    imports: Annotated[str | None, Option("Files that import this module, name or file.")] = None
    limit: Annotated[
        int, Option("Maximum number of symbols or relations.", minimum=1, maximum=MOST)
    ] = 50

    @property
    def relations(self) -> list[str]:
        """The options that name a relation."""
        names = ("callers_of", "callees_of", "methods_of", "inherits", "imports")
        return [name for name in names if getattr(self, name) is not None]


@dataclass(frozen=True, slots=True)
class CodeShowOptions(Options):
    """Which symbol to show."""

    symbol: Annotated[str, Option("Symbol: its ID, PATH#NAME, or its name.", argument=True)]
    _: KW_ONLY
    limit: Annotated[int, Option("Maximum number of callers.", minimum=1, maximum=20_000)] = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeTreesOptions(Options):
    """No options: all source trees are listed."""


@dataclass(frozen=True, slots=True)
class CodeDropOptions(Options):
    """Which source tree to remove."""

    name: Annotated[str, Option("Name of the source tree. See: satchel code trees.", argument=True)]
    _: KW_ONLY
    dry_run: DryRun = False


MOST_LOOKED_AT = 20_000
"""Maximum edges read for a result."""

_MOST_MEMORIES, _NOMINATED, _GIST = 10, 50, 120
_MENTIONS = 50
_Some = TypeVar("_Some")


class MentioningMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that mentions a symbol."""

    id: str
    text: str
    """Its beginning."""


class CodeQueryResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a query."""

    meant: list[CodeSymbol] = []
    """The symbols that the query names; several if its words match several."""

    symbols: list[CodeSymbol] = []
    files: list[str] = []
    """As ``TREE/PATH``."""

    edges: list[CodeEdge] = []
    """Certain ones first."""

    more: int = 0
    """Symbols or edges that were read but are over the limit."""

    complete: bool = True
    """False if not everything was read: a very common name may be in too many files."""


class SymbolDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A symbol with its relations."""

    code: CodeSymbol
    edges: list[CodeEdge] = []
    """Outgoing relations: DEFINED_IN, METHOD_OF, INHERITS, CALLS and REFERENCES."""

    callers: list[CodeEdge] = []
    """Incoming CALLS and REFERENCES, certain ones first."""

    more_callers: int = 0
    methods: list[CodeSymbol] = []
    heirs: list[CodeEdge] = []
    memories: list[MentioningMemory] = []
    """Memories that mention it."""


@operation(
    CodeQueryOptions,
    name="code query",
    example="satchel code query --callers-of Config.load",
    absent=NOT_SERVED,
)
def query_code(bank: OpenBank, options: CodeQueryOptions) -> CodeQueryResult:
    """Query the indexed code: symbols, callers, callees, methods, subtypes, imports.

    A symbol is named as in a program: load, Config.load, app.config.Config.load; or by its ID.
    Resolved relations come first; those that match by name only are marked.

    Raises:
        UnknownCodeError: If the bank has no code, or no such symbol.
        UsageError: If the query is empty, or has two relations.
        StoreError: If the index is damaged.
    """
    _require_question(options)
    require_owner(bank.settings, "code")
    with bank.ledger.reading() as view:
        graph = _graph(view)
        relation = next(iter(options.relations), None)
        if relation is None:
            return _symbols(graph, options)
        return _RELATIONS[relation](graph, getattr(options, relation), options)


def _require_question(options: CodeQueryOptions) -> None:
    if options.kind is not None and options.kind not in KINDS:
        hint = f"Choose from: {', '.join(sorted(KINDS))}."
        raise UsageError(f"unknown kind {options.kind!r}", field="kind", hint=hint)
    if len(options.relations) > 1:
        hint = f"Drop all but one of: {', '.join(options.relations)}."
        raise UsageError("only one relation can be queried at a time", hint=hint)
    if not options.relations and options.name is options.file is options.kind is None:
        raise UsageError(
            "no query given", hint="Give --name, --file, --kind, --callers-of or the like."
        )


@operation(
    CodeShowOptions,
    name="code show",
    example="satchel code show Config.load",
    items="symbols",
    absent=NOT_SERVED,
)
def show_code(bank: OpenBank, options: CodeShowOptions) -> list[SymbolDetails]:
    """Show a symbol: its signature, what it calls, its callers, and memories that mention it.

    All symbols that match are shown.

    Raises:
        UnknownCodeError: If there is none.
    """
    require_owner(bank.settings, "code")
    with bank.ledger.reading() as view:
        graph = _graph(view)
        nodes = _find_symbols(graph, options.symbol)
        return [_details(view, graph, node, options.limit) for node in nodes]


def _graph(view: View) -> CodeGraph:
    graph = CodeGraph(view.side)
    if not graph.trees:
        raise UnknownCodeError(
            "no code is indexed in this bank", hint="Index a folder: satchel code index PATH"
        )
    return graph


def _find_symbols(graph: CodeGraph, text: str) -> list[CodeNode]:
    nodes = graph.find(text)
    if not nodes:
        raise UnknownCodeError(
            f"no symbol {text[:200]!r} in the code of this bank",
            hint="Search for it: satchel code query --name '*PART*'",
        )
    return nodes


def _symbols(graph: CodeGraph, options: CodeQueryOptions) -> CodeQueryResult:
    files = list[str]()
    if options.file is not None:
        nodes, files = list[CodeNode](), list[str]()
        for tree, path in graph.files(options.file):
            files.append(f"{tree.name}/{path}")
            nodes += graph.in_file(tree, path)
        candidates: Iterable[CodeNode] = nodes
        if options.name is not None:
            named = {node.id for node in graph.symbols(options.name)}
            candidates = (node for node in nodes if node.id in named)
    else:
        candidates = graph.symbols(options.name or "*")
    selected = (node for node in candidates if options.kind in {None, node.symbol.kind})
    scanned = islice(selected, MOST_LOOKED_AT)
    page, more = _cut(sorted(scanned, key=_by_location), options.limit)
    return CodeQueryResult(
        symbols=[code_of(node) for node in page],
        files=files[: options.limit],
        more=more,
        complete=graph.complete,
    )


def _by_location(node: CodeNode) -> tuple[str, str, int]:
    return node.tree, node.path, node.number


def _cut(some: Iterable[_Some], limit: int) -> tuple[list[_Some], int]:
    scanned = list(islice(some, MOST_LOOKED_AT))
    return scanned[:limit], max(0, len(scanned) - limit)


def _edges(
    graph: CodeGraph, nodes: list[CodeNode], edges: Iterator[CodeEdge], options: CodeQueryOptions
) -> CodeQueryResult:
    selected = (edge for edge in edges if _has_kind(edge, options))
    page, more = _cut(certain_first(islice(selected, MOST_LOOKED_AT)), options.limit)
    return CodeQueryResult(
        meant=[code_of(node) for node in nodes], edges=page, more=more, complete=graph.complete
    )


def _has_kind(edge: CodeEdge, options: CodeQueryOptions) -> bool:
    return options.kind is None or (edge.of is not None and edge.of.kind == options.kind)


def _callers(graph: CodeGraph, text: str, options: CodeQueryOptions) -> CodeQueryResult:
    nodes = _find_symbols(graph, text)
    edges = (call_of(call, of=call.caller) for node in nodes for call in graph.callers(node))
    return _edges(graph, nodes, edges, options)


def _callees(graph: CodeGraph, text: str, options: CodeQueryOptions) -> CodeQueryResult:
    nodes = _find_symbols(graph, text)
    edges = (_callee(call) for node in nodes for call in graph.callees(node))
    return _edges(graph, nodes, edges, options)


def _callee(call: CallSite) -> CodeEdge:
    nodes = call.meaning.nodes
    return call_of(call, of=nodes[0] if len(nodes) == 1 and call.meaning.is_certain else None)


def _methods(graph: CodeGraph, text: str, options: CodeQueryOptions) -> CodeQueryResult:
    types = [node for node in _find_symbols(graph, text) if is_type(node)]
    if not types:
        raise UnknownCodeError(f"{text[:200]!r} is not a type, so it has no methods")
    edges = (
        belonging("METHOD_OF", method, node.id) for node in types for method in graph.methods(node)
    )
    return _edges(graph, types, edges, options)


def _heirs(graph: CodeGraph, text: str, options: CodeQueryOptions) -> CodeQueryResult:
    nodes = _find_symbols(graph, text)
    edges = (inheritance_of(heir, of=heir.node) for node in nodes for heir in graph.heirs(node))
    return _edges(graph, nodes, edges, options)


def _importing(graph: CodeGraph, text: str, options: CodeQueryOptions) -> CodeQueryResult:
    if language_of_file(text) is not None and not any(True for _ in graph.files(text)):
        raise UnknownCodeError(f"no file {text[:200]!r} in the code of this bank")
    return _edges(graph, [], (import_of(resolved) for resolved in graph.importing(text)), options)


_RELATIONS: dict[str, Callable[[CodeGraph, str, CodeQueryOptions], CodeQueryResult]] = {
    "callers_of": _callers,
    "callees_of": _callees,
    "methods_of": _methods,
    "inherits": _heirs,
    "imports": _importing,
}


def _details(view: View, graph: CodeGraph, node: CodeNode, limit: int) -> SymbolDetails:
    owner = graph.owner(node)
    edges = [belonging("DEFINED_IN", node, f"{node.tree}/{node.path}")]
    if owner is not None and is_type(owner):
        edges.append(belonging("METHOD_OF", node, owner.id))
    edges = [msgspec.structs.replace(edge, of=None) for edge in edges]
    edges += [inheritance_of(inheritance, of=None) for inheritance in graph.bases(node)]
    edges += [call_of(call, of=None) for call in graph.callees(node)]
    callers = certain_first(
        call_of(call, of=call.caller) for call in islice(graph.callers(node), MOST_LOOKED_AT)
    )
    return SymbolDetails(
        code=code_of(node),
        edges=edges,
        callers=callers[:limit],
        more_callers=max(0, len(callers) - limit),
        methods=[code_of(each) for each in graph.methods(node)] if is_type(node) else [],
        heirs=[
            inheritance_of(inheritance, of=inheritance.node) for inheritance in graph.heirs(node)
        ]
        if is_type(node)
        else [],
        memories=_memories(view, graph, node),
    )


def _memories(view: View, graph: CodeGraph, node: CodeNode) -> list[MentioningMemory]:
    """Return the memories that mention a symbol: its words nominate them, its name decides."""
    memories = list[MentioningMemory]()
    for logged, _ in view.candidates(node.symbol.name, limit=_NOMINATED):
        if len(memories) >= _MOST_MEMORIES or not isinstance(logged.model, Entry):
            continue
        text = memory_text(logged.model)
        mentioned = mentions(graph, text, _MENTIONS)
        if any(mention.node is not None and mention.node.id == node.id for mention in mentioned):
            memories.append(MentioningMemory(id=logged.record.id, text=text[:_GIST]))
    return memories


MOST_TREES = 1000
"""Maximum source trees of a bank."""

_LONGEST_NAME = 100
_SCIP_ENDING = ".scip"


class UnreadableFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that could not be fully read."""

    path: str
    what: str


class CodeTree(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A source tree of a bank."""

    name: str
    root: str
    """The path that it was read from."""

    kind: str
    """``source`` for a folder of source files, ``scip`` for an index that another tool made."""

    files: int
    symbols: int
    at: str
    """When it was last indexed."""

    complete: bool = True
    """False during indexing, and after an interruption; index it again to complete it."""


class CodeDropResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The removed source tree."""

    tree: CodeTree
    dry_run: bool = False


class CodeIndexResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of indexing a source tree."""

    tree: CodeTree
    read: int = 0
    """Files that are new or have changed."""

    unchanged: int = 0
    removed: int = 0
    """Files that no longer exist."""

    ignored: int = 0
    """Files and folders that ignore files name, or with third-party code."""

    links: int = 0
    """Links, which are not followed."""

    others: int = 0
    """Files in unsupported languages."""

    needs: dict[str, int] = {}
    """Files that were skipped because the parser of their language is not installed, by language.
    """

    hint: str = ""
    """How to install it."""

    findings: list[UnreadableFile] = []
    """Files that could not be fully read."""


@operation(
    CodeIndexOptions,
    name="code index",
    example="satchel code index .",
    absent=NOT_SERVED,
)
def index_code(
    bank: OpenBank, options: CodeIndexOptions, *, permission: PathPermission | None = None
) -> CodeIndexResult:
    """Index a source tree, or what has changed in it, so that memories are recalled with its code.

    Python, JavaScript, TypeScript, Go, Rust and Java. Files that .gitignore and .satchelignore name
    are ignored; links are not followed. A file that ends in .scip is read as a SCIP index.

    Raises:
        UsageError: If another tree of the bank has its name.
        ContainmentError, PathRefusedError, UnreadableError: If it cannot be opened.
        MalformedError, LimitError: If it is not a SCIP index, or too large.
        EmptyInputError: If it has no readable source files.
        MissingExtraError: If all files need a parser that is not installed.
        ChangedError: If other processes keep indexing it.
        StoreError: If the store cannot be written; the next run resumes.
    """
    require_owner(bank.settings, "code")
    with _opened(bank, str(options.path), permission or options.permission) as source:
        head = _head(bank, source, options.name)
        done = index.index(
            bank.store,
            bank.ledger,
            source,
            head,
            rebuild=options.rebuild,
            progress=options.progress,
        )
        seen = source.seen
    if not done.head.files:
        index.remove(bank.store, bank.ledger, done.head)
        _refuse_empty(str(options.path), done, _findings(done))
    return CodeIndexResult(
        tree=_tree(done.head),
        read=done.read,
        unchanged=done.unchanged,
        removed=done.removed,
        ignored=seen.ignored,
        links=seen.links,
        others=seen.others,
        needs=done.needs,
        hint=done.hint,
        findings=_findings(done),
    )


@operation(
    CodeTreesOptions,
    name="code trees",
    example="satchel code trees",
    items="trees",
    absent=NOT_SERVED,
)
def code_trees(bank: OpenBank, options: CodeTreesOptions) -> list[CodeTree]:
    """List the source trees of a bank, by name."""
    del options
    require_owner(bank.settings, "code")
    with bank.ledger.reading() as view:
        return [_tree(head) for head in index.stored_heads(view.side)]


@operation(
    CodeDropOptions,
    name="code drop",
    example="satchel code drop website",
    absent=NOT_SERVED,
)
def drop_code(bank: OpenBank, options: CodeDropOptions) -> CodeDropResult:
    """Remove a source tree from a bank. Its files are not changed, nor any memory.

    Raises:
        UnknownCodeError: If the bank has no source tree of this name.
    """
    require_owner(bank.settings, "code")
    with bank.ledger.reading() as view:
        heads = {head.name: head for head in index.stored_heads(view.side)}
    name, dry_run = options.name, options.dry_run
    if name not in heads:
        hint = f"Choose from: {', '.join(sorted(heads))}." if heads else None
        raise UnknownCodeError(f"no source tree {name!r} in this bank", hint=hint)
    if not dry_run:
        index.remove(bank.store, bank.ledger, heads[name])
    return CodeDropResult(tree=_tree(heads[name]), dry_run=dry_run)


@contextmanager
def _opened(bank: OpenBank, path: str | Path, permission: PathPermission) -> Iterator[CodeSource]:
    if str(path).endswith(_SCIP_ENDING):
        with file_to_read(bank.settings, path, permission) as file:
            yield ScipIndex(file)
        return
    with folder_to_read(bank.settings, path, permission) as folder:
        yield SourceFolder(folder, look_above=not is_contained(bank.settings, permission))


def _head(bank: OpenBank, source: CodeSource, name: str | None) -> TreeHead:
    """Return the stored head of a tree, or a new one."""
    with bank.ledger.reading() as view:
        heads = index.stored_heads(view.side, damaged=True)
    same = [head for head in heads if (head.root, head.kind) == (source.root, source.kind)]
    if name is None and same:
        return same[0]
    tree_name = _named(source, name)
    for head in heads:
        if head.name == tree_name:
            if (head.root, head.kind) != (source.root, source.kind) and name is None:
                raise UsageError(
                    f"a source tree named {tree_name!r} already exists, of {head.root}",
                    field="name",
                    hint="Choose another name, or pass the same one to replace it: --name NAME",
                )
            return msgspec.structs.replace(head, root=source.root, kind=source.kind)
    if len(heads) >= MOST_TREES:
        raise UsageError(f"a bank can have at most {MOST_TREES:,} source trees", field="name")
    return TreeHead(
        name=tree_name,
        root=source.root,
        kind=source.kind,
        number=0,
        parts=1,
        make=index.MAKE,
        round=0,
        whole=False,
    )


def _named(source: CodeSource, name: str | None) -> str:
    if name is None:
        own = source.project if isinstance(source, ScipIndex) else ""
        name = own or Path(source.root).name.removesuffix(_SCIP_ENDING) or "root"
        name = "".join(char if char.isprintable() and char not in "/#" else "_" for char in name)
        return name[:_LONGEST_NAME]
    if not name.strip() or not name.isprintable() or {"/", "#"} & set(name):
        raise UsageError(
            f"not a valid source tree name: {name[:_LONGEST_NAME]!r}",
            field="name",
            hint="Printable characters without / and #.",
        )
    if len(name) > _LONGEST_NAME:
        raise UsageError(f"a name has at most {_LONGEST_NAME} characters", field="name")
    return name


def _refuse_empty(path: str, done: index.TreeIndexResult, findings: list[UnreadableFile]) -> None:
    if done.needs:
        files = ", ".join(f"{number:,} in {name}" for name, number in sorted(done.needs.items()))
        raise MissingExtraError(
            f"no parser is installed for these files: {files}", file=path, hint=done.hint
        )
    why = f"; {findings[0].path}: {findings[0].what}" if findings else ""
    raise EmptyInputError(
        f"no readable source files found{why}",
        file=path,
        hint="Supported: Python, JavaScript, TypeScript, Go, Rust, Java, and SCIP indexes.",
    )


def _findings(done: index.TreeIndexResult) -> list[UnreadableFile]:
    return [UnreadableFile(path=path, what=what) for path, what in done.findings]


def _tree(head: TreeHead) -> CodeTree:
    return CodeTree(
        name=head.name,
        root=head.root,
        kind=head.kind,
        files=head.files,
        symbols=head.symbols,
        at=head.at,
        complete=head.whole,
    )
