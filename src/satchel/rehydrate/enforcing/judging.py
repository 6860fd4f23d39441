"""What may be shown, by what it says and by whom it is vouched for."""

from dataclasses import dataclass

from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.parts import Component, TrustClass
from satchel.rehydrate.enforcing.hidden import hidden_in, turned
from satchel.rehydrate.enforcing.imperatives import imperatives_in, may_tell
from satchel.rehydrate.enforcing.shapes import shapes_in
from satchel.rehydrate.framing.folding import letters_for_digits, looked_through
from satchel.rehydrate.policy import Enforce

PROMOTED_ONLY = frozenset({Component.IDENTITY.value, Component.PROCEDURAL.value})
"""Components that tell an agent who it is and what to do."""

FROM_OUTSIDE = frozenset({TrustClass.EXTERNAL, TrustClass.IMPORTED})

_START, _END = 12_000, 4_000
"""Characters of a text that are looked through for imperatives: its start and its end."""

_JUDGED = frozenset({"quarantined", "released"})


@dataclass(frozen=True, slots=True)
class Judgement:
    """Why a memory is held back; empty for one that is shown."""

    reasons: tuple[str, ...] = ()
    needs_promotion: bool = False

    def __bool__(self) -> bool:
        return bool(self.reasons) or self.needs_promotion


SHOWN = Judgement()


def reasons_against(text: str, component: str, trust: TrustClass, enforce: Enforce) -> list[str]:
    """Return why a text is not what its block is for; empty where it is.

    Args:
        text: All that a memory says.
        component: The type of its block.
        trust: How far it is trusted.
        enforce: ``shapes``: what no memory looks like, from anybody; ``outside``: and imperatives
            from outside; ``all``: and imperatives from anybody; ``nothing``.
    """
    if enforce == "nothing":
        return []
    found = [f"shape: {one}" for one in shapes_in(text)]
    is_asked = enforce == "all" or (enforce == "outside" and trust in FROM_OUTSIDE)
    if is_asked and (component not in PROMOTED_ONLY or trust in FROM_OUTSIDE):
        found += [f"imperative: {one}" for one in told_by(text)]
    return found


def told_by(text: str) -> list[str]:
    """Return what a text tells a model to do: plainly, in disguise, or encoded."""
    some = text if len(text) <= _START + _END else f"{text[:_START]}\n{text[-_END:]}"
    seen = looked_through(some)
    found = imperatives_in(seen)
    if found:
        return found
    letters = letters_for_digits(seen)
    otherwise = [letters, *turned(seen), *(looked_through(one) for one in hidden_in(some))]
    for one in otherwise:
        if one != seen and may_tell(one):
            found = imperatives_in(one)
            if found:
                return [f"{name} (hidden)" for name in found]
    return []


def judged(view: View, logged: Logged, text: str, trust: TrustClass, enforce: Enforce) -> Judgement:
    """Return whether a memory may be shown.

    What somebody released is not held back again; who vouches for it is another question.
    """
    component = logged.record.type
    if component in PROMOTED_ONLY and trust in FROM_OUTSIDE:
        return Judgement(needs_promotion=True)
    reasons = reasons_against(text, component, trust, enforce)
    if reasons and not is_released(view, logged):
        return Judgement(tuple(reasons))
    return SHOWN


def is_released(view: View, logged: Logged) -> bool:
    """Tell whether the last that was said of a memory's quarantine is that it is released."""
    states = [one.state for one in view.said(logged) if one.state in _JUDGED]
    return bool(states) and states[-1] == "released"
