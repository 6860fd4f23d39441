"""The pipeline: verify, filter, rank, compress, format, frame, inject."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from satchel.errors import UsageError
from satchel.ledger.view import View
from satchel.model.records import Source
from satchel.model.values import TrustClass
from satchel.ports.inference import Summarizer, Tokenizer
from satchel.rehydrate.frames import (
    EncodedFrame,
    Frame,
    FrameRecord,
    LinePiece,
    MemoryLine,
    PaperFrame,
    formatted,
    memory_text,
    profile_of,
    tokenizer_of,
)
from satchel.rehydrate.relevance import RankedMemory, RelevanceRanking, filtered, ranked
from satchel.rehydrate.request import (
    ContextMemory,
    Form,
    OmittedCounts,
    PipelineStage,
    RehydrateContext,
    RehydrateRequest,
    RehydrateResult,
    RelevanceParts,
    WithheldMemory,
)
from satchel.screening.injection import InjectionVerdict, judge_memory
from satchel.stores.text_search import terms_of, tokens_of

SHORT = 128
"""Maximum tokens of a line that is not shortened."""

SUMMARY_WORDS = 48
"""Approximate number of words of a shortened memory."""

CHARACTERS_A_TOKEN = 8
"""Maximum characters of a verbatim text for each token of the budget."""

_ENOUGH = 4
"""Maximum tokens of lines to select from, as a multiple of the budget."""

_SHARE = 4
"""Divisor of the room: larger lines are shortened first if not all fit."""

_LEAST = 4
"""Tokens below which nothing fits."""

_LONGEST = 1 << 16
_LONG_PART = 40
_OWN = frozenset({TrustClass.USER, TrustClass.AGENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedMemory:
    """A memory that is selected for the text."""

    ranked: RankedMemory
    record: FrameRecord
    tokens: int


@dataclass(slots=True, kw_only=True)
class CompressionResult:
    """The selected memories, and the others."""

    chosen: list[SelectedMemory] = field(default_factory=list)
    """The most relevant first."""

    irrelevant: int = 0
    over_budget: int = 0
    held_back: list[WithheldMemory] = field(default_factory=list)
    unpromoted: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _WrittenMemory:
    """A memory with its verbatim line."""

    ranked: RankedMemory
    line: MemoryLine
    record: FrameRecord | None
    """None if it is too long."""

    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTools:
    """Components that write and count text."""

    frame: Frame
    tokenizer: Tokenizer
    summarizer: Summarizer


def compress_memories(
    view: View,
    ranking: RelevanceRanking,
    request: RehydrateRequest,
    tools: TextTools,
    budget: int,
    room: int,
) -> CompressionResult:
    """Stage 4, compress: select the memories that fit, verbatim if possible.

    In order of relevance, each memory is written and its tokens are counted. If not all fit,
    memories below the upper threshold are shortened if that saves tokens. The room that is left
    then is used for verbatim versions of the best of these. A memory that does not fit is skipped
    and counted.

    Args:
        view: A view of the bank.
        ranking: The memories, best first.
        request: The request.
        tools: Components that write and count text.
        budget: Tokens of the whole text.
        room: Tokens that the frame leaves.
    """
    return _Compression(view, request, tools, budget, room).result(ranking.memories)


class _Compression:
    """The selection for a request."""

    def __init__(
        self, view: View, request: RehydrateRequest, tools: TextTools, budget: int, room: int
    ) -> None:
        self._view = view
        self._request = request
        self._tools = tools
        self._budget = budget
        self._room = room
        self._large = max(SHORT, room // _SHARE)
        self._result = CompressionResult()
        self._headings = set[tuple[str, str]]()
        self._days = set[tuple[str, str, str]]()

    def result(self, memories: Sequence[RankedMemory]) -> CompressionResult:
        relevant = [memory for memory in memories if memory.score >= self._request.summarized]
        self._result.irrelevant = len(memories) - len(relevant)
        written, tokens = list[_WrittenMemory](), 0
        for number, memory in enumerate(self._write_lines(relevant)):
            if memory is not None:
                written.append(memory)
                tokens += memory.tokens
            if tokens > _ENOUGH * self._budget:
                self._result.over_budget += len(relevant) - number - 1
                break
        shortened = self._shortened(written) if tokens > self._room else {}
        for number, memory in enumerate(written):
            if self._room < _LEAST or not self._take(memory, shortened.get(number)):
                self._result.over_budget += 1
        if shortened and not self._result.over_budget:
            self._lengthen({memory.ranked.logged.seq: memory for memory in written})
        return self._result

    def _lengthen(self, written: Mapping[int, _WrittenMemory]) -> None:
        """Replace shortened memories by verbatim ones, best first, while they fit."""
        for index, selected in enumerate(self._result.chosen):
            whole = written[selected.ranked.logged.seq]
            more = whole.tokens - selected.tokens
            if whole.record is None or selected.record is whole.record or more > self._room:
                continue
            self._room -= more
            replacement = SelectedMemory(
                ranked=selected.ranked, record=whole.record, tokens=whole.tokens
            )
            self._result.chosen[index] = replacement

    def _write_lines(self, relevant: Sequence[RankedMemory]) -> Iterator[_WrittenMemory | None]:
        """Yield memories with their lines; None for those that are withheld or empty."""
        for memory in relevant:
            line = formatted(memory, self._request.style)
            content = memory_text(line)
            most = CHARACTERS_A_TOKEN * self._budget
            judgment = judge_memory(
                self._view,
                memory.logged,
                content[: max(_LONGEST, most)],
                memory.trust,
                self._request.enforce,
            )
            if judgment:
                self._hold_back(memory, judgment)
                yield None
            elif not content.strip():
                yield None
            elif len(content) > most:
                yield _WrittenMemory(memory, line, None, self._budget)
            else:
                record = self._record(memory, line, "verbatim")
                yield _WrittenMemory(memory, line, record, self._count(record))

    def _hold_back(self, ranked: RankedMemory, judgment: InjectionVerdict) -> None:
        record = ranked.logged.record
        if judgment.needs_promotion:
            self._result.unpromoted.append(record.id)
            return
        held = WithheldMemory(
            id=record.id,
            type=record.type,
            trust=ranked.trust.value,
            reasons=list(judgment.reasons),
        )
        self._result.held_back.append(held)

    def _shortened(self, written: Sequence[_WrittenMemory]) -> dict[int, FrameRecord]:
        """Return shortened records by index, for memories that are long enough."""
        long = {
            number: memory
            for number, memory in enumerate(written)
            if memory.record is None
            or (memory.tokens > SHORT and memory.ranked.score < self._request.verbatim)
            or memory.tokens > self._large
        }
        most = max(1, self._room // _LEAST)
        candidates = list(long.items())[:most]
        parts = [
            (number, at, piece.text[:_LONGEST])
            for number, memory in candidates
            for at, piece in enumerate(memory.line.pieces)
            if piece.is_memory and len(piece.text) > _LONG_PART
        ]
        lengths = dict[int, int]()
        for number, _, text in parts:
            lengths[number] = lengths.get(number, 0) + len(text)
        summaries = dict[tuple[int, int], str]()
        for words, group in _by_words(parts, lengths):
            texts = self._tools.summarizer.summarize(
                [text for _, _, text in group], self._request.task, words
            )
            summaries |= {
                (number, at): text for (number, at, _), text in zip(group, texts, strict=True)
            }
        return {
            number: self._record(
                memory.ranked, _replace_pieces(memory.line, number, summaries), "summary"
            )
            for number, memory in candidates
        }

    def _record(self, ranked: RankedMemory, line: MemoryLine, form: Form) -> FrameRecord:
        text = self._tools.frame.written(line, form)
        group = "" if ranked.trust in _OWN else ranked.trust.value
        return FrameRecord(ranked.logged.seq, line, form, group, text)

    def _count(self, record: FrameRecord) -> int:
        return self._tools.tokenizer.count("\n" + record.text)

    def _take(self, memory: _WrittenMemory, short: FrameRecord | None) -> bool:
        """Select a memory if it fits, verbatim or shortened; return whether it does."""
        tries = [record for record in (memory.record, short) if record is not None]
        is_large = memory.tokens > self._large
        if short is not None and (is_large or memory.ranked.score < self._request.verbatim):
            tries.reverse()
        for record in tries:
            tokens = self._count(record) if record is short else memory.tokens
            if record is short and memory.record is not None and tokens >= memory.tokens:
                continue
            beside = self._beside(record)
            if tokens + beside <= self._room:
                self._room -= tokens + beside
                self._headings.add((record.line.block, record.group))
                self._days.add((record.line.block, record.group, record.line.day))
                self._result.chosen.append(
                    SelectedMemory(ranked=memory.ranked, record=record, tokens=tokens)
                )
                return True
        return False

    def _beside(self, record: FrameRecord) -> int:
        """Return the tokens of the headings that a record needs besides its line."""
        block, group, day = record.line.block, record.group, record.line.day
        needed = list[str]()
        if (block, group) not in self._headings:
            needed.append(self._tools.frame.heading(block, group))
        if day and (block, group, day) not in self._days:
            needed.append(self._tools.frame.dated(day))
        return sum(self._tools.tokenizer.count("\n" + heading) for heading in needed if heading)


def _by_words(
    parts: Sequence[tuple[int, int, str]], lengths: dict[int, int]
) -> Iterator[tuple[int, list[tuple[int, int, str]]]]:
    """Yield parts by their number of words: their share of the words of a summary."""
    groups = dict[int, list[tuple[int, int, str]]]()
    for part in parts:
        number, _, text = part
        words = max(6, round(SUMMARY_WORDS * len(text) / lengths[number]))
        groups.setdefault(words, []).append(part)
    yield from groups.items()


def _replace_pieces(
    line: MemoryLine, number: int, summaries: dict[tuple[int, int], str]
) -> MemoryLine:
    pieces = tuple(
        LinePiece(summaries.get((number, at), piece.text), piece.is_memory)
        for at, piece in enumerate(line.pieces)
    )
    return line._replace(pieces=pieces)


_SENTENCE = re.compile(r"[^.!?。！？\n]+(?:[.!?。！？]+[\"')\]]*|\n|$)\s*")
"""A sentence, with the space after it."""

_MOST_SENTENCES = 400
_FIRST = 0.5
"""Weight of an early position, relative to a word of the task."""

_CUT = " …"


class Extractive:
    """Selects sentences of a text, without changing them."""

    model = "sentences of the text"

    def summarize(self, texts: Sequence[str], task: str, words: int) -> list[str]:
        """Return the sentences of each text that fit, in order; see ``Summarizer``."""
        terms = terms_of(task)
        return [self._summary(text, [term.tokens for term in terms], words) for text in texts]

    def _summary(self, text: str, terms: list[tuple[str, ...]], words: int) -> str:
        sentences = _SENTENCE.findall(text[:_LONGEST])[:_MOST_SENTENCES]
        if len(sentences) <= 1 or len(text.split(None, words + 1)) <= words:
            return _cut(text, words)
        tokens = [tokens_of(sentence) for sentence in sentences]
        rarity = Counter(token for sentence_tokens in tokens for token in set(sentence_tokens))
        task_tokens = {token for term in terms for token in term}
        scores = {
            at: sum(1 / rarity[token] + 1 for token in set(sentence_tokens) if token in task_tokens)
            + _FIRST / (1 + at)
            for at, sentence_tokens in enumerate(tokens)
        }
        left, chosen = words, set[int]()
        for at in sorted(scores, key=lambda index: (-scores[index], index)):
            length = len(sentences[at].split())
            if length <= left:
                chosen.add(at)
                left -= length
        if not chosen:
            best = max(scores, key=lambda index: (scores[index], -index))
            return _cut(sentences[best], words)
        summary = "".join(
            sentences[at]
            if at + 1 in chosen or at == max(chosen)
            else sentences[at].rstrip() + _CUT + " "
            for at in sorted(chosen)
        )
        return summary.strip()[: 2 * words * _CHARACTERS]


def _cut(text: str, words: int) -> str:
    """Return the first words of a text; of a text without spaces, the first characters."""
    pieces = text[:_LONGEST].split(None, words)
    if len(pieces) <= words and len(text) <= _LONGEST:
        return text if len(text) <= words * _CHARACTERS else text[: words * _CHARACTERS] + _CUT
    return " ".join(pieces[:words])[: words * _CHARACTERS] + _CUT


_CHARACTERS = 12
"""Maximum average characters of a word."""


def verified(view: View, context: RehydrateContext) -> PipelineStage:
    """Return the stage that describes the verification.

    Raises:
        VerificationError: From the view, if a record does not verify.
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
    return PipelineStage(name="verify", detail=context.verified or bank, entries=entries)


