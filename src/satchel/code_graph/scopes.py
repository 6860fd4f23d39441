"""Where in a program a name stands, and which files see each other's."""

from satchel.code_graph.facts import MODULE, TYPES, Facts, Node
from satchel.code_graph.trees import language_of

DEEPEST = 64
"""Symbols inside one another that are looked through."""


def dots_before(module: str) -> int:
    """Return with how many dots the name of a module begins."""
    return len(module) - len(module.lstrip("."))


def are_kin(one: Facts, other: Facts) -> bool:
    """Tell whether two files are in languages that share their names."""
    if one.language == other.language:
        return True
    first, second = language_of(one), language_of(other)
    return bool(first.family) and first.family == second.family


def sees_types_inside(facts: Facts) -> bool:
    """Tell whether methods see by name what else is in their type."""
    return language_of(facts).methods_bare


def around(facts: Facts, number: int) -> list[int]:
    """Return the symbols around a place, the innermost first, the file itself last."""
    found = list[int]()
    while number != MODULE and len(found) < DEEPEST:
        found.append(number)
        number = facts.symbols[number].owner
    return [*found, MODULE]


def type_around(facts: Facts, number: int) -> int:
    """Return the innermost type around a place, or ``MODULE``."""
    kinds = (each for each in around(facts, number) if each != MODULE)
    return next((each for each in kinds if facts.symbols[each].kind in TYPES), MODULE)


def folder_of(path: str) -> str:
    """Return the folder that a file is in."""
    return path.rpartition("/")[0]


def may_share(type_: Node, path: str) -> bool:
    """Tell whether a file may say more of a type in another one."""
    language = language_of(type_.facts)
    return language.name == "rust" or (
        language.by_folder and folder_of(type_.path) == folder_of(path)
    )
