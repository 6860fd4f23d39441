"""Languages of the code graph; each is a value of ``Language`` in a module of its own."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from satchel.code_graph.facts import Facts, ImportStatement


class UnparsedError(Exception):
    """A file is invalid in its language; the message says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """A language."""

    name: str
    endings: tuple[str, ...]
    """Suffixes of file names, with the dot."""

    read: Callable[[bytes], Facts]
    """Returns the facts of a file.

    Raises ``UnparsedError`` if nothing of it can be parsed, ``MissingExtraError`` if the parser is
    not installed.
    """

    leads_to: Callable[[ImportStatement, str, str], bool]
    """Returns whether an import in one file (its path) refers to another file (its path)."""

    receivers: frozenset[str] = frozenset()
    """Names of the object or class of a method."""

    by_folder: bool = False
    """Whether the files of a folder see each other's names without importing them."""

    methods_bare: bool = False
    """Whether a method of the same class is called without naming the object."""

    index_names: frozenset[str] = frozenset()
    """Names of files, without suffix, that represent their folder in an import."""

    family: str = ""
    """The group of languages that share names; the language itself if empty."""

    outside: frozenset[str] = frozenset()
    """Built-in names."""

    def stems(self, path: str) -> frozenset[str]:
        """Return the names of a file in imports, each after a slash."""
        folder, _, name = path.rpartition("/")
        above = "/" + folder.rpartition("/")[2]
        if self.by_folder or name.partition(".")[0] in self.index_names:
            return frozenset({above} - {"/"})
        return frozenset()

    def packages(self, path: str) -> Iterable[str]:
        """Yield the files that represent the folders above a file, the nearest first."""
        name = path.rpartition("/")[2]
        while "/" in path:
            path = path.rpartition("/")[0]
            for index in sorted(self.index_names):
                for ending in self.endings:
                    candidate = f"{path}/{index}{ending}"
                    if candidate.rpartition("/")[2] != name or candidate != path:
                        yield candidate


def ends_with(parts: list[str], tail: list[str]) -> bool:
    """Return whether a path ends with some parts."""
    return bool(tail) and len(tail) <= len(parts) and parts[len(parts) - len(tail) :] == tail


def without_ending(path: str) -> list[str]:
    """Return the parts of a path, the last one up to its first dot."""
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
"""Each language, and its module."""

_OTHER = Language(name="", endings=(), read=lambda _: NotImplemented, leads_to=lambda *_: False)


def language_of_file(path: str) -> Language | None:
    """Return the language of a file by its name; None for an unsupported one."""
    ending = "." + path.rpartition("/")[2].rpartition(".")[2].lower()
    module = _OF_ENDING.get(ending)
    if module is None:
        return None
    return next(one for one in _languages(module) if ending in one.endings)


@cache
def language_called(name: str) -> Language:
    """Return a language by its name; a generic one for an unsupported language."""
    module = NAMES.get(name)
    if module is None:
        return _OTHER
    return next(one for one in _languages(module) if one.name == name)


def _languages(module: str) -> tuple[Language, ...]:
    found = import_module(f"satchel.code_graph.languages.{module}").LANGUAGES
    return tuple(found)
