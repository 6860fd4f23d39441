"""Source trees for tests of the code graph, and shorthands for its results."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ledger_kit import created

from satchel.code_graph import index
from satchel.code_graph.facts import CodeNode, CodeSource
from satchel.code_graph.folders import SourceFolder
from satchel.code_graph.index import TreeIndexResult
from satchel.code_graph.queries import CodeGraph
from satchel.ledger.ledger import Ledger
from satchel.ports.store import Store
from satchel.runtime.contained_folder import ContainedFolder

SAMPLES = Path(__file__).parent.parent / "data" / "code"


def written(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write a source tree."""
    for name, said in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(said.encode() if isinstance(said, str) else said)
    return folder


class Coded:
    """A bank with source trees, and a shorthand for operations on them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.ledger: Ledger = created(store)

    def read(self, folder: Path, name: str = "t", *, rebuild: bool = False) -> TreeIndexResult:
        """Index a tree."""
        with ContainedFolder(folder) as held:
            return self.read_from(SourceFolder(held), name, rebuild=rebuild)

    def read_from(
        self, source: CodeSource, name: str = "t", *, rebuild: bool = False
    ) -> TreeIndexResult:
        """Index a tree from any source."""
        with self.ledger.reading() as view:
            there = {head.name: head for head in index.stored_heads(view.side, damaged=True)}
        head = there.get(name) or index.TreeHead(
            name=name,
            root=source.root,
            kind=source.kind,
            number=0,
            parts=1,
            make=index.MAKE,
            round=0,
            whole=False,
        )
        return index.index(self.store, self.ledger, source, head, rebuild=rebuild)

    @contextmanager
    def graph(self) -> Iterator[CodeGraph]:
        """Yield the graph of one view."""
        with self.ledger.reading() as view:
            yield CodeGraph(view.side)

    def names(self, pattern: str = "*") -> list[str]:
        """Return all symbols as ``KIND NAME``, in the order of paths and lines."""
        with self.graph() as graph:
            nodes = sorted(graph.symbols(pattern), key=lambda node: (node.path, node.number))
            return [f"{node.symbol.kind} {node.symbol.qualified}" for node in nodes]

    def one(self, said: str) -> CodeNode:
        """Return the only matching symbol."""
        with self.graph() as graph:
            (found,) = graph.find(said)
            return found

    def calls(self, said: str) -> dict[str, tuple[str, list[str]]]:
        """Return the calls of a symbol: as written, how each was resolved, and its target."""
        with self.graph() as graph:
            (found,) = graph.find(said)
            return {
                call.use.text: (call.meaning.how, [short(node) for node in call.meaning.nodes])
                for call in graph.callees(found)
            }

    def callers(self, said: str) -> list[str]:
        """Return the certain callers of a symbol, sorted; ``?`` after possible ones."""
        with self.graph() as graph:
            (found,) = graph.find(said)
            return sorted(
                (call.path if call.caller is None else short(call.caller))
                + ("" if call.meaning.is_certain else "?")
                for call in graph.callers(found)
            )


def short(node: CodeNode) -> str:
    """Return a symbol as ``FILE:NAME``."""
    return f"{node.path.rpartition('/')[2]}:{node.symbol.qualified}"
