"""Putting texts in front of the judge: as memory from outside, framed as a model gets it."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from satchel.actions.evaluating.containment.judge import Escape, frame_of, judge
from satchel.actions.evaluating.continuity.carrying import Owner, Told
from satchel.actions.evaluating.probes.sets import Remembered
from satchel.memory.entries import Semantic
from satchel.memory.parts import Origin, TrustClass
from satchel.rehydrate.asked import Enforce
from satchel.rehydrate.rehydrated import Rehydrated

TOGETHER = 500
"""Texts in one framed text."""

_AT = "2026-06-01T09:00:00.000000Z"
_HARMLESS = "teaspoon"


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What became of some texts."""

    texts: int
    held_back: int
    """Put into quarantine by default."""

    framed: int
    """Shown to the model as data by default."""

    escapes: list[Escape]
    """Of all of them, quarantine switched off."""


def judged(texts: Sequence[str], *, trust: TrustClass = TrustClass.EXTERNAL) -> Judged:
    """Return what becomes of texts that somebody got into a memory.

    Args:
        texts: None of them empty.
        trust: What the memories claim.
    """
    held, framed, escapes = 0, 0, list[Escape]()
    for start in range(0, len(texts), TOGETHER):
        some = texts[start : start + TOGETHER]
        by_default = framed_texts(some, trust=trust)
        held += len(by_default.quarantined)
        framed += len(by_default.entries)
        bare = framed_texts(some, trust=trust, enforce="nothing")
        tame = framed_texts([_HARMLESS for _ in bare.entries], trust=trust, enforce="nothing")
        frame = frame_of(tame.text, _HARMLESS)
        escapes += judge(bare.text, frame, len(bare.entries))
    return Judged(texts=len(texts), held_back=held, framed=framed, escapes=escapes)


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
