"""Texts of memories, prepared for comparison with queries and cached in the process.

Parsing and tokenizing the same few hundred memories for every query took half of the time of a
recall. A cached text depends only on the bytes of a record and is found by their digest, so it is
never out of date. The cache is limited in size, and cleared after an erasure or a redaction, so
that a process does not keep what its bank has removed.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import cast

import msgspec
from blake3 import blake3

from satchel.crypto.sealed_records import decode_record
from satchel.errors import InputError
from satchel.ledger.view import View
from satchel.model.records import AnyRecord, Entry, Episodic, Model
from satchel.model.values import resolved
from satchel.ports.rows import Row, words_in
from satchel.recall.time_expressions import TimeRange, names_time, times_named
from satchel.stores.text_search import Term, tokens_of
from satchel.stores.words import STOP_WORDS

LONGEST = 1 << 14
"""Maximum characters of a memory that are searched for the words of a query, from its start."""

MOST_BYTES = 32 << 20
"""Approximate size of the cache in bytes; 0 disables it."""

_ASKING = "?\N{FULLWIDTH QUESTION MARK}\N{ARABIC QUESTION MARK}"
_CLOSING = " \t\r\n\"')]\N{RIGHT SINGLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}"

_decode = cast("Callable[[bytes], Model]", msgspec.json.Decoder(resolved(AnyRecord)).decode)
_KEY_BYTES = 16
_TEXT_BYTES, _WORD_BYTES, _WIDEST = 400, 120, 4
_MANY = 50
"""Number of words from which a lookup is faster than a search in a string."""

_MOST_BANKS = 64
_ENDING = ("erasure", "redaction")


class SearchText:
    """The text of a memory, prepared for comparison with queries.

    Args:
        row: The row of the memory.
    """

    __slots__ = ("_counts", "_dated", "_times", "_words", "asks", "length", "who")

    def __init__(self, row: Row) -> None:
        self.who: tuple[str, ...] = ()
        """Words of the speaker's name."""

        self.length = 0
        """Number of words."""

        self._words, self._counts = "", dict[str, int]()
        self.asks = False
        self._dated: bool | None = None
        self._times: tuple[str, ...] | None = None
        model = _model_of(row.body or b"")
        if isinstance(model, Episodic) and model.actor:
            self.who = _name_of(model.actor.rpartition(":")[2])
        if isinstance(model, Entry):
            text = words_in(model)[:LONGEST]
            tokens = tokens_of(text)
            self.length = len(tokens)
            # A string takes a tenth of the memory of a list. Each word has two spaces around it.
            self._words = f" {'  '.join(tokens)} " if tokens else ""
            if self.length > _MANY:
                self._counts = dict(Counter(tokens))
            self.asks = _asks(text)

    @property
    def tokens(self) -> list[str]:
        """Its words, tokenized as in the index."""
        return self._words.split()

    @property
    def dated(self) -> bool:
        """Whether it names a time; determined when a query asks for one."""
        if self._dated is None:
            self._dated = names_time(self.tokens)
        return self._dated

    def names(self, row: Row, time: TimeRange) -> bool:
        """Return whether it names a time within a range, relative to when it was said.

        Args:
            row: The row of the memory.
            time: The range.
        """
        if self._times is None:
            at, model = row.moment, _model_of(row.body or b"")
            text = words_in(model)[:LONGEST] if isinstance(model, Entry) else ""
            self._times = () if at is None else times_named(text, at)
        return any(map(time.includes, self._times))

    def positions(self, words: Iterable[str]) -> dict[str, list[int]]:
        """Return the positions of words, ascending, by word; absent words are omitted.

        Args:
            words: Words, tokenized as in the index.
        """
        positions, text, counts = dict[str, list[int]](), self._words, self._counts
        for word in words:
            if counts and word not in counts:
                continue
            sought, spaces, start = f" {word} ", 0, 0
            at = text.find(sought)
            while at >= 0:
                spaces += text.count(" ", start, at)  # two for each word before
                positions.setdefault(word, []).append(spaces // 2)
                start, at = at, text.find(sought, at + 1)
        return positions

    @property
    def size(self) -> int:
        """Approximate size in memory, in bytes."""
        text = len(self._words) * (1 if self._words.isascii() else _WIDEST)
        return _TEXT_BYTES + text + _WORD_BYTES * len(self._counts)

    def times(self, sought: "SearchTerms") -> dict[int, int]:
        """Return the occurrences of the terms of a query, by the number of the term, in that order.

        Absent terms are omitted.
        """
        words, counts = self._words, self._counts
        if counts:
            occurrences = {at: counts[word] for at, word in sought.bare if word in counts}
        else:
            occurrences = {at: words.count(word) for at, word in sought.words if word in words}
        if not sought.others:
            return occurrences
        for at, term in sought.others:
            if term.prefix or all(f" {token} " in words for token in term.tokens):
                times = term.times(self.tokens)
                if times:
                    occurrences[at] = times
        return dict(sorted(occurrences.items()))


class SearchTerms:
    """The terms of a query, prepared for the search in texts.

    Args:
        terms: Terms of the query.
    """

    __slots__ = ("bare", "others", "words")

    def __init__(self, terms: Sequence[Term]) -> None:
        plain = [not term.prefix and len(term.tokens) == 1 for term in terms]
        every = list(zip(range(len(terms)), terms, plain, strict=True))
        self.bare = [(at, term.tokens[0]) for at, term, is_plain in every if is_plain]
        """Terms of one word, with their numbers."""

        self.words = [(at, f" {word} ") for at, word in self.bare]
        """The same, as they occur in a string of words."""

        self.others = [(at, term) for at, term, is_plain in every if not is_plain]


class _Cache:
    """A cache of texts by the digest of their bytes, in two halves.

    When the newer half is full, it replaces the older one; a text that is used again moves to the
    newer half. Threads may share it: at worst, a text is prepared twice.
    """

    def __init__(self) -> None:
        self._newer, self._older = dict[bytes, SearchText](), dict[bytes, SearchText]()
        self._bytes = 0

    def get(self, row: Row) -> SearchText:
        """Return the text of a row."""
        key = blake3(row.body or b"").digest(_KEY_BYTES)
        text = self._newer.get(key)
        if text is None:
            text = self._older.get(key) or SearchText(row)
            self._add(key, text)
        return text

    def clear(self) -> None:
        """Remove all texts."""
        self._newer, self._older, self._bytes = {}, {}, 0
        _name_of.cache_clear()

    @property
    def size(self) -> int:
        """Approximate size of all texts, in bytes."""
        return sum(text.size for half in (self._newer, self._older) for text in half.values())

    def _add(self, key: bytes, text: SearchText) -> None:
        half, size = MOST_BYTES // 2, text.size
        if size > half:
            return
        if self._bytes + size > half:
            self._older, self._newer, self._bytes = self._newer, {}, 0
        self._newer[key] = text
        self._bytes += size


texts = _Cache()
"""The cache of this process."""

_ended = dict[str, int]()
"""Number of erasures and redactions in each bank at its last query."""


def search_text(row: Row) -> SearchText:
    """Return the prepared text of a memory."""
    return texts.get(row)


def forget_erased(view: View) -> None:
    """Clear the cache if the bank has erased or redacted a memory since its last query."""
    bank, counts = view.head.bank, view.head.counts
    ended = sum(counts.get(name, 0) for name in _ENDING)
    if _ended.get(bank, 0) != ended:
        texts.clear()
        if len(_ended) >= _MOST_BANKS:
            _ended.clear()
        _ended[bank] = ended


def _asks(text: str) -> bool:
    """Return whether a text ends with a question, apart from a note in brackets."""
    end = text.rstrip()
    if end.endswith("]"):
        end = end.rpartition("[")[0]
    return end.rstrip(_CLOSING).endswith(tuple(_ASKING))


def _model_of(body: bytes) -> Model | None:
    """Return the model of a record; None if it cannot be read, which verification reports.

    Whether its bytes are canonical is not checked here, since texts are only used for ranking.
    """
    try:
        return _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return decode_record(body)
    except InputError:
        return None


@lru_cache(1024)  # few speak, and often
def _name_of(actor: str) -> tuple[str, ...]:
    return tuple(tokens_of(actor))


_LEAST_WORDS, _LEAST_TIMES = 12, 6
_MOST_SHARE = 0.12
"""Lowest share of words of the query in a stuffed text; sentences have fewer."""

_LEAST_PLAIN = 0.22
"""Lowest share of common words, such as "the" and "of", in sentences."""

_LEAST_REPEATED = 4
_LONGEST = 1 << 12


def is_stuffed(text: str, terms: Sequence[Term]) -> bool:
    """Return whether a text repeats the words of a query far more often than sentences do.

    Args:
        text: The text.
        terms: Terms of the query.
    """
    words = text[:_LONGEST].casefold().split() if terms else []
    if len(words) - len(set(words)) < _LEAST_REPEATED:
        return False
    tokens = tokens_of(text[:_LONGEST])
    if len(tokens) < _LEAST_WORDS:
        return False
    times = sum(term.times(tokens) for term in terms)
    if times < _LEAST_TIMES or times / len(tokens) < _MOST_SHARE:
        return False
    return sum(token in STOP_WORDS for token in tokens) / len(tokens) < _LEAST_PLAIN
