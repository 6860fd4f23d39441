"""Memory files that go with a question: the words nominate, the log proves, a passage is given.

A file is as long as it likes, so of each the passage that has most of the words is given, with its
path, version and lines. Files have no vectors: words alone find them. What the log has no text of
(over a record's limit, or no text at all) is not found here, only by a search in the files.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from satchel.inference.tokenizers import PER_MEMORY, estimated_tokens
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import FileVersion
from satchel.model.values import TrustClass
from satchel.ports.rows import Filter
from satchel.recall.query import FileHit, Passage, Query
from satchel.recall.trust import effective_trust, is_trusted, lower
from satchel.stores.matching import Term, relevance, tokens_of

MOST_FILES = 10
"""Files that are given for one answer at most."""

MOST_LOOKED_AT = 500
"""Retired versions that are proved for an earlier moment at most."""

SHARE = 4
"""Of a budget one part in so many is kept for files, where there are any that fit."""

_FILE_VERSIONS = frozenset({"file_version"})
_PASSAGE = 600


def files_for(view: View, query: Query, terms: Sequence[Term], size: int) -> tuple[FileHit, ...]:
    """Return the files that go with words, the best passage of each, best file first.

    None where the query asks for what a file does not have: a component, tags, an owner, a
    provider. A file is trusted as its writer at most, who is an agent: nothing proves who else.

    Args:
        view: The bank.
        query: What is asked.
        terms: Its words.
        size: How many records of the log count.

    Raises:
        VerificationError: If a record is not what was logged.
    """
    if not terms or not query.asks_for_files or not view.head.counts.get("file_version", 0):
        return ()
    wanted = Filter(
        types=_FILE_VERSIONS,
        since=query.since,
        until=query.until,
        as_of=None if query.as_of is None else size,
    )
    found = list[FileHit]()
    for logged, score in _nominated(view, query.text, wanted, terms, size):
        hit = _hit(view, logged, score, terms)
        if hit is not None and (query.trust is None or is_trusted(hit.trust, query.trust)):
            found.append(hit)
        if len(found) == min(MOST_FILES, query.most):
            break
    best = max((hit.score for hit in found), default=0.0) or 1.0
    return tuple(replace(hit, score=hit.score / best) for hit in found)


def shared(budget: int | None, files: Sequence[FileHit]) -> tuple[int | None, int]:
    """Return what memories may take of a budget, and what is kept for files.

    Memories that take less leave more to files.
    """
    if budget is None:
        return None, 0
    kept = min(sum(hit.tokens for hit in files), budget // SHARE)
    return budget - kept, kept


def fitted(files: Sequence[FileHit], left: int | None) -> tuple[FileHit, ...]:
    """Return the files that fit what is left of a budget, best first."""
    found = list[FileHit]()
    for hit in files:
        if left is None or hit.tokens <= left:
            left = None if left is None else left - hit.tokens
            found.append(hit)
    return tuple(found)


def _nominated(
    view: View, text: str, wanted: Filter, terms: Sequence[Term], size: int
) -> Iterator[tuple[VerifiedRecord, float]]:
    """Yield versions that have some of the words, best first; of an earlier moment, those of it."""
    scores = view.nominees(text, limit=MOST_LOOKED_AT, wanted=wanted)
    if wanted.as_of is None:
        yield from view.ranked(scores, wanted)
        return
    there = {logged.seq: logged for logged, _ in view.ranked(scores, wanted)}
    for number, logged in enumerate(view.retired_since(size)):
        if number == MOST_LOOKED_AT:
            break
        if wanted.matches(logged.row):
            there[logged.seq] = logged
    texts = {seq: tokens_of(logged.row.text or "") for seq, logged in there.items()}
    ranked = relevance(terms, texts, size)
    for seq in sorted(ranked, key=lambda seq: (-ranked[seq], seq)):
        yield there[seq], ranked[seq]


def _hit(view: View, logged: VerifiedRecord, score: float, terms: Sequence[Term]) -> FileHit | None:
    file = logged.model
    if not isinstance(file, FileVersion) or not file.text:
        return None
    passage, having = _best(file.text, terms)
    if not having:
        return None
    return FileHit(
        logged,
        file,
        passage,
        score,
        lower(TrustClass.AGENT, effective_trust(view, logged)),
        having,
        estimated_tokens(f"{file.path}\n{passage.text}") + PER_MEMORY,
        view.retirement(logged.row) is not None,
    )


def _best(text: str, terms: Sequence[Term]) -> tuple[Passage, tuple[str, ...]]:
    """Return the passage that has most of the words, the first of those that have as many."""
    best, most, having = Passage(1, 1, ""), (0, 0), tuple[str, ...]()
    for passage in _passages(text):
        tokens = tokens_of(passage.text)
        times = [term.times(tokens) for term in terms]
        count = sum(map(bool, times)), sum(times)
        if count > most:
            best, most = passage, count
            having = tuple(term.words for term, often in zip(terms, times, strict=True) if often)
    return best, having


def _passages(text: str) -> Iterator[Passage]:
    """Yield a text in passages: whole lines, up to a length; a longer line is cut into several."""
    first, some, length = 1, list[str](), 0
    for number, line in enumerate(text.split("\n"), 1):
        if some and (length + len(line) > _PASSAGE or not line.strip()):
            yield Passage(first, number - 1, "\n".join(some))
            some, length = [], 0
        if not line.strip():
            continue
        if not some:
            first = number
        for start in range(0, max(0, len(line) - _PASSAGE), _PASSAGE):
            yield Passage(number, number, line[start : start + _PASSAGE + _PASSAGE // 4])
        some.append(line[max(0, len(line) - 1) // _PASSAGE * _PASSAGE :].rstrip("\r"))
        length += len(some[-1]) + 1
    if some:
        yield Passage(first, first + len(some) - 1, "\n".join(some))
