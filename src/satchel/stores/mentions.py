"""Telling whether texts mention a name, by the words that a search would compare.

No index is asked, so nothing that an index leaves out is missed: case, accents, width and
invisible characters make no difference, and scripts without spaces are looked into.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from satchel.errors import UsageError
from satchel.memory.parts import is_id
from satchel.stores._terms import index_text, needle


class Mentions:
    """The names of somebody or something.

    Args:
        names: Each as it may stand in a text: a name, a user id, a mail address.

    Raises:
        UsageError: If there is none, or one has no letters, digits or signs that a text is
            searched by.
    """

    def __init__(self, names: Sequence[str]) -> None:
        found = [needle(name) for name in names]
        wrong = [name for name, one in zip(names, found, strict=True) if one is None]
        if wrong or not found:
            what = f"nothing to search for in {wrong[0]!r}" if wrong else "no name to search for"
            raise UsageError(what, field="about", hint="Give a person, an ID or an address.")
        self._needles = [one for one in found if one is not None]

    def are_in(self, text: str) -> bool:
        """Tell whether a text mentions one of them, as words of its own."""
        terms = f" {index_text(text)} "
        return any(one in terms for one in self._needles)

    def places_in(self, value: Any) -> list[str]:
        """Return where a JSON value mentions one of them, in keys or values, as JSON pointers.

        Numbers are read as their digits: an id is often one. The ids of records name nobody.
        """
        return [path for path, text in _texts(value) if not is_id(text) and self.are_in(text)]


def _texts(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts in a JSON value, keys included, each with the pointer to it."""
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        path, part = waiting.pop()
        if isinstance(part, dict):
            yield from ((f"{path}/{_escaped(key)}", key) for key in part)
            inner = [(f"{path}/{_escaped(key)}", each) for key, each in part.items()]
            waiting += reversed(inner)
        elif isinstance(part, list):
            waiting += reversed([(f"{path}/{at}", each) for at, each in enumerate(part)])
        elif isinstance(part, str):
            yield path, part
        elif isinstance(part, int | float) and not isinstance(part, bool):
            yield path, str(part)


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
