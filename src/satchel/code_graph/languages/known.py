"""Which languages there are. A new one is a module beside this one, and its endings here.

A module is imported when a file of its language is met.
"""

from functools import cache
from importlib import import_module

from satchel.code_graph.languages.language import Language

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
