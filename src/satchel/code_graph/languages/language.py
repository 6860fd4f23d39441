"""What the code graph has to know of a language; each is a value of this in a module of its own."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from satchel.code_graph.facts import Facts, ImportStatement


class UnparsedError(Exception):
    """A file is not what its language allows; the message says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """One language."""

    name: str
    endings: tuple[str, ...]
    """Of file names, with the dot."""

    read: Callable[[bytes], Facts]
    """Returns what a file says.

    Raises ``UnparsedError`` when nothing of it can be read, ``MissingExtraError`` when what the
    language needs is not installed.
    """

    leads_to: Callable[[ImportStatement, str, str], bool]
    """Tells whether an import in one file (its path) means another file (its path)."""

    receivers: frozenset[str] = frozenset()
    """Words that stand for the object or class that a method belongs to."""

    by_folder: bool = False
    """Whether the files of a folder see each other's names without importing them."""

    methods_bare: bool = False
    """Whether a method of the same class is called without naming the object."""

    index_names: frozenset[str] = frozenset()
    """Names of files, without ending, that stand for their folder in an import."""

    family: str = ""
    """Languages that share their names; its own name when empty."""

    outside: frozenset[str] = frozenset()
    """Names that are there in every file without being defined in one."""

    def stems(self, path: str) -> frozenset[str]:
        """Return what a file may be called in an import, each after a slash."""
        folder, _, name = path.rpartition("/")
        above = "/" + folder.rpartition("/")[2]
        if self.by_folder or name.partition(".")[0] in self.index_names:
            return frozenset({above} - {"/"})
        return frozenset()

    def packages(self, path: str) -> Iterable[str]:
        """Yield the files that stand for the folders above a file, the nearest first."""
        name = path.rpartition("/")[2]
        while "/" in path:
            path = path.rpartition("/")[0]
            for index in sorted(self.index_names):
                for ending in self.endings:
                    found = f"{path}/{index}{ending}"
                    if found.rpartition("/")[2] != name or found != path:
                        yield found


def ends_with(parts: list[str], tail: list[str]) -> bool:
    """Return whether a path ends with some parts."""
    return bool(tail) and len(tail) <= len(parts) and parts[len(parts) - len(tail) :] == tail


def without_ending(path: str) -> list[str]:
    """Return the parts of a path, the last one without what follows its first dot."""
    parts = path.split("/")
    return [*parts[:-1], parts[-1].partition(".")[0]]


_MODULES: dict[str, tuple[str, ...]] = {
    "python": (".py", ".pyi"),
    "script": (".js", ".jsx", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx"),
    "go": (".go",),
    "rust": (".rs",),
    "java": (".java",),
}
_OF_ENDING = {ending: module for module, endings in _MODULES.items() for ending in endings}

NAMES: dict[str, str] = {
    "python": "python",
    "javascript": "script",
    "typescript": "script",
    "tsx": "script",
    "go": "go",
    "rust": "rust",
    "java": "java",
}
"""Each language, and the module that reads it."""

_OTHER = Language(name="", endings=(), read=lambda _: NotImplemented, leads_to=lambda *_: False)


def language_of_file(path: str) -> Language | None:
    """Return the language that a file's name tells; None for one that is not read here."""
    ending = "." + path.rpartition("/")[2].rpartition(".")[2].lower()
    module = _OF_ENDING.get(ending)
    if module is None:
        return None
    return next(one for one in _languages(module) if ending in one.endings)


@cache
def language_called(name: str) -> Language:
    """Return a language by its name; of one that is not read here, what can be said of any."""
    module = NAMES.get(name)
    if module is None:
        return _OTHER
    return next(one for one in _languages(module) if one.name == name)


def _languages(module: str) -> tuple[Language, ...]:
    found = import_module(f"satchel.code_graph.languages.{module}").LANGUAGES
    return tuple(found)