_COMPONENTS = frozenset({"episodic", "identity", "procedural", "semantic", "working"})


def injected(text: str, task: str, system: str | None) -> dict[str, Any]:
    """Return messages as arguments of three SDKs, and as plain text.

    Args:
        text: The framed memories; empty for none.
        task: The message of the user; omitted if empty.
        system: The system prompt; omitted if None.

    Returns:
        ``openai``: a list for ``messages``; ``anthropic``: members ``system`` and ``messages``;
        ``gemini``: members ``system_instruction`` and ``contents``; ``plain``: one text.
    """
    parts = [part for part in (text, task) if part]
    return {
        "openai": [
            *([{"role": "system", "content": system}] if system else []),
            *({"role": "user", "content": part} for part in parts),
        ],
        "anthropic": {
            **({"system": system} if system else {}),
            "messages": _turn("content", [{"type": "text", "text": part} for part in parts]),
        },
        "gemini": {
            **({"system_instruction": {"parts": [{"text": system}]}} if system else {}),
            "contents": _turn("parts", [{"text": part} for part in parts]),
        },
        "plain": "\n\n".join([*([system] if system else []), *parts]),
    }


def _turn(member: str, parts: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Return a turn of the user with all parts, as both providers require."""
    return [{"role": "user", member: parts}] if parts else []


_ID_DIGITS = 8
_KEY = 20


def omission_note(omitted: OmittedCounts) -> str:
    """Return a note for the model about omitted memories; empty if there are none."""
    counts = [
        f"{count} {why}"
        for count, why in (
            (omitted.irrelevant, "less relevant"),
            (omitted.over_budget, "over the token budget"),
        )
        if count
    ]
    return f"Omitted: {', '.join(counts)}." if counts else ""


def notice(memories: Sequence[ContextMemory], omitted: OmittedCounts, origin: str) -> str:
    """Return the notice for the user: the memories, their origin and signers, and next steps."""
    if not memories:
        where = f" of {origin}" if origin else ""
        return f"No memory{where} was provided to the model.{_withheld_note(omitted)}"
    origins = Counter(_origin(memory, origin) for memory in memories)
    listed = "; ".join(f"{count:,} {text}" for text, count in sorted(origins.items()))
    first = memories[0].id.removeprefix("blake3:")[:_ID_DIGITS]
    many = "memory was" if len(memories) == 1 else "memories were"
    if origin:
        advice = " To review, correct or reject one, import the file: satchel import FILE."
    else:
        advice = (
            f" Review one: satchel show {first}. Correct it: satchel correct ID. Reject it:"
            " satchel quarantine reject ID."
        )
    summary = f"{len(memories):,} {many} provided to the model: {listed}."
    return f"{summary}{advice}{_withheld_note(omitted)}"


def _origin(memory: ContextMemory, file: str) -> str:
    """Return where a memory comes from, in words; ``file`` names the file that was read."""
    if not memory.source and not memory.signer:
        return f"from {file}" if file else "written here"
    signed = f"signed by {memory.signer[:_KEY]}…" if memory.signer else "unsigned"
    return f"from {memory.source or file or 'an import'}, {signed}, trusted as {memory.trust}"


def _withheld_note(omitted: OmittedCounts) -> str:
    note = ""
    if omitted.quarantined:
        note += (
            f" {omitted.quarantined:,} withheld, as possible prompt injections. Review one with "
            "satchel show ID; release it with satchel quarantine release ID."
        )
    if omitted.unpromoted:
        note += (
            f" {omitted.unpromoted:,} imported memories withheld, since they would set the "
            "agent's identity or instructions. Allow one: satchel promote ID."
        )
    return note


_FEW = OmittedCounts(irrelevant=999, over_budget=999)
"""Counts for the longest note about omitted memories, whose room is reserved."""


def rehydrate(
    view: View, request: RehydrateRequest | None = None, context: RehydrateContext | None = None
) -> RehydrateResult:
    """Return a bank's memories as text and messages for a model, within a budget.

    Args:
        view: A view of the bank, or of the part that a token covers.
        request: The request.
        context: Components of the pipeline.

    Raises:
        UsageError: If the budget is too small for the frame.
        VerificationError: If a record does not verify.
        InferenceError: If a summarizer does not answer.
    """
    return _Pipeline(view, request or RehydrateRequest(), context or RehydrateContext()).result()


class _Pipeline:
    """The pipeline of a request."""

    def __init__(self, view: View, request: RehydrateRequest, context: RehydrateContext) -> None:
        self._view = view
        self._request = request
        self._context = context
        self._profile = profile_of(request.model)
        self._budget = request.budget or self._profile.budget
        is_encoded = request.framing == "encoded"
        frame: Frame = EncodedFrame(self._profile, context.nonce()) if is_encoded else PaperFrame()
        self._tools = TextTools(
            frame=frame,
            tokenizer=context.tokenizer or tokenizer_of(request.model),
            summarizer=context.summarizer or Extractive(),
        )

    def result(self) -> RehydrateResult:
        room = self._room_for_memories()
        stages = [verified(self._view, self._context)]
        stages.append(filtered(self._view, self._request, self._context, stages[0]))
        ranking = ranked(self._view, self._request, self._context, self._budget)
        compression = compress_memories(
            self._view, ranking, self._request, self._tools, self._budget, room
        )
        text = self._framed(compression, ranking)
        memories = [self._context_memory(selected) for selected in _in_order(compression.chosen)]
        omitted = _omitted_counts(compression, ranking)
        tokens = self._count(text) if text else 0
        stages += self._later_stages(ranking, compression, tokens)
        return RehydrateResult(
            text=text,
            messages=injected(text, self._request.task, self._request.system),
            stages=stages,
            entries=memories,
            left_out=omitted,
            quarantined=compression.held_back,
            unpromoted=compression.unpromoted,
            tokens=tokens,
            budget=self._budget,
            tokenizer=self._tools.tokenizer.name,
            exact=self._tools.tokenizer.exact,
            model=self._request.model or self._profile.name,
            style=self._request.style,
            framing=self._request.framing,
            nonce=self._tools.frame.nonce,
            notice=notice(memories, omitted, self._context.origin),
            complete=ranking.complete,
            looked_at=ranking.looked_at,
        )

    def _count(self, text: str) -> int:
        return self._tools.tokenizer.count(text)

    def _room_for_memories(self) -> int:
        """Return the tokens that the frame leaves for memories.

        Raises:
            UsageError: If it leaves none.
        """
        empty = self._count(self._tools.frame.whole([], omission_note(_FEW)))
        if empty >= self._budget:
            raise UsageError(
                f"the frame alone takes {empty} of the {self._budget}",
                field="budget",
                hint="Use a budget of at least a few hundred tokens.",
            )
        return self._budget - empty

    def _framed(self, compression: CompressionResult, ranking: RelevanceRanking) -> str:
        """Return the whole text; memories are dropped from the end until it fits."""
        while compression.chosen:
            words = omission_note(_omitted_counts(compression, ranking))
            text = self._tools.frame.whole(
                [selected.record for selected in compression.chosen], words
            )
            over = self._count(text) - self._budget
            if over <= 0:
                return text
            while over > 0 and compression.chosen:
                over -= compression.chosen.pop().tokens
                compression.over_budget += 1
        return ""

    def _context_memory(self, selected: SelectedMemory) -> ContextMemory:
        logged = selected.ranked.logged
        source = self._view.source_of(logged)
        model = source.model if source is not None else None
        return ContextMemory(
            id=logged.record.id,
            type=logged.record.type,
            form=selected.record.form,
            trust=selected.ranked.trust.value,
            score=selected.ranked.score,
            tokens=selected.tokens,
            moment=logged.row.moment,
            source=model.provider if isinstance(model, Source) else "",
            signer=(model.signer or "") if isinstance(model, Source) else "",
            parts=_parts(selected.ranked),
        )

    def _later_stages(
        self, ranking: RelevanceRanking, compression: CompressionResult, tokens: int
    ) -> list[PipelineStage]:
        forms = Counter(selected.record.form for selected in compression.chosen)
        tokenizer, count = self._tools.tokenizer, len(compression.chosen)
        counted = tokenizer.name if tokenizer.exact else "an overestimate"
        held = len(compression.held_back) + len(compression.unpromoted)
        summarizer = f" by {self._tools.summarizer.model}" if forms["summary"] else ""
        details = {
            "rank": f"{ranking.looked_at:,} considered; compared by {ranking.compared}",
            "compress": f"{forms['verbatim']:,} word for word, {forms['summary']:,} shortened"
            f"{summarizer}; {compression.irrelevant:,} not relevant,"
            f" {compression.over_budget:,} over the token budget",
            "format": f"{self._request.style}, for {self._profile.name}",
            "frame": (
                f"{self._request.framing}; {held:,} quarantined; {tokens:,} of {self._budget:,} "
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
    return sorted(chosen, key=lambda selected: (-selected.ranked.score, selected.record.position))


def _omitted_counts(compression: CompressionResult, ranking: RelevanceRanking) -> OmittedCounts:
    return OmittedCounts(
        irrelevant=compression.irrelevant,
        over_budget=compression.over_budget,
        quarantined=len(compression.held_back),
        unpromoted=len(compression.unpromoted),
        expired=ranking.expired,
    )


def _parts(memory: RankedMemory) -> RelevanceParts:
    parts = memory.parts
    return RelevanceParts(
        recency=round(parts.recency, 4),
        salience=round(parts.salience, 4),
        similarity=None if parts.similarity is None else round(parts.similarity, 4),
        depth=round(parts.depth, 4),
        penalty=round(parts.penalty, 4),
    )


# ruff: noqa: RUF001 - sentences end otherwise in Chinese
