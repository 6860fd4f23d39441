"""The traits that each promise needs, without which its test is skipped."""

import inspect
import re

from satchel.conformance.stores import (
    commits,
    durability,
    links,
    names,
    removal,
    rows,
    side_data,
    verification,
)
from satchel.conformance.stores import queries as stores_queries

_PARTS = (
    *(rows, names, commits, durability, removal, stores_queries, verification, links, side_data),
)
_ASKED = re.compile(r'\.(?:need|opener)\("([a-z_]+)"\)')


def needs() -> dict[str, frozenset[str]]:
    """Return the traits that each test needs, by the test's name."""
    return {
        name: frozenset(_ASKED.findall(inspect.getsource(inspect.unwrap(found))))
        for part in _PARTS
        for name, found in vars(part).items()
        if name in part.__all__
    }
