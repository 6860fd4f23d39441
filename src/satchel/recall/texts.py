"""What memories say, as questions are compared with it, worked out once in a process.

Reading and cutting the same few hundred memories for every question took half of the time of a
recall. What is kept depends on the bytes of a record alone, and is found by their digest, so it is
never out of date. It is bounded in memory, and dropped when something was erased or redacted: a
process that goes on must not know what its bank does not.
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
from satchel.stores.matching import Term, tokens_of
from satchel.stores.words import STOP_WORDS

LONGEST = 1 << 14
"""Characters of a memory in which the words of a question are looked for, from its start."""

MOST_BYTES = 32 << 20
"""Of memory for what is kept, about; 0 keeps nothing."""

_ASKING = "?\N{FULLWIDTH QUESTION MARK}\N{ARABIC QUESTION MARK}"
_CLOSING = " \t\r\n\"')]\N{RIGHT SINGLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}"

_decode = cast("Callable[[bytes], Model]", msgspec.json.Decoder(resolved(AnyRecord)).decode)
_KEY_BYTES = 16
_TEXT_BYTES, _WORD_BYTES, _WIDEST = 400, 120, 4
_MANY = 50
"""Words from which on it takes less time to look one up than to search a string of them."""

_MOST_BANKS = 64
_ENDING = ("erasure", "redaction")


class SearchText:
    """What of a memory is compared with questions. It depends on the memory alone.

    Args:
        row: The memory, as the store has it.
    """

    __slots__ = ("_counts", "_dated", "_times", "_words", "asks", "length", "who")

    def __init__(self, row: Row) -> None:
        self.who: tuple[str, ...] = ()
        """Words of the speaker's name."""

        self.length = 0
        """How many words it has."""

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
            # One string takes a tenth of the memory of a list. Each word has two spaces of its own.
            self._words = f" {'  '.join(tokens)} " if tokens else ""
            if self.length > _MANY:
                self._counts = dict(Counter(tokens))
            self.asks = _asks(text)

    @property
    def tokens(self) -> list[str]:
        """Its words, as an index has them."""
        return self._words.split()

    @property
    def dated(self) -> bool:
        """Whether it names a time; looked for when a question asks for one."""
        if self._dated is None:
            self._dated = names_time(self.tokens)
        return self._dated

    def names(self, row: Row, told: TimeRange) -> bool:
        """Tell whether it names a time that is of another one, counted from when it was said.

        Args:
            row: The memory.
            told: The other time.
        """
        if self._times is None:
            at, model = row.moment, _model_of(row.body or b"")
            said = words_in(model)[:LONGEST] if isinstance(model, Entry) else ""
            self._times = () if at is None else times_named(said, at)
        return any(map(told.includes, self._times))

    def positions(self, words: Iterable[str]) -> dict[str, list[int]]:
        """Return where it has words, in order, by word; words that it does not have are left out.

        Args:
            words: As an index has them.
        """
        found, text, counts = dict[str, list[int]](), self._words, self._counts
        for word in words:
            if counts and word not in counts:
                continue
            sought, spaces, start = f" {word} ", 0, 0
            at = text.find(sought)
            while at >= 0:
                spaces += text.count(" ", start, at)  # two for each word before
                found.setdefault(word, []).append(spaces // 2)
                start, at = at, text.find(sought, at + 1)
        return found

    @property
    def size(self) -> int:
        """Bytes that it takes in memory, about."""
        text = len(self._words) * (1 if self._words.isascii() else _WIDEST)
        return _TEXT_BYTES + text + _WORD_BYTES * len(self._counts)

    def times(self, sought: "SearchTerms") -> dict[int, int]:
        """Return how often it has each term of a question, by the term's number, in that order.

        Terms that it does not have are left out.
        """
        words, counts = self._words, self._counts
        if counts:
            found = {at: counts[word] for at, word in sought.bare if word in counts}
        else:
            found = {at: words.count(word) for at, word in sought.words if word in words}
        if not sought.others:
            return found
        for at, term in sought.others:
            if term.prefix or all(f" {token} " in words for token in term.tokens):
                times = term.times(self.tokens)
                if times:
                    found[at] = times
        return dict(sorted(found.items()))


class SearchTerms:
    """The terms of a question, as texts are searched for them.

    Args:
        terms: Of the question.
    """

    __slots__ = ("bare", "others", "words")

    def __init__(self, terms: Sequence[Term]) -> None:
        plain = [not term.prefix and len(term.tokens) == 1 for term in terms]
        every = list(zip(range(len(terms)), terms, plain, strict=True))
        self.bare = [(at, term.tokens[0]) for at, term, is_plain in every if is_plain]
        """Terms of one word, with their numbers."""

        self.words = [(at, f" {word} ") for at, word in self.bare]
        """The same, as they stand in a string of words."""

        self.others = [(at, term) for at, term, is_plain in every if not is_plain]


class _Cache:
    """Texts by the digest of their bytes: those of late, and those before them.

    When the newer half is full it becomes the older one, which is dropped; what is asked for again
    moves to the newer. Threads may use it at once: the worst is that a text is made twice.
    """

    def __init__(self) -> None:
        self._newer, self._older = dict[bytes, SearchText](), dict[bytes, SearchText]()
        self._bytes = 0

    def get(self, row: Row) -> SearchText:
        """Return the text of a row."""
        key = blake3(row.body or b"").digest(_KEY_BYTES)
        found = self._newer.get(key)
        if found is None:
            found = self._older.get(key) or SearchText(row)
            self._keep(key, found)
        return found

    def clear(self) -> None:
        """Keep nothing."""
        self._newer, self._older, self._bytes = {}, {}, 0
        _name_of.cache_clear()

    @property
    def size(self) -> int:
        """Bytes of what is kept, about."""
        return sum(text.size for half in (self._newer, self._older) for text in half.values())

    def _keep(self, key: bytes, text: SearchText) -> None:
        half, size = MOST_BYTES // 2, text.size
        if size > half:
            return
        if self._bytes + size > half:
            self._older, self._newer, self._bytes = self._newer, {}, 0
        self._newer[key] = text
        self._bytes += size


texts = _Cache()
"""Of this process."""

_ended = dict[str, int]()
"""Erasures and redactions in each bank, when it was asked last."""


def search_text(row: Row) -> SearchText:
    """Return what of a memory is compared with questions."""
    return texts.get(row)


def forget_erased(view: View) -> None:
    """Drop what is kept where something was erased or redacted since a bank was asked last."""
    bank, counts = view.head.bank, view.head.counts
    ended = sum(counts.get(name, 0) for name in _ENDING)
    if _ended.get(bank, 0) != ended:
        texts.clear()
        if len(_ended) >= _MOST_BANKS:
            _ended.clear()
        _ended[bank] = ended


def _asks(text: str) -> bool:
    """Tell whether a text ends in a question, or did before a note in brackets."""
    end = text.rstrip()
    if end.endswith("]"):
        end = end.rpartition("[")[0]
    return end.rstrip(_CLOSING).endswith(tuple(_ASKING))


def _model_of(body: bytes) -> Model | None:
    """Return what a record says, as far as it can be read; verification reports what is wrong.

    That its bytes are canonical is not asked here: nothing is believed of what only orders.
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
"""Of its words that are the question's; in sentences it is less."""

_LEAST_PLAIN = 0.22
"""Share of common words, such as "the" and "of", that sentences have at least."""

_LEAST_REPEATED = 4
_LONGEST = 1 << 12


def is_stuffed(text: str, terms: Sequence[Term]) -> bool:
    """Tell whether a text repeats the words of a question far beyond what sentences do.

    Args:
        text: The text.
        terms: Of the question.
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
