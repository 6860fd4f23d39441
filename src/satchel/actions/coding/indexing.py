"""Reading source trees into a bank's code graph, and taking them out again."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from satchel.actions.coding.options import (
    NOT_SERVED,
    CodeDropOptions,
    CodeIndexOptions,
    CodeTreesOptions,
)
from satchel.actions.opened import OpenBank
from satchel.actions.paths.permission import (
    Permission,
    file_to_read,
    folder_to_read,
    is_contained,
)
from satchel.actions.permitted.owning import require_owner
from satchel.code_graph import indexing, keeping
from satchel.code_graph.keeping import Head
from satchel.code_graph.sources.folders import Folder
from satchel.code_graph.sources.offer import CodeSource
from satchel.code_graph.sources.scip import ScipIndex
from satchel.errors import EmptyInputError, MissingExtraError, UnknownCodeError, UsageError
from satchel.ports.operations import operation

MOST_TREES = 1000
"""Source trees of one bank."""

_LONGEST_NAME = 100
_SCIP_ENDING = ".scip"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A file of which something could not be read."""

    path: str
    what: str


class CodeTree(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A source tree of a bank."""

    name: str
    root: str
    """Where it was read."""

    kind: str
    """``source`` for a folder of source files, ``scip`` for an index that another tool made."""

    files: int
    symbols: int
    at: str
    """When it was last found to be so."""

    complete: bool = True
    """False while it is written, or after that was cut short; reading it again makes it whole."""


class CodeDropped(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was removed from a bank."""

    tree: CodeTree
    dry_run: bool = False


class CodeIndexed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a source tree."""

    tree: CodeTree
    read: int = 0
    """Files that are new or have changed."""

    unchanged: int = 0
    removed: int = 0
    """Files that are gone, and all that was known of them."""

    ignored: int = 0
    """Files and folders that ignore files leave out, or that hold what others wrote."""

    links: int = 0
    """Links, which are not followed."""

    others: int = 0
    """Files in no language that is read here."""

    needs: dict[str, int] = {}
    """Files that were left out because the package of their language is not installed."""

    hint: str = ""
    """How to install it."""

    findings: list[Finding] = []
    """Files of which something could not be read."""


@operation(
    CodeIndexOptions,
    name="code index",
    example="satchel code index .",
    absent=NOT_SERVED,
)
def index_code(
    bank: OpenBank, options: CodeIndexOptions, *, permission: Permission | None = None
) -> CodeIndexed:
    """Index a source tree, or what has changed in it, so that memories are recalled with its code.

    Python, JavaScript, TypeScript, Go, Rust and Java. Files that .gitignore and .satchelignore name
    are ignored; links are not followed. A file that ends in .scip is read as a SCIP index.

    Raises:
        UsageError: If its name is that of another tree of the bank.
        ContainmentError, PathRefusedError, UnreadableError: If it cannot be opened.
        MalformedError, LimitError: If it is no SCIP index, or too large.
        EmptyInputError: If there is nothing in it that can be read.
        MissingExtraError: If all of it needs an extra that is not installed.
        ChangedError: If others index it all the time.
        StoreError: If the store cannot be written; the next run resumes.
    """
    require_owner(bank.settings, "code")
    with _opened(bank, str(options.path), permission or options.permission) as source:
        head = _head(bank, source, options.name)
        done = indexing.index(
            bank.store, bank.ledger, source, head, rebuild=options.rebuild, told=options.progress
        )
        seen = source.seen
    if not done.head.files:
        indexing.remove(bank.store, bank.ledger, done.head)
        _refuse_empty(str(options.path), done, _findings(done))
    return CodeIndexed(
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
        return [_tree(head) for head in keeping.heads(view.side)]


@operation(
    CodeDropOptions,
    name="code drop",
    example="satchel code drop website",
    absent=NOT_SERVED,
)
def drop_code(bank: OpenBank, options: CodeDropOptions) -> CodeDropped:
    """Remove a source tree from a bank. Its files are not changed, nor any memory.

    Raises:
        UnknownCodeError: If the bank has no source tree of this name.
    """
    require_owner(bank.settings, "code")
    with bank.ledger.reading() as view:
        there = {head.name: head for head in keeping.heads(view.side)}
    name, dry_run = options.name, options.dry_run
    if name not in there:
        hint = f"Choose from: {', '.join(sorted(there))}." if there else None
        raise UnknownCodeError(f"no source tree {name!r} in this bank", hint=hint)
    if not dry_run:
        indexing.remove(bank.store, bank.ledger, there[name])
    return CodeDropped(tree=_tree(there[name]), dry_run=dry_run)


@contextmanager
def _opened(bank: OpenBank, path: str | Path, permission: Permission) -> Iterator[CodeSource]:
    if str(path).endswith(_SCIP_ENDING):
        with file_to_read(bank.settings, path, permission) as file:
            yield ScipIndex(file)
        return
    with folder_to_read(bank.settings, path, permission) as folder:
        yield Folder(folder, look_above=not is_contained(bank.settings, permission))


def _head(bank: OpenBank, source: CodeSource, name: str | None) -> Head:
    """Return what is kept of a tree so far, or the beginnings of it."""
    with bank.ledger.reading() as view:
        heads = keeping.heads(view.side, damaged=True)
    same = [head for head in heads if (head.root, head.kind) == (source.root, source.kind)]
    if name is None and same:
        return same[0]
    wanted = _named(source, name)
    for head in heads:
        if head.name == wanted:
            if (head.root, head.kind) != (source.root, source.kind) and name is None:
                raise UsageError(
                    f"a source tree named {wanted!r} already exists, of {head.root}",
                    field="name",
                    hint="Choose another name, or pass the same one to replace it: --name NAME",
                )
            return msgspec.structs.replace(head, root=source.root, kind=source.kind)
    if len(heads) >= MOST_TREES:
        raise UsageError(f"a bank can have at most {MOST_TREES:,} source trees", field="name")
    return Head(
        name=wanted,
        root=source.root,
        kind=source.kind,
        number=0,
        parts=1,
        make=keeping.MAKE,
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


def _refuse_empty(path: str, done: indexing.Indexed, findings: list[Finding]) -> None:
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


def _findings(done: indexing.Indexed) -> list[Finding]:
    return [Finding(path=path, what=what) for path, what in done.findings]


def _tree(head: Head) -> CodeTree:
    return CodeTree(
        name=head.name,
        root=head.root,
        kind=head.kind,
        files=head.files,
        symbols=head.symbols,
        at=head.at,
        complete=head.whole,
    )
