"""Stage 4, compress: what fits, word for word where it can be.

From the highest relevance on, each memory is written and its line counted with the model's
tokenizer. Where there is not room for all, memories below the upper threshold are shortened if that
saves anything. What room is left then is for the best of these, word for word. One that does not
fit is left out alone, and counted.
"""

# ruff: noqa: RUF001 - sentences end otherwise in Chinese
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from satchel.ledger.view import View
from satchel.model.values import TrustClass
from satchel.ports.inference import Summariser, Tokenizer
from satchel.rehydrate.frames import (
    Frame,
    FrameRecord,
    LinePiece,
    MemoryLine,
    formatted,
    memory_text,
)
from satchel.rehydrate.ranking import RankedMemory, RelevanceRanking
from satchel.rehydrate.request import Form, RehydrateRequest, WithheldMemory
from satchel.screening.injection import InjectionVerdict, judge_memory
from satchel.stores.matching import terms_of, tokens_of

SHORT = 128
"""Tokens of a line that is not worth shortening."""

SUMMARY_WORDS = 48
"""About how many words a shortened memory has."""

CHARACTERS_A_TOKEN = 8
"""A text with more characters for each token of the budget is not tried word for word."""

_ENOUGH = 4
"""Times the budget: so many tokens of lines are written at most, to choose from."""

_SHARE = 4
"""A line that takes more than this part of the room is shortened first, where not all fit."""

_LEAST = 4
"""Tokens below which nothing fits any more."""

