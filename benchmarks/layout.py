"""``python -m benchmarks.layout [FOLDER]``: counts of the layout of the package.

Files, lines by kind, module names that are not nouns, modules with one importer, class names used
more than once, pass-through functions, duplicate functions, and imports between rooms (the folders
directly below the package) in both directions.
"""

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import ROOT

PACKAGE = "satchel"
NOUNS = frozenset({"feed", "seed", "string"})
"""Words that end like a gerund or a participle and are none."""
_PARTICIPLE = ("ing", "ed")
VAGUE = frozenset(
    [
        "asked",
        "came",
        "found",
        "given",
        "gone",
        "got",
        "had",
        "kept",
        "made",
        "meant",
        "one",
        "place",
        "said",
        "shown",
        "taken",
        "there",
        "told",
        "wanted",
        "what",
        "who",
    ]
)
"""Names of variables that do not say what they hold."""
_NEAR = 3
"""Lines that such a variable may span."""
_SHORT = 4
"""Statements of a function that is too short to be called a copy."""


class Layout:
    """The modules of a package, read once.

    Args:
        folder: Where the package is.
    """

    def __init__(self, folder: Path) -> None:
        self.files = sorted(folder.rglob("*.py"))
        self.trees = {path: ast.parse(path.read_text("utf-8")) for path in self.files}
        self.names = {self._name(path, folder): path for path in self.files}

    @staticmethod
    def _name(path: Path, folder: Path) -> str:
        parts = (PACKAGE, *path.relative_to(folder).with_suffix("").parts)
        return ".".join(parts).removesuffix(".__init__")

    def modules(self) -> list[str]:
        """Return the names of modules that are not packages."""
        return [name for name, path in self.names.items() if path.name != "__init__.py"]

    def imports(self) -> Iterator[tuple[str, str]]:
        """Yield each import within the package: who imports what."""
        for name, path in self.names.items():
            for node in ast.walk(self.trees[path]):
                if not isinstance(node, ast.ImportFrom) or node.module is None:
                    continue
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    target = whole if whole in self.names else node.module
                    if target in self.names and target != name:
                        yield name, target

    def lines(self) -> Counter[str]:
        """Count lines: blank, comment, documentation, import, and the rest."""
        counts = Counter[str]()
        for path in self.files:
            kinds = dict[int, str]()
            for node in ast.walk(self.trees[path]):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    kinds |= dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), "import")
                if isinstance(node, ast.Expr) and isinstance(
                    getattr(node.value, "value", None), str
                ):
                    kinds |= dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), "docs")
            for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
                bare = line.strip()
                kind = "blank" if not bare else "comment" if bare.startswith("#") else "code"
                counts[kinds.get(number, kind) if bare else "blank"] += 1
        return counts

    def participles(self) -> list[str]:
        """Return modules that are named with a gerund or a participle."""
        last = {name: name.rsplit(".", 1)[-1].strip("_") for name in self.modules()}
        return [
            name for name, stem in last.items() if stem.endswith(_PARTICIPLE) and stem not in NOUNS
        ]

    def with_one_importer(self) -> list[str]:
        """Return modules that one other module imports."""
        importers = defaultdict[str, set[str]](set)
        for name, target in self.imports():
            importers[target].add(name)
        return [name for name in self.modules() if len(importers[name]) == 1]

    def classes(self) -> dict[str, list[str]]:
        """Return the public classes by name, each with the modules that define it."""
        modules = defaultdict[str, list[str]](list)
        for name, path in self.names.items():
            for node in self.trees[path].body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    modules[node.name].append(name)
        return modules

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Yield every function and method."""
        for tree in self.trees.values():
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield node

    def vague_variables(self) -> Iterator[tuple[Path, int, str]]:
        """Yield variables with a vague name that are used over several lines: file, line, name."""
        for path, tree in self.trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    for name, lines in _variables(node).items():
                        if name in VAGUE and max(lines) - min(lines) > _NEAR:
                            yield path, min(lines), name

    def rooms(self) -> dict[tuple[str, str], int]:
        """Count the imports from one room to another."""
        counts = Counter[tuple[str, str]]()
        for name, target in self.imports():
            pair = tuple((each.split(".")[1:2] or [""])[0] for each in (name, target))
            if all(pair) and pair[0] != pair[1]:
                counts[pair[0], pair[1]] += 1
        return counts


def _statements(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    body = node.body
    return body[1:] if ast.get_docstring(node) is not None else body


def _variables(node: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, list[int]]:
    """Return the parameters and variables of a function, each with the lines that name it."""
    lines = defaultdict[str, list[int]](list)
    own = set[str]()
    arguments = node.args
    for parameter in (
        *arguments.args,
        *arguments.kwonlyargs,
        *arguments.posonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ):
        if parameter is not None:
            own.add(parameter.arg)
            lines[parameter.arg].append(node.lineno)
    waiting: list[tuple[ast.AST, bool]] = [(node, True)]
    while waiting:
        parent, inside = waiting.pop()
        for child in ast.iter_child_nodes(parent):
            name = _named(child)
            if name is not None:
                lines[name].append(child.lineno)  # type: ignore[attr-defined]
                if inside and not isinstance(getattr(child, "ctx", None), ast.Load):
                    own.add(name)
            scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
            waiting.append((child, inside and not isinstance(child, scope)))
    return {name: lines[name] for name in own}


def _named(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.MatchAs | ast.MatchStar | ast.ExceptHandler):
        return node.name
    return None


def _passes_on(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function only calls another with its own arguments."""
    body = _statements(node)
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr):
        return False
    call = body[0].value
    if not isinstance(call, ast.Call):
        return False
    given = [*call.args, *(each.value for each in call.keywords)]
    own = {arg.arg for arg in [*node.args.args, *node.args.kwonlyargs]} - {"self", "cls"}
    names = {each.id for each in given if isinstance(each, ast.Name)}
    return len(names) == len(given) and bool(own) and names == own


def main() -> None:
    """Print the counts."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "src" / PACKAGE
    layout = Layout(folder)
    lines = layout.lines()
    rooms = layout.rooms()
    bodies = Counter(
        ast.dump(ast.Module(_statements(node), []))
        for node in layout.functions()
        if len(list(ast.walk(node))) > _SHORT * 10 and len(_statements(node)) >= _SHORT
    )
    shared = [where for where in layout.classes().values() if len(where) > 1]
    both = sorted(pair for pair in rooms if pair[::-1] in rooms and pair[0] < pair[1])
    print(f"files                          {len(layout.files):7,}")
    print(f"modules that are no packages   {len(layout.modules()):7,}")
    for kind in ("code", "docs", "import", "comment", "blank"):
        print(f"lines: {kind:<24}{lines[kind]:7,}")
    print(f"lines in all                   {lines.total():7,}")
    print(f"gerund or participle modules   {len(layout.participles()):7,}")
    print(f"modules with one importer      {len(layout.with_one_importer()):7,}")
    print(f"public class names used twice  {len(shared):7,}")
    print(f"variables with a vague name    {len(list(layout.vague_variables())):7,}")
    print(f"functions that pass on         {sum(map(_passes_on, layout.functions())):7,}")
    print(f"functions written twice        {sum(n - 1 for n in bodies.values()):7,}")
    print(f"rooms                          {len({room for pair in rooms for room in pair}):7,}")
    print(f"pairs of rooms that import each other {len(both)}", *both)


if __name__ == "__main__":
    main()
