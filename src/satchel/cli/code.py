"""``satchel code``."""

from collections.abc import Sequence

from satchel.cli._console import (
    count,
    excerpt,
    line,
    message,
    print_facts,
    short,
    short_time,
    table,
)
from satchel.cli._operations import command, open_to_read, open_to_write
from satchel.cli._tree import Group
from satchel.code_graph import operations as code_graph_operations
from satchel.code_graph.operations import (
    CodeDropResult,
    CodeIndexResult,
    CodeQueryResult,
    CodeTree,
    SymbolDetails,
)
from satchel.code_graph.queries import CodeEdge, CodeSymbol

_MOST_SHOWN = 10


def show_symbols(result: Sequence[SymbolDetails]) -> None:
    """Print symbols, member by member."""
    for each in result:
        _show_symbol(each)


def show_trees(result: Sequence[CodeTree]) -> None:
    """Print source trees as a table."""
    if not result:
        message("No source trees. Index one: satchel code index PATH")
        return
    table(["tree", "files", "symbols", "indexed", "state", "folder"], map(_tree, result))


def show_dropped(result: CodeDropResult) -> None:
    """Print what was or would be removed."""
    done = "would be removed" if result.dry_run else "removed"
    tree = result.tree
    message(f"{done}: {count(tree.files, 'file')}, {count(tree.symbols, 'symbol')}")


def _tree(tree: CodeTree) -> list[object]:
    whole = "complete" if tree.complete else "not complete"
    sizes = [f"{tree.files:,}", f"{tree.symbols:,}"]
    return [tree.name, *sizes, short_time(tree.at), whole, tree.root]


def show_index(done: CodeIndexResult) -> None:
    """Print the result of indexing a source tree."""
    tree = done.tree
    print_facts(
        [
            ("tree", tree.name),
            ("files", f"{tree.files:,}: {done.read:,} read, {done.unchanged:,} unchanged"),
            ("symbols", f"{tree.symbols:,}"),
            *([("removed", f"{done.removed:,}")] if done.removed else []),
        ]
    )
    left = [
        f"{done.ignored:,} ignored" if done.ignored else "",
        f"{done.links:,} links not followed" if done.links else "",
        f"{done.others:,} in other languages" if done.others else "",
    ]
    if any(left):
        message(f"skipped: {', '.join(part for part in left if part)}")
    for language, number in done.needs.items():
        message(f"skipped: {count(number, 'file')} in {language}: {done.hint}", style="yellow")
    for finding in done.findings[:_MOST_SHOWN]:
        message(f"{finding.path}: {finding.what}", style="yellow")
    if len(done.findings) > _MOST_SHOWN:
        message(f"and {len(done.findings) - _MOST_SHOWN:,} more: --json")


def show_answer(result: CodeQueryResult) -> None:
    """Print symbols and relations."""
    if len(result.meant) > 1:
        message(f"several match: {', '.join(each.id for each in result.meant)}")
    if result.symbols:
        table(["kind", "name", "place", "signature"], map(_symbol, result.symbols))
    if result.edges:
        table(["relation", "symbol", "place", "how", "target"], map(_edge, result.edges))
    if not result.symbols and not result.edges:
        message("nothing found")
    if result.more:
        message(f"There are {result.more:,} more: --limit")
    if not result.complete:
        message("Not everything was considered: a name is in too many files.")


def _symbol(code: CodeSymbol) -> list[object]:
    return [code.kind, code.name, f"{code.path}:{code.line}", excerpt(code.signature)]


def _edge(edge: CodeEdge) -> list[object]:
    how = edge.how if edge.is_certain else f"perhaps: {len(edge.candidates)} of that name"
    if not edge.targets and not edge.candidates:
        how = "outside" if edge.how else "not known"
    of = edge.of
    if of is None:
        ends = ", ".join(edge.targets)
        return [edge.kind, f"{edge.source}:{edge.line}", edge.name, how, ends]
    return [edge.kind, of.name, f"{of.path}:{edge.line or of.line}", how, excerpt(of.signature)]


def _show_symbol(details: SymbolDetails) -> None:
    code = details.code
    line(code.signature or code.name, style="bold")
    rows: list[tuple[str, object]] = [
        ("id", code.id),
        ("kind", code.kind),
        ("where", f"{code.path}:{code.line}-{code.last_line}"),
    ]
    if code.complexity:
        rows.append(("complexity", code.complexity))
    rows += [("says", each) for each in code.doc.splitlines()]
    rows += [
        (edge.kind, f"{edge.name}  {_ends(edge)}")
        for edge in details.edges
        if edge.kind != "DEFINED_IN"
    ]
    rows += [("method", f"{each.signature or each.name}  :{each.line}") for each in details.methods]
    rows += [("inherited by", f"{edge.source}{_perhaps(edge)}") for edge in details.heirs]
    rows += [
        ("called by", f"{edge.source}:{edge.line}{_perhaps(edge)}") for edge in details.callers
    ]
    if details.more_callers:
        rows.append(("called by", f"{details.more_callers:,} more: --limit"))
    rows += [("memory", f"{short(each.id)}  {excerpt(each.text)}") for each in details.memories]
    print_facts(rows)


def _ends(edge: CodeEdge) -> str:
    if edge.targets:
        return f"-> {', '.join(edge.targets)}"
    if edge.candidates:
        return f"-> perhaps {', '.join(edge.candidates)}"
    return f"({edge.how or 'not known'})"


def _perhaps(edge: CodeEdge) -> str:
    return "" if edge.is_certain else "  (perhaps)"


code = Group(help="Manage the code that memories mention.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(code, name="code")


command(
    code,
    code_graph_operations.index_code,
    show_index,
    bank=open_to_write,
    label="reading code",
)
command(code, code_graph_operations.query_code, show_answer, bank=open_to_read)
command(code, code_graph_operations.show_code, show_symbols, bank=open_to_read)
command(code, code_graph_operations.code_trees, show_trees, bank=open_to_read)
command(code, code_graph_operations.drop_code, show_dropped, bank=open_to_write)