_LONGEST = 1 << 16
_LONG_PART = 40
_OWN = frozenset({TrustClass.USER, TrustClass.AGENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedMemory:
    """A memory that goes into the text."""

    ranked: RankedMemory
    record: FrameRecord
    tokens: int


@dataclass(slots=True, kw_only=True)
class CompressionResult:
    """What goes into the text, and what does not."""

    chosen: list[SelectedMemory] = field(default_factory=list)
    """The most relevant first."""

    irrelevant: int = 0
    over_budget: int = 0
    held_back: list[WithheldMemory] = field(default_factory=list)
    unpromoted: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Written:
    """A memory with its line, word for word."""

    ranked: RankedMemory
    line: MemoryLine
    record: FrameRecord | None
    """None where it is too long to be tried."""

    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTools:
    """What texts are made with."""

    frame: Frame
    tokenizer: Tokenizer
    summariser: Summariser


def compress_memories(
    view: View,
    ranking: RelevanceRanking,
    asked: RehydrateRequest,
    tools: TextTools,
    budget: int,
    room: int,
) -> CompressionResult:
    """Return what goes into the text.

    Args:
        view: The bank.
        ranking: What there is, best first.
        asked: Thresholds, style, what is enforced.
        tools: What texts are made with.
        budget: Tokens of the whole text.
        room: What the frame leaves of them.
    """
    return _Compressing(view, asked, tools, budget, room).result(ranking.memories)


class _Compressing:
    """One choice in the making."""

    def __init__(
        self, view: View, asked: RehydrateRequest, tools: TextTools, budget: int, room: int
    ) -> None:
        self._view = view
        self._asked = asked
        self._tools = tools
        self._budget = budget
        self._left = room
        self._large = max(SHORT, room // _SHARE)
        self._found = CompressionResult()
        self._headings = set[tuple[str, str]]()
        self._days = set[tuple[str, str, str]]()

    def result(self, memories: Sequence[RankedMemory]) -> CompressionResult:
        relevant = [one for one in memories if one.score >= self._asked.summarised]
        self._found.irrelevant = len(memories) - len(relevant)
        written, tokens = list[_Written](), 0
        for number, one in enumerate(self._written(relevant)):
            if one is not None:
                written.append(one)
                tokens += one.tokens
            if tokens > _ENOUGH * self._budget:
                self._found.over_budget += len(relevant) - number - 1
                break
        shortened = self._shortened(written) if tokens > self._left else {}
        for number, one in enumerate(written):
            if self._left < _LEAST or not self._take(one, shortened.get(number)):
                self._found.over_budget += 1
        if shortened and not self._found.over_budget:
            self._lengthen({one.ranked.logged.seq: one for one in written})
        return self._found

    def _lengthen(self, written: Mapping[int, _Written]) -> None:
        """Give shortened memories word for word again, best first, while there is room left."""
        for place, one in enumerate(self._found.chosen):
            whole = written[one.ranked.logged.seq]
            more = whole.tokens - one.tokens
            if whole.record is None or one.record is whole.record or more > self._left:
                continue
            self._left -= more
            again = SelectedMemory(ranked=one.ranked, record=whole.record, tokens=whole.tokens)
            self._found.chosen[place] = again

    def _written(self, relevant: Sequence[RankedMemory]) -> Iterator[_Written | None]:
        """Yield memories with their lines; None for those that are held back."""
        for ranked in relevant:
            line = formatted(ranked, self._asked.style)
            said = memory_text(line)
            most = CHARACTERS_A_TOKEN * self._budget
            judgement = judge_memory(
                self._view,
                ranked.logged,
                said[: max(_LONGEST, most)],
                ranked.trust,
                self._asked.enforce,
            )
            if judgement:
                self._hold_back(ranked, judgement)
                yield None
            elif not said.strip():
                yield None
            elif len(said) > most:
                yield _Written(ranked, line, None, self._budget)
            else:
                record = self._record(ranked, line, "verbatim")
                yield _Written(ranked, line, record, self._count(record))

    def _hold_back(self, ranked: RankedMemory, judgement: InjectionVerdict) -> None:
        record = ranked.logged.record
        if judgement.needs_promotion:
            self._found.unpromoted.append(record.id)
            return
        held = WithheldMemory(
            id=record.id,
            type=record.type,
            trust=ranked.trust.value,
            reasons=list(judgement.reasons),
        )
        self._found.held_back.append(held)

    def _shortened(self, written: Sequence[_Written]) -> dict[int, FrameRecord]:
        """Return shorter records of those that are worth it, by their place."""
        long = {
            number: one
            for number, one in enumerate(written)
            if one.record is None
            or (one.tokens > SHORT and one.ranked.score < self._asked.verbatim)
            or one.tokens > self._large
        }
        most = max(1, self._left // _LEAST)
        asked = list(long.items())[:most]
        parts = [
            (number, at, piece.text[:_LONGEST])
            for number, one in asked
            for at, piece in enumerate(one.line.pieces)
            if piece.is_memory and len(piece.text) > _LONG_PART
        ]
        lengths = dict[int, int]()
        for number, _, text in parts:
            lengths[number] = lengths.get(number, 0) + len(text)
        said = dict[tuple[int, int], str]()
        for words, some in _by_words(parts, lengths):
            texts = self._tools.summariser.summarise(
                [text for _, _, text in some], self._asked.task, words
            )
            said |= {(number, at): text for (number, at, _), text in zip(some, texts, strict=True)}
        return {
            number: self._record(one.ranked, _with(one.line, number, said), "summary")
            for number, one in asked
        }

    def _record(self, ranked: RankedMemory, line: MemoryLine, form: Form) -> FrameRecord:
        text = self._tools.frame.written(line, form)
        group = "" if ranked.trust in _OWN else ranked.trust.value
        return FrameRecord(ranked.logged.seq, line, form, group, text)

    def _count(self, record: FrameRecord) -> int:
        return self._tools.tokenizer.count("\n" + record.text)

    def _take(self, one: _Written, short: FrameRecord | None) -> bool:
        """Take a memory if it fits: as it is, or shortened; tell whether it did."""
        tries = [record for record in (one.record, short) if record is not None]
        is_large = one.tokens > self._large
        if short is not None and (is_large or one.ranked.score < self._asked.verbatim):
            tries.reverse()
        for record in tries:
            tokens = self._count(record) if record is short else one.tokens
            if record is short and one.record is not None and tokens >= one.tokens:
                continue
            beside = self._beside(record)
            if tokens + beside <= self._left:
                self._left -= tokens + beside
                self._headings.add((record.line.block, record.group))
                self._days.add((record.line.block, record.group, record.line.day))
                self._found.chosen.append(
                    SelectedMemory(ranked=one.ranked, record=record, tokens=tokens)
                )
                return True
        return False

    def _beside(self, record: FrameRecord) -> int:
        """Return the tokens that a record needs besides its own line."""
        block, group, day = record.line.block, record.group, record.line.day
        needed = list[str]()
        if (block, group) not in self._headings:
            needed.append(self._tools.frame.heading(block, group))
        if day and (block, group, day) not in self._days:
            needed.append(self._tools.frame.dated(day))
        return sum(self._tools.tokenizer.count("\n" + one) for one in needed if one)


def _by_words(
    parts: Sequence[tuple[int, int, str]], lengths: dict[int, int]
) -> Iterator[tuple[int, list[tuple[int, int, str]]]]:
    """Yield parts by how many words each may have: its share of what the memory may."""
    found = dict[int, list[tuple[int, int, str]]]()
    for part in parts:
        number, _, text = part
        words = max(6, round(SUMMARY_WORDS * len(text) / lengths[number]))
        found.setdefault(words, []).append(part)
    yield from found.items()


def _with(line: MemoryLine, number: int, said: dict[tuple[int, int], str]) -> MemoryLine:
    pieces = tuple(
        LinePiece(said.get((number, at), piece.text), piece.is_memory)
        for at, piece in enumerate(line.pieces)
    )
    return line._replace(pieces=pieces)


_SENTENCE = re.compile(r"[^.!?。！？\n]+(?:[.!?。！？]+[\"')\]]*|\n|$)\s*")
"""Characters that are looked at, from the start."""

_MOST_SENTENCES = 400
_FIRST = 0.5
"""What standing first counts for, against having a word of the task."""

_CUT = " …"


class Extractive:
    """Chooses sentences; what it gives stands in the text word for word."""

    model = "sentences of the text"

    def summarise(self, texts: Sequence[str], task: str, words: int) -> list[str]:
        """Return of each text the sentences that fit, in their order; see ``Summariser``."""
        terms = terms_of(task)
        return [self._of(text, [term.tokens for term in terms], words) for text in texts]

    def _of(self, text: str, terms: list[tuple[str, ...]], words: int) -> str:
        sentences = _SENTENCE.findall(text[:_LONGEST])[:_MOST_SENTENCES]
        if len(sentences) <= 1 or len(text.split(None, words + 1)) <= words:
            return _cut(text, words)
        tokens = [tokens_of(one) for one in sentences]
        rarity = Counter(token for some in tokens for token in set(some))
        wanted = {token for term in terms for token in term}
        scores = {
            at: sum(1 / rarity[token] + 1 for token in set(some) if token in wanted)
            + _FIRST / (1 + at)
            for at, some in enumerate(tokens)
        }
        left, chosen = words, set[int]()
        for at in sorted(scores, key=lambda one: (-scores[one], one)):
            length = len(sentences[at].split())
            if length <= left:
                chosen.add(at)
                left -= length
        if not chosen:
            best = max(scores, key=lambda one: (scores[one], -one))
            return _cut(sentences[best], words)
        kept = "".join(
            sentences[at]
            if at + 1 in chosen or at == max(chosen)
            else sentences[at].rstrip() + _CUT + " "
            for at in sorted(chosen)
        )
        return kept.strip()[: 2 * words * _CHARACTERS]


def _cut(text: str, words: int) -> str:
    """Return the first words of a text; of writing without spaces, as many characters."""
    found = text[:_LONGEST].split(None, words)
    if len(found) <= words and len(text) <= _LONGEST:
        return text if len(text) <= words * _CHARACTERS else text[: words * _CHARACTERS] + _CUT
    return " ".join(found[:words])[: words * _CHARACTERS] + _CUT


_CHARACTERS = 12
"""Characters that a word may have at most, on average."""
