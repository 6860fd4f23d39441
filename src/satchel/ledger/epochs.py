"""Judging a store's newest head by what was seen before: does the log go on, and whose is it?

What was seen has to be a prefix of the log, or an owner's decision in the log has to say that it
was given up. An adopted copy is a bank of its own: whoever knew it before the adoption refuses it.
Source: docs/spec/5-log.md, 5.7.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from satchel.errors import AdoptedError, ForkedError, RolledBackError
from satchel.ledger.authority import ADOPTED, RESTORED, Authority, Decided, Point
from satchel.ledger.witness_files.removed import GivenUp
from satchel.seal.keys.ended import Ended
from satchel.seal.log import Head
from satchel.seal.proved_tree import ProvedTree
from satchel.seal.records import PREFIX


class BankStanding(StrEnum):
    """What a bank is to this machine."""

    OWN = "own"
    """It trusts the bank's owners, or has added to the bank before."""

    UNTRUSTED = "untrusted"
    """All is verified, but by keys that this machine does not trust."""


class Seen(NamedTuple):
    """A head that was believed before."""

    head: Head
    who: str
    """Who saw it, for a sentence."""

    own: bool = True
    """Whether the bank was this machine's own then."""

    witnessed: bool = False
    """Whether the witness has it, with the places of what was removed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a machine makes of a store's newest head."""

    standing: BankStanding = BankStanding.OWN
    notes: tuple[str, ...] = ()
    """What its reader should know: that something which was seen here was given up."""

    given_up: GivenUp | None = None
    """What the witness knows that is true no more."""


OWN = Verdict()
"""Nothing was seen before that the log lacks."""


def judge(
    head: Head,
    authority: Authority,
    tree: ProvedTree,
    seen: Sequence[Seen],
    trusted: frozenset[str] | None,
) -> Verdict:
    """Judge a head that is sound in itself.

    Args:
        head: The store's newest.
        authority: Who may sign, and which decisions are in the log.
        tree: The tree under it.
        seen: Heads that were believed before.
        trusted: The keys that this machine trusts as owners of this very bank; None for not
            judging who founded it.

    Raises:
        AdoptedError: If somebody adopted the bank whom this machine does not know.
        RolledBackError: If the store is behind what was seen, and no owner accepted it.
        ForkedError: If the store went another way, and no owner accepted it.
    """
    standing = _standing(authority, tree, [saw.head for saw in seen if saw.own], trusted)
    notes, given_up = [_forked(one) for one in authority.forked], None
    for saw in seen:
        decided = require_continues(saw, authority, head, tree)
        if decided is not None:
            notes.append(_note(saw, decided))
            if saw.witnessed:
                given_up = GivenUp(saw.head.epoch, decided.decision.resumed.size)
    return Verdict(standing, tuple(notes), given_up)


def require_continues(
    saw: Seen, authority: Authority, head: Head, tree: ProvedTree
) -> Decided | None:
    """Require that a log goes on from a head that was seen, or says why it does not.

    Returns:
        None when nothing is lost; or else the decision by which what was seen was given up.

    Raises:
        RolledBackError: If the store is behind it.
        ForkedError: If the store went another way.
    """
    seen = saw.head
    if seen.root == head.root or contains(tree, seen):
        return None
    decided = _giving_up(authority.decided, seen)
    if decided is not None:
        return decided
    if (head.epoch, head.size) < (seen.epoch, seen.size):
        raise RolledBackError(
            f"the store has {head.size} records, {saw.who} saw {seen.size}",
            hint="It was reset to an older state, or is an old copy. Restore the newer one; if that"
            " is lost, an owner can accept the loss: satchel bank accept-loss.",
        )
    raise ForkedError(
        f"the first {seen.size} records of the store differ from those that {saw.who} saw",
        hint="Its history was replaced. Restore a copy that matches; to continue with this one, an"
        " owner can accept it: satchel bank accept-loss.",
    )


def contains(tree: ProvedTree, seen: Head) -> bool:
    """Tell whether a log begins with a head that was seen."""
    return seen.size <= tree.size and PREFIX + tree.root_at(seen.size).hex() == seen.root


def _giving_up(decided: Sequence[Decided], seen: Head) -> Decided | None:
    """Return the decision that names a head, or that ended its epoch before it.

    One that names another head of the same size was made by somebody who saw another history, so
    it says nothing of this one.
    """
    for one in decided:
        if one.decision.abandoned == Point.of(seen):
            return one
    ending = next((one for one in decided if one.decision.epoch > seen.epoch), None)
    if ending is None or seen.size <= ending.decision.resumed.size:
        return None
    named = ending.decision.abandoned
    if named is None:
        return ending if ending.action == RESTORED else None
    return None if (named.epoch, named.size) == (seen.epoch, seen.size) else ending


def _standing(
    authority: Authority, tree: ProvedTree, own: Sequence[Head], trusted: frozenset[str] | None
) -> BankStanding:
    known = trusted or frozenset()
    adoption = authority.adoption
    # All of them: each may decide anything, and nobody asked those whom a bank record names.
    if authority.owned_by(known):
        return BankStanding.OWN
    if adoption is None:
        return BankStanding.OWN if own or trusted is None else BankStanding.UNTRUSTED
    if any(head.size > adoption.resumed.size and contains(tree, head) for head in own):
        return BankStanding.OWN  # adopted on this machine
    if own or known & authority.former:
        raise AdoptedError(
            f"the bank was adopted by {adoption.key}, without any of its owners",
            hint="Anybody can adopt a copy. Restore your own; or, if you know the owner of this"
            " key, trust it for this bank: satchel key trust KEY --bank ID.",
        )
    return BankStanding.UNTRUSTED


def _forked(one: Ended) -> str:
    return (
        f"record {one.place} is a second succession of {one.key}, to {one.heir}, and is ignored."
        " Its author has the old key: satchel key revoke"
    )


def _note(saw: Seen, decided: Decided) -> str:
    decision = decided.decision
    named = decision.abandoned
    by = "the adopter of the bank" if decided.action == ADOPTED else "an owner"
    text = (
        f"{saw.who} saw {saw.head.size} records of this bank; {by} decided at {decided.at} to "
        f"resume from the first {decision.resumed.size}"
    )
    if named != Point.of(saw.head):
        text += f", aware of {named.size if named is not None else decision.resumed.size}"
    return f"{text}: {decision.reason}" if decision.reason else text
