"""``satchel code index``, ``query``, ``show``, ``trees`` and ``drop``."""

from pathlib import Path
from typing import Annotated

from satchel.actions.coding import asking, indexing
from satchel.actions.coding.asking import CodeFound, CodeShown, Wanted
from satchel.actions.coding.indexing import CodeIndexed, CodeTree, IndexOptions
from satchel.actions.opened import opened_bank
from satchel.code_graph.shown import Code, Edge
from satchel.surfaces.cli._console import (
    count,
    facts,
    gist,
    line,
    message,
    print_json,
    progress,
    short,
    state,
    table,
)
from satchel.surfaces.cli._options import DryRun, InBank, Json
from satchel.surfaces.cli._tree import Argument, Group, Option

_MOST_SHOWN = 10


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    code = Group(help="The code that memories speak of.")
    code.command("index")(index_command)
    code.command("query")(query_command)
    code.command("show")(show_command)
    code.command("trees")(trees_command)
    code.command("drop")(drop_command)
    app.add(code, name="code")


def index_command(
    path: Annotated[Path, Argument(help="A folder of source files, or a SCIP index.")],
    name: Annotated[
        str | None, Option("--name", help="What to call it; else the folder's name.")
    ] = None,
    rebuild: Annotated[
        bool, Option("--rebuild", help="Read all of it again, not only what has changed.")
    ] = False,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Read a source tree, or what has changed in it, so that memories are recalled with their code.

    Python, JavaScript, TypeScript, Go, Rust and Java, without what .gitignore and .satchelignore
    leave out; links are not followed. A file that ends in .scip is read as an index in SCIP.

    Example: `satchel code index .`
    """
    with (
        opened_bank(state.settings, bank, writes=True) as there,
        progress("reading code", long=True, records=True) as tell,
    ):
        done = indexing.index_code(there, path, IndexOptions(name=name, rebuild=rebuild, told=tell))
    if as_json:
        print_json(done)
    else:
        _tell_index(done)


def query_command(
    name: Annotated[
        str | None, Option("--name", help="Symbols of this name; may hold *, ? and [a-z].")
    ] = None,
    file: Annotated[
        str | None, Option("--file", help="Symbols of a file; the end of its path will do.")
    ] = None,
    kind: Annotated[
        str | None, Option("--kind", help="Only symbols of this kind, such as class.")
    ] = None,
    callers_of: Annotated[
        str | None, Option("--callers-of", help="Where this symbol is called from.")
    ] = None,
    callees_of: Annotated[
        str | None, Option("--callees-of", help="What this symbol calls.")
    ] = None,
    methods_of: Annotated[
        str | None, Option("--methods-of", help="The methods of this type.")
    ] = None,
    inherits: Annotated[
        str | None, Option("--inherits", help="The types that inherit from this one.")
    ] = None,
    imports: Annotated[
        str | None, Option("--imports", help="Who imports this module, name or file.")
    ] = None,
    limit: Annotated[int, Option("--limit", help="How many.")] = 50,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Ask about the code that was read: what is there, who calls whom, who inherits from what.

    A symbol is named as in a program: load, Config.load, app.config.Config.load; or by its id. What
    is certain comes first; where only the name fits, that is said.

    Example: `satchel code query --callers-of Config.load`
    """
    wanted = Wanted(
        name=name,
        file=file,
        kind=kind,
        callers_of=callers_of,
        callees_of=callees_of,
        methods_of=methods_of,
        inherits=inherits,
        imports=imports,
        limit=limit,
    )
    with opened_bank(state.settings, bank) as there:
        found = asking.query_code(there, wanted)
    if as_json:
        print_json(found)
    else:
        _tell_found(found)


def show_command(
    symbol: Annotated[str, Argument(help="Its id, PATH#NAME, or its name.")],
    limit: Annotated[int, Option("--limit", minimum=1, help="How many callers.")] = 20,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Show a symbol: its signature, what it calls, who calls it, and which memories name it.

    Example: `satchel code show Config.load`
    """
    with opened_bank(state.settings, bank) as there:
        found = asking.show_code(there, symbol, limit=limit)
    if as_json:
        print_json(found)
        return
    for each in found:
        _tell_symbol(each)


def trees_command(bank: InBank = None, as_json: Json = False) -> None:
    """List the source trees that a bank knows.

    Example: `satchel code trees`
    """
    with opened_bank(state.settings, bank) as there:
        found = indexing.code_trees(there)
    if as_json:
        print_json(found)
    elif not found:
        message("There are none: satchel code index PATH")
    else:
        table([], [_tree(each) for each in found])


def drop_command(
    name: Annotated[str, Argument(help="Of the source tree; see: satchel code trees.")],
    dry_run: DryRun = False,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Forget a source tree. Its files are not touched, nor any memory.

    Example: `satchel code drop website`
    """
    with opened_bank(state.settings, bank, writes=True) as there:
        done = indexing.drop_code(there, name, dry_run=dry_run)
    if as_json:
        print_json(done)
        return
    what = "would be forgotten" if dry_run else "forgotten"
    message(f"{what}: {count(done.files, 'file')}, {count(done.symbols, 'symbol')}")


def _tree(tree: CodeTree) -> list[object]:
    whole = "" if tree.complete else "not complete"
    sizes = [count(tree.files, "file"), count(tree.symbols, "symbol")]
    return [tree.name, *sizes, tree.at[:16].replace("T", " "), whole, tree.root]


def _tell_index(done: CodeIndexed) -> None:
    tree = done.tree
    facts(
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
        f"{done.others:,} in no language that is read here" if done.others else "",
    ]
    if any(left):
        message(f"left out: {', '.join(part for part in left if part)}")
    for language, number in done.needs.items():
        message(f"left out: {count(number, 'file')} in {language}: {done.hint}", style="yellow")
    for finding in done.findings[:_MOST_SHOWN]:
        message(f"{finding.path}: {finding.what}", style="yellow")
    if len(done.findings) > _MOST_SHOWN:
        message(f"and {len(done.findings) - _MOST_SHOWN:,} more: --json")


def _tell_found(found: CodeFound) -> None:
    if len(found.meant) > 1:
        message(f"several fit: {', '.join(each.id for each in found.meant)}")
    if found.symbols:
        table([], [_symbol(each) for each in found.symbols])
    if found.edges:
        table([], [_edge(each) for each in found.edges])
    if not found.symbols and not found.edges:
        message("nothing found")
    if found.more:
        message(f"There are {found.more:,} more: --limit")
    if not found.complete:
        message("not everything was looked at: a name is in too many files")


def _symbol(code: Code) -> list[object]:
    return [code.kind, code.name, f"{code.path}:{code.line}", gist(code.signature)]


def _edge(edge: Edge) -> list[object]:
    how = edge.how if edge.is_certain else f"perhaps: {len(edge.candidates)} of that name"
    if not edge.targets and not edge.candidates:
        how = "outside" if edge.how else "not known"
    of = edge.of
    if of is None:
        ends = ", ".join(edge.targets)
        return [edge.kind, f"{edge.source}:{edge.line}", edge.name, how, ends]
    return [edge.kind, of.name, f"{of.path}:{edge.line or of.line}", how, gist(of.signature)]


def _tell_symbol(shown: CodeShown) -> None:
    code = shown.code
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
        for edge in shown.edges
        if edge.kind != "DEFINED_IN"
    ]
    rows += [("method", f"{each.signature or each.name}  :{each.line}") for each in shown.methods]
    rows += [("inherited by", f"{edge.source}{_perhaps(edge)}") for edge in shown.heirs]
    rows += [("called by", f"{edge.source}:{edge.line}{_perhaps(edge)}") for edge in shown.callers]
    if shown.more_callers:
        rows.append(("called by", f"{shown.more_callers:,} more: --limit"))
    rows += [("memory", f"{short(each.id)}  {gist(each.text)}") for each in shown.memories]
    facts(rows)


def _ends(edge: Edge) -> str:
    if edge.targets:
        return f"-> {', '.join(edge.targets)}"
    if edge.candidates:
        return f"-> perhaps {', '.join(edge.candidates)}"
    return f"({edge.how or 'not known'})"


def _perhaps(edge: Edge) -> str:
    return "" if edge.is_certain else "  (perhaps)"
