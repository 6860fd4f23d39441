"""Which memory a capability token speaks of.

A scope is a list of clauses, all of which have to hold. It is judged on the proved bytes of an
entry, never on a column or an index. Source: docs/spec/6-keys-and-tokens.md, 6.5.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Annotated

import msgspec
from msgspec import Meta

from satchel.errors import MalformedError
from satchel.memory.entries import Entry
from satchel.memory.parts import Component, Id
from satchel.seal.encoding.jcs import canonical
from satchel.seal.records import digest
from satchel.type_info import resolved

MOST_SHOWN_IDS = 64
"""Ids that stand in a token itself; of more there is only the hash, and the list goes beside."""

MOST_LISTED_IDS = 100_000
"""Ids of one list beside a token."""

_MOST_TAGS, _LONGEST_TAG = 64, 256

_Tags = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=_LONGEST_TAG)], ...],
    Meta(max_length=_MOST_TAGS),
]

Lists = Mapping[str, Sequence[str]]
"""Lists of ids that are shown beside tokens, by their hash."""

Covers = Callable[[Entry], bool]
"""Tells whether an entry, with its id, is in a scope."""


class _Clause(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """One condition; members at their default are not written."""


class Wildcard(_Clause, frozen=True, kw_only=True, tag="wildcard", forbid_unknown_fields=True):
    """All memory of the bank, and every other record of its log."""


class Entries(
    _Clause,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag="entries",
    forbid_unknown_fields=True,
):
    """The entries that are listed."""

    ids: Annotated[tuple[Id, ...], Meta(max_length=MOST_SHOWN_IDS)] = ()
    """Sorted, each once; empty where the list goes beside the token."""

    count: Annotated[int, Meta(gt=MOST_SHOWN_IDS, le=MOST_LISTED_IDS)] | None = None
    digest: Id | None = None
    """H(JCS(sorted ids)), where the list goes beside the token."""

    def __post_init__(self) -> None:
        if bool(self.ids) is (self.digest is not None) or (self.count is None) is not (
            self.digest is None
        ):
            raise ValueError("a list of entries must have either `ids`, or `count` and `digest`")
        _require_sorted(self.ids, "ids")


class Components(_Clause, frozen=True, kw_only=True, tag="components", forbid_unknown_fields=True):
    """The entries of some components."""

    components: Annotated[tuple[Component, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        _require_sorted(self.components, "components")


class Tags(
    _Clause, frozen=True, kw_only=True, omit_defaults=True, tag="tags", forbid_unknown_fields=True
):
    """The entries whose tags fit, by each of the three where it is given."""

    any_of: _Tags = ()
    all_of: _Tags = ()
    none_of: _Tags = ()

    def __post_init__(self) -> None:
        if not (self.any_of or self.all_of or self.none_of):
            raise ValueError("empty tags would allow everything: use wildcard")
        for name in ("any_of", "all_of", "none_of"):
            _require_sorted(getattr(self, name), name)

    def fit(self, tags: Collection[str]) -> bool:
        """Tell whether the tags of an entry fit."""
        there = frozenset(tags)
        return (
            (not self.any_of or not there.isdisjoint(self.any_of))
            and there.issuperset(self.all_of)
            and there.isdisjoint(self.none_of)
        )


Clause = Wildcard | Entries | Components | Tags
Scope = Annotated[tuple[Clause, ...], Meta(min_length=1, max_length=4)]
"""Clauses, all of which have to hold; at most one of each type."""

EVERYTHING: tuple[Clause, ...] = (Wildcard(),)
"""The scope without bounds."""


def require_scope(scope: Sequence[Clause]) -> None:
    """Refuse a scope that says something twice, or everything and something.

    Raises:
        ValueError: If it does.
    """
    kinds = [type(clause) for clause in scope]
    if len(set(kinds)) < len(kinds):
        raise ValueError("a scope can have at most one clause of each type")
    if Wildcard in kinds and len(kinds) > 1:
        raise ValueError("a wildcard cannot be combined with other clauses")


def is_wildcard(scope: Sequence[Clause]) -> bool:
    """Tell whether a scope has no bounds."""
    return any(isinstance(clause, Wildcard) for clause in scope)


def takes_new(scope: Sequence[Clause]) -> bool:
    """Tell whether an entry that does not exist yet can be in a scope."""
    return not any(isinstance(clause, Entries) for clause in scope)


def covering(scope: Sequence[Clause], lists: Lists) -> Covers:
    """Return what tells whether an entry is in a scope.

    Args:
        scope: The clauses.
        lists: What is shown beside the token; a list that is not shown allows nothing.
    """
    each = [_covering(clause, lists) for clause in scope]
    return lambda entry: all(covers(entry) for covers in each)


def _covering(clause: Clause, lists: Lists) -> Covers:
    if isinstance(clause, Entries):
        listed = lists.get(clause.digest, ()) if clause.digest is not None else clause.ids
        named = frozenset(listed)
        return lambda entry: entry.id in named
    if isinstance(clause, Components):
        types = frozenset(part.value for part in clause.components)
        return lambda entry: entry.__struct_config__.tag in types
    if isinstance(clause, Tags):
        return lambda entry: clause.fit(entry.tags)
    return lambda entry: True  # noqa: ARG005 - all of them


def entries_clause(ids: Collection[str]) -> tuple[Entries, dict[str, list[str]]]:
    """Return the clause for some entries, and the list that goes beside the token, if one does.

    Raises:
        MalformedError: If there are none, too many, or one is no id.
    """
    listed = sorted(set(ids))
    if not listed or len(listed) > MOST_LISTED_IDS:
        raise MalformedError(f"a token can list 1 to {MOST_LISTED_IDS:,} entries", field="entries")
    try:
        msgspec.convert(listed, resolved(list[Id]))
    except msgspec.ValidationError as error:
        raise MalformedError(f"not IDs of entries: {error}", field="entries") from None
    if len(listed) <= MOST_SHOWN_IDS:
        return Entries(ids=tuple(listed)), {}
    found = list_digest(listed)
    return Entries(count=len(listed), digest=found), {found: listed}


def list_digest(ids: Sequence[str]) -> str:
    """Return the hash that stands in a token for a list of sorted ids."""
    return digest(canonical(list(ids)))


def _require_sorted(values: Sequence[str], name: str) -> None:
    if any(one >= other for one, other in pairwise(values)):
        raise ValueError(f"`{name}` must be sorted, each once")
