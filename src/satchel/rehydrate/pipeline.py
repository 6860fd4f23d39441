"""The pipeline: verify, filter, rank, compress, format, frame, inject."""

from collections import Counter

from satchel.errors import UsageError
from satchel.ledger.view import View
from satchel.memory.records import Source
from satchel.rehydrate.asked import Around, Asked
from satchel.rehydrate.compressing import Chosen, Compressed, Tools, compressed
from satchel.rehydrate.filtering import filtered
from satchel.rehydrate.framing.frames import EncodedFrame, Frame, PaperFrame
from satchel.rehydrate.injecting import injected
from satchel.rehydrate.models import profile_of, tokenizer_of
from satchel.rehydrate.ranking import Ranked, Ranking, ranked
from satchel.rehydrate.rehydrated import LeftOut, Parts, Rehydrated, Shown, Stage
from satchel.rehydrate.summaries import Extractive
from satchel.rehydrate.telling import left_out_words, notice
from satchel.rehydrate.verifying import verified

_FEW = LeftOut(irrelevant=999, over_budget=999)
"""For the longest line about what was left out, whose room is kept."""


def rehydrate(view: View, asked: Asked | None = None, around: Around | None = None) -> Rehydrated:
    """Return a bank's memory as text and messages for a model, within a budget.

    Args:
        view: The bank; the part of it that a token covers, where one was presented.
        asked: What is wanted.
        around: What to work with.

    Raises:
        UsageError: If the budget does not even hold the frame.
        VerificationError: If a record is not what was logged.
        InferenceError: If a summariser that was given does not answer.
    """
    return _Pipeline(view, asked or Asked(), around or Around()).result()


class _Pipeline:
    """One text in the making."""

    def __init__(self, view: View, asked: Asked, around: Around) -> None:
        self._view = view
        self._asked = asked
        self._around = around
        self._profile = profile_of(asked.model)
        self._budget = asked.budget or self._profile.budget
        is_encoded = asked.framing == "encoded"
        frame: Frame = EncodedFrame(self._profile, around.nonce()) if is_encoded else PaperFrame()
        self._tools = Tools(
            frame=frame,
            tokenizer=around.tokenizer or tokenizer_of(asked.model),
            summariser=around.summariser or Extractive(),
        )

    def result(self) -> Rehydrated:
        room = self._room()
        stages = [verified(self._view, self._around)]
        stages.append(filtered(self._view, self._asked, self._around, stages[0]))
        ranking = ranked(self._view, self._asked, self._around, self._budget)
        found = compressed(self._view, ranking, self._asked, self._tools, self._budget, room)
        text = self._framed(found, ranking)
        shown = [self._shown(one) for one in _in_order(found.chosen)]
        left_out = _left_out(found, ranking)
        tokens = self._count(text) if text else 0
        stages += self._told(ranking, found, tokens)
        return Rehydrated(
            text=text,
            messages=injected(text, self._asked.task, self._asked.system),
            stages=stages,
            entries=shown,
            left_out=left_out,
            quarantined=found.held_back,
            unpromoted=found.unpromoted,
            tokens=tokens,
            budget=self._budget,
            tokenizer=self._tools.tokenizer.name,
            exact=self._tools.tokenizer.exact,
            model=self._asked.model or self._profile.name,
            style=self._asked.style,
            framing=self._asked.framing,
            nonce=self._tools.frame.nonce,
            notice=notice(shown, left_out, self._around.origin),
            complete=ranking.complete,
            looked_at=ranking.looked_at,
        )

    def _count(self, text: str) -> int:
        return self._tools.tokenizer.count(text)

    def _room(self) -> int:
        """Return the tokens that the frame leaves.

        Raises:
            UsageError: If it leaves none.
        """
        empty = self._count(self._tools.frame.whole([], left_out_words(_FEW)))
        if empty >= self._budget:
            raise UsageError(
                f"the frame alone takes {empty} of the {self._budget}",
                field="budget",
                hint="Use a budget of at least a few hundred tokens.",
            )
        return self._budget - empty

    def _framed(self, found: Compressed, ranking: Ranking) -> str:
        """Return the whole text; whatever the count of its parts said, it fits."""
        while found.chosen:
            words = left_out_words(_left_out(found, ranking))
            text = self._tools.frame.whole([one.record for one in found.chosen], words)
            over = self._count(text) - self._budget
            if over <= 0:
                return text
            while over > 0 and found.chosen:
                over -= found.chosen.pop().tokens
                found.over_budget += 1
        return ""

    def _shown(self, one: Chosen) -> Shown:
        logged = one.ranked.logged
        source = self._view.source_of(logged)
        model = source.model if source is not None else None
        return Shown(
            id=logged.record.id,
            type=logged.record.type,
            form=one.record.form,
            trust=one.ranked.trust.value,
            score=one.ranked.score,
            tokens=one.tokens,
            moment=logged.row.moment,
            source=model.provider if isinstance(model, Source) else "",
            signer=(model.signer or "") if isinstance(model, Source) else "",
            parts=_parts(one.ranked),
        )

    def _told(self, ranking: Ranking, found: Compressed, tokens: int) -> list[Stage]:
        forms = Counter(one.record.form for one in found.chosen)
        tokenizer, count = self._tools.tokenizer, len(found.chosen)
        counted = tokenizer.name if tokenizer.exact else "an overestimate"
        held = len(found.held_back) + len(found.unpromoted)
        summariser = f" by {self._tools.summariser.model}" if forms["summary"] else ""
        details = {
            "rank": f"{ranking.looked_at:,} considered; compared by {ranking.compared}",
            "compress": f"{forms['verbatim']:,} word for word, {forms['summary']:,} shortened"
            f"{summariser}; {found.irrelevant:,} not relevant,"
            f" {found.over_budget:,} over the token budget",
            "format": f"{self._asked.style}, for {self._profile.name}",
            "frame": (
                f"{self._asked.framing}; {held:,} quarantined; {tokens:,} of {self._budget:,} "
                f"tokens, counted by {counted}"
            ),
            "inject": "after the system prompt, before what the user says",
        }
        entries = {"rank": len(ranking.memories)}
        return [
            Stage(name=name, detail=detail, entries=entries.get(name, count))
            for name, detail in details.items()
        ]


def _in_order(chosen: list[Chosen]) -> list[Chosen]:
    return sorted(chosen, key=lambda one: (-one.ranked.score, one.record.place))


def _left_out(found: Compressed, ranking: Ranking) -> LeftOut:
    return LeftOut(
        irrelevant=found.irrelevant,
        over_budget=found.over_budget,
        quarantined=len(found.held_back),
        unpromoted=len(found.unpromoted),
        expired=ranking.expired,
    )


def _parts(one: Ranked) -> Parts:
    parts = one.parts
    return Parts(
        recency=round(parts.recency, 4),
        salience=round(parts.salience, 4),
        similarity=None if parts.similarity is None else round(parts.similarity, 4),
        depth=round(parts.depth, 4),
        penalty=round(parts.penalty, 4),
    )
