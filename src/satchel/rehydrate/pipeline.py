"""The pipeline: verify, filter, rank, compress, format, frame, inject."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from satchel.errors import UsageError
from satchel.ledger.view import View
from satchel.model.records import Source
from satchel.rehydrate.compression import (
    CompressionResult,
    Extractive,
    SelectedMemory,
    TextTools,
    compress_memories,
)
from satchel.rehydrate.frames import EncodedFrame, Frame, PaperFrame
from satchel.rehydrate.models import profile_of, tokenizer_of
from satchel.rehydrate.ranking import RankedMemory, RelevanceRanking, filtered, ranked
from satchel.rehydrate.request import (
    ContextMemory,
    OmittedCounts,
    PipelineStage,
    RehydrateContext,
    RehydrateRequest,
    RehydrateResult,
    RelevanceParts,
)


def verified(view: View, around: RehydrateContext) -> PipelineStage:
    """Return what was verified.

    Raises:
        VerificationError: By the view, when a record that is looked at is not what was logged.
    """
    head = view.head
    bank = (
        f"the head of {head.size:,} records is signed and matches the witness; each record is "
        "verified"
    )
    entries = (
        sum(count for kind, count in head.counts.items() if kind in _COMPONENTS)
        if view.is_whole
        else 0
    )
    return PipelineStage(name="verify", detail=around.verified or bank, entries=entries)


_COMPONENTS = frozenset({"episodic", "identity", "procedural", "semantic", "working"})


def injected(text: str, task: str, system: str | None) -> dict[str, Any]:
    """Return messages in the shapes that three SDKs take, and as plain text.

    Args:
        text: The framed memory; empty for none.
        task: What the user says; left out when empty.
        system: The system prompt; left out when None.

    Returns:
        ``openai``: a list for ``messages``; ``anthropic``: members ``system`` and ``messages``;
        ``gemini``: members ``system_instruction`` and ``contents``; ``plain``: one text.
    """
    said = [one for one in (text, task) if one]
    return {
        "openai": [
            *([{"role": "system", "content": system}] if system else []),
            *({"role": "user", "content": one} for one in said),
        ],
        "anthropic": {
            **({"system": system} if system else {}),
            "messages": _turn("content", [{"type": "text", "text": one} for one in said]),
        },
        "gemini": {
            **({"system_instruction": {"parts": [{"text": system}]}} if system else {}),
            "contents": _turn("parts", [{"text": one} for one in said]),
        },
        "plain": "\n\n".join([*([system] if system else []), *said]),
    }


def _turn(member: str, parts: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Return one turn of the user's, which both providers want whole."""
    return [{"role": "user", member: parts}] if parts else []


_SHOWN_DIGITS = 8
_KEY = 20


def left_out_words(left_out: OmittedCounts) -> str:
    """Return a few words for the model about what it is not shown; empty for nothing."""
    told = [
        f"{count} {why}"
        for count, why in (
            (left_out.irrelevant, "less relevant"),
            (left_out.over_budget, "over the token budget"),
        )
        if count
    ]
    return f"Omitted: {', '.join(told)}." if told else ""


def notice(shown: Sequence[ContextMemory], left_out: OmittedCounts, origin: str) -> str:
    """Return what the user is told: how many memories, from where, signed by whom, what to do."""
    if not shown:
        where = f" of {origin}" if origin else ""
        return f"No memory{where} was provided to the model.{_held(left_out)}"
    whence = Counter((one.source, one.signer, one.trust) for one in shown)
    listed = "; ".join(
        f"{count:,} {_whence(*key, origin)}" for key, count in sorted(whence.items())
    )
    first = shown[0].id.removeprefix("blake3:")[:_SHOWN_DIGITS]
    many = "memory was" if len(shown) == 1 else "memories were"
    if origin:
        what = " To review, correct or reject one, import the file: satchel import FILE."
    else:
        what = (
            f" Review one: satchel show {first}. Correct it: satchel correct ID. Reject it:"
            " satchel quarantine reject ID."
        )
    put = f"{len(shown):,} {many} provided to the model: {listed}."
    return f"{put}{what}{_held(left_out)}"


