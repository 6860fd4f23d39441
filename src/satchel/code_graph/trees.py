"""Reading what is kept of a bank's source trees: by path, by the name of what is in them."""

from collections.abc import Iterator

from satchel.code_graph import index
from satchel.code_graph.facts import CodeNode, Facts
from satchel.code_graph.index import Side, TreeHead
from satchel.code_graph.languages.language import Language, language_called

MOST_PARTS_READ = 256
"""Parts that are read for one name; what more of them have is not looked for."""


class SourceTree:
    """One source tree as it is kept.

    Args:
        side: Gives the bank's unlogged values; all reads are of one view.
        head: The tree.
    """

    def __init__(self, side: Side, head: TreeHead) -> None:
        self._side = side
        self.head = head
        self._files = dict[int, dict[str, Facts]]()
        self._raw = dict[int, dict[str, bytes]]()
        self._names = dict[int, index.Names]()
        self._defined = dict[str, list[CodeNode]]()
        self.complete = True
        """Whether everything was looked at that a name is in."""

    @property
    def name(self) -> str:
        """What it is called."""
        return self.head.name

    def facts(self, path: str) -> Facts | None:
        """Return what a file says; None if it is not there."""
        return self._read(index.part_of(path, self.head.parts), path)

    def paths(self) -> list[str]:
        """Return the paths of all files, sorted."""
        return sorted(index.files_of(self._side, self.head))

    def defined(self, name: str) -> list[CodeNode]:
        """Return the symbols of a name, by path and line."""
        found = self._defined.get(name)
        if found is None:
            found = self._defined[name] = [
                CodeNode(self.name, path, facts, number)
                for path, facts in self._with(name, 0)
                for number, symbol in enumerate(facts.symbols)
                if symbol.name == name
            ]
        return found

    def using(self, name: str) -> Iterator[tuple[str, Facts]]:
        """Yield the files that name something so, also those that only import it."""
        yield from self._with(name, 1)

    def files_called(self, key: str) -> list[tuple[str, Facts]]:
        """Return the files of a name (``config.py``), or of a stem (``/config``)."""
        found = list[tuple[str, Facts]]()
        for part in self._parts(key, 0):
            for path in self._paths_in(part):
                facts = self._read(part, path)
                if facts is not None and _is_called(path, facts, key):
                    found.append((path, facts))
        return found

    def all_names(self) -> Iterator[str]:
        """Yield every name that is defined."""
        for name, (defined, _) in index.every_name(self._side, self.head):
            if defined:
                yield name

    def _with(self, name: str, which: int) -> Iterator[tuple[str, Facts]]:
        needle = name.encode("utf-8", "surrogatepass")
        for part in self._parts(name, which):
            for path, raw in sorted(self._part(part).items()):
                if needle in raw:
                    facts = self._read(part, path)
                    if facts is not None:
                        yield path, facts

    def _parts(self, name: str, which: int) -> list[int]:
        number = index.part_of(name, self.head.parts)
        if number not in self._names:
            self._names[number] = index.names_in(self._side, self.head, number)
        parts = self._names[number].get(name, ([], []))[which]
        self.complete = self.complete and len(parts) <= MOST_PARTS_READ
        return parts[:MOST_PARTS_READ]

    def _paths_in(self, part: int) -> list[str]:
        return sorted(self._part(part))

    def _part(self, part: int) -> dict[str, bytes]:
        if part not in self._raw:
            found = index.raw_facts(self._side, self.head, part)
            self._raw[part] = {path: bytes(raw) for path, raw in found.items()}
        return self._raw[part]

    def _read(self, part: int, path: str) -> Facts | None:
        read = self._files.setdefault(part, {})
        if path not in read:
            raw = self._part(part).get(path)
            if raw is None:
                return None
            read[path] = index.facts_from(raw)
        return read[path]


def language_of(facts: Facts) -> Language:
    """Return the language that a file is in."""
    return language_called(facts.language)


def _is_called(path: str, facts: Facts, key: str) -> bool:
    name = path.rpartition("/")[2]
    if not key.startswith("/"):
        return name == key
    return "/" + name.partition(".")[0] == key or key in language_of(facts).stems(path)


def trees_of(side: Side) -> list[SourceTree]:
    """Return the source trees of a bank, by name; none of which nothing was written yet."""
    return [SourceTree(side, head) for head in index.stored_heads(side)]
