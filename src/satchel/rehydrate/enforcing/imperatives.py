"""Imperatives to a model: phrases that tell an assistant what to do instead of what is the case.

Advisory: words can be chosen otherwise. How much is caught, and how much of ordinary text is caught
wrongly, is measured (docs/guides/waking-up.md). Nothing rests on it but what is put aside for a
person to look at. The phrases stand in ``data/imperatives.txt``.
"""

import re
from functools import cache
from pathlib import Path

_FILE = Path(__file__).parent / "data" / "imperatives.txt"
_HEADING = re.compile(r"\[([a-z ]+)\]")
_DEFINED = re.compile(r"([a-z]+) = (.+)")
_USED = re.compile(r"<([a-z]+)>")

_TELLING = re.compile(
    r"ignor|disregard|forget|instruc|prompt|reveal|restrict|system|assistant|api.?key|password"
    r"|secret|send|call |delete|append|from now|you are"
)


def imperatives_in(seen: str) -> list[str]:
    """Return what a folded text tells a model to do; empty for nothing."""
    return [name for name, pattern in _patterns().items() if pattern.search(seen)]


def may_tell(seen: str) -> bool:
    """Tell whether a text that may be nothing but noise is worth a closer look."""
    return _TELLING.search(seen) is not None


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    """Return the patterns by what they say."""
    defined, found = dict[str, str](), dict[str, list[str]]()
    some = list[str]()
    for row in _FILE.read_text("utf-8").splitlines():
        if not row or row.startswith("#"):
            continue
        if heading := _HEADING.fullmatch(row):
            some = found.setdefault(heading[1], [])
        elif not found and (definition := _DEFINED.fullmatch(row)):
            defined[definition[1]] = _filled(definition[2], defined)
        else:
            some.append(_filled(row, defined))
    return {
        name: re.compile("|".join(f"(?:{one})" for one in those)) for name, those in found.items()
    }


def _filled(text: str, defined: dict[str, str]) -> str:
    return _USED.sub(lambda one: defined.get(one[1], one[0]), text)