def _whence(source: str, signer: str, trust: str, origin: str) -> str:
    if not source and not signer:
        return f"from {origin}" if origin else "written here"
    signed = f"signed by {signer[:_KEY]}…" if signer else "unsigned"
    return f"from {source or origin or 'an import'}, {signed}, trusted as {trust}"


def _held(left_out: OmittedCounts) -> str:
    told = ""
    if left_out.quarantined:
        told += (
            f" {left_out.quarantined:,} withheld, as possible prompt injections. Review one with "
            "satchel show ID; release it with satchel quarantine release ID."
        )
    if left_out.unpromoted:
        told += (
            f" {left_out.unpromoted:,} imported memories withheld, since they would set the "
            "agent's identity or instructions. Allow one: satchel promote ID."
        )
    return told


_FEW = OmittedCounts(irrelevant=999, over_budget=999)
"""For the longest line about what was left out, whose room is kept."""


def rehydrate(
    view: View, asked: RehydrateRequest | None = None, around: RehydrateContext | None = None
) -> RehydrateResult:
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
    return _Pipeline(view, asked or RehydrateRequest(), around or RehydrateContext()).result()


class _Pipeline:
    """One text in the making."""

    def __init__(self, view: View, asked: RehydrateRequest, around: RehydrateContext) -> None:
        self._view = view
        self._asked = asked
        self._around = around
        self._profile = profile_of(asked.model)
        self._budget = asked.budget or self._profile.budget
        is_encoded = asked.framing == "encoded"
        frame: Frame = EncodedFrame(self._profile, around.nonce()) if is_encoded else PaperFrame()
        self._tools = TextTools(
            frame=frame,
            tokenizer=around.tokenizer or tokenizer_of(asked.model),
            summariser=around.summariser or Extractive(),
        )

    def result(self) -> RehydrateResult:
        room = self._room()
        stages = [verified(self._view, self._around)]
        stages.append(filtered(self._view, self._asked, self._around, stages[0]))
        ranking = ranked(self._view, self._asked, self._around, self._budget)
        found = compress_memories(self._view, ranking, self._asked, self._tools, self._budget, room)
        text = self._framed(found, ranking)
        shown = [self._shown(one) for one in _in_order(found.chosen)]
        left_out = _left_out(found, ranking)
        tokens = self._count(text) if text else 0
        stages += self._told(ranking, found, tokens)
        return RehydrateResult(
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

    def _framed(self, found: CompressionResult, ranking: RelevanceRanking) -> str:
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

    def _shown(self, one: SelectedMemory) -> ContextMemory:
        logged = one.ranked.logged
        source = self._view.source_of(logged)
        model = source.model if source is not None else None
        return ContextMemory(
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

    def _told(
        self, ranking: RelevanceRanking, found: CompressionResult, tokens: int
    ) -> list[PipelineStage]:
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
            PipelineStage(name=name, detail=detail, entries=entries.get(name, count))
            for name, detail in details.items()
        ]


def _in_order(chosen: list[SelectedMemory]) -> list[SelectedMemory]:
    return sorted(chosen, key=lambda one: (-one.ranked.score, one.record.place))


def _left_out(found: CompressionResult, ranking: RelevanceRanking) -> OmittedCounts:
    return OmittedCounts(
        irrelevant=found.irrelevant,
        over_budget=found.over_budget,
        quarantined=len(found.held_back),
        unpromoted=len(found.unpromoted),
        expired=ranking.expired,
    )


def _parts(one: RankedMemory) -> RelevanceParts:
    parts = one.parts
    return RelevanceParts(
        recency=round(parts.recency, 4),
        salience=round(parts.salience, 4),
        similarity=None if parts.similarity is None else round(parts.similarity, 4),
        depth=round(parts.depth, 4),
        penalty=round(parts.penalty, 4),
    )
