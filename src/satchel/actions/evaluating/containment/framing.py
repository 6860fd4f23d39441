"""Putting texts in front of the judge: as memory from outside, framed as a model gets it."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from satchel.actions.evaluating.containment.judge import Escape, frame_of, judge
from satchel.actions.evaluating.continuity.carrying import Owner, Told
from satchel.actions.evaluating.probes.sets import Remembered
from satchel.memory.entries import Semantic
from satchel.memory.parts import Origin, TrustClass
from satchel.rehydrate.policy import Enforce
from satchel.rehydrate.rehydrated import Rehydrated

TOGETHER = 500
"""Texts in one framed text."""

_AT = "2026-06-01T09:00:00.000000Z"
_HARMLESS = "teaspoon"
_ESCAPED = re.compile(r"\\[!-~]")
"""What is written in a text as an escape would be."""


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What became of some texts."""

    texts: int
    held_back: int
    """Put into quarantine by default."""

    framed: int
    """Shown to the model as data by default."""

    unshown: int
    """Not in the text even with quarantine switched off; then nothing was judged of them."""

    escapes: list[Escape]
    """Of all of them, quarantine switched off."""


def judged(texts: Sequence[str], *, trust: TrustClass = TrustClass.EXTERNAL) -> Judged:
    """Return what becomes of texts that somebody got into a memory.

    Args:
        texts: None of them empty.
        trust: What the memories claim.
    """
    held, framed, unshown, escapes = 0, 0, 0, list[Escape]()
    for start in range(0, len(texts), TOGETHER):
        some = texts[start : start + TOGETHER]
        by_default = framed_texts(some, trust=trust)
        held += len(by_default.quarantined)
        framed += len(by_default.entries)
        bare = framed_texts(some, trust=trust, enforce="nothing")
        unshown += len(some) - len(bare.entries)
        frame = frame_of(framed_texts(_tame(some), trust=trust, enforce="nothing").text, _HARMLESS)
        escapes += judge(bare.text, frame, len(bare.entries))
    return Judged(texts=len(texts), held_back=held, framed=framed, unshown=unshown, escapes=escapes)


def _tame(texts: Sequence[str]) -> list[str]:
    """Return as many harmless texts, with the signs that are in the others.

    What the frame says of the signs in its records is the same for both then.
    """
    signs = {one for text in texts for one in text if one.isascii() and not one.isalnum()}
    signs |= {pair for text in texts for pair in _ESCAPED.findall(text)}
    tame = _HARMLESS + " ".join(sorted(signs))
    return [tame for _ in texts]


def framed_texts(
    texts: Iterable[str], *, trust: TrustClass | None = None, enforce: Enforce = "outside"
) -> Rehydrated:
    """Return texts as memories of one bank, framed all together.

    Args:
        texts: The texts.
        trust: What the memories claim; as if the user had said them when None.
        enforce: What is held back; see ``Asked``.
    """
    origin = None if trust is None else Origin(provider="web", trust=trust)
    with TemporaryDirectory(prefix="satchel-evaluate-") as folder:
        owner = Owner(Path(folder))
        told = [
            Told(_AT, "texts", Remembered(key=str(at), entry=Semantic(text=text, origin=origin)))
            for at, text in enumerate(texts)
        ]
        owner.remember("outside", told)
        with owner.framing("outside") as framing:
            return framing.everything("gpt-4o", enforce=enforce)
