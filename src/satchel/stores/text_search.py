"""Words of texts, and word search without an index, with the scores of SQLite's full-text index.

For stores without an index of their own, and to explain results. Also which terms of a query a
search needs.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from math import log
from operator import add
from typing import Any, NamedTuple, cast
from unicodedata import category, combining, normalize

from satchel.errors import UsageError
from satchel.model.values import is_id
from satchel.ports.rows import PENDING, Row

# ruff: noqa: RUF001 - Cyrillic it is

_WORDS = (
    # English, with the parts of contractions.
    "a about after all also am an and any are as at be because been before being both but by can "
    "could did do does doing during each few for from further had has have having he her here hers "
    "herself him himself his how i if in into is it its itself just ll me more most my myself no "
    "nor not of off on once only or other our ours ourselves out over own re s same she should so "
    "some such t than that the their theirs them themselves then there these they this those "
    "through to too under until up ve very was we were what when where which while who whom why "
    "will with would you your yours yourself yourselves "
    # French
    "au aux avec ce ces cette dans de des du elle en est et il ils je la le les leur lui ne nous "
    "ou par pas pour qu que qui sa ses sur tu un une vous "
    # Spanish, Portuguese, Italian
    "al como con da dei del della di e el ele em esta gli lo los las mas na nao nel no o os para "
    "per por se su uma una uno y "
    # German, Dutch
    "aber aus bei das dass dem der ein eine einem einen einer es het ich ik ist mit nach nicht "
    "niet oder sich sie sind uber und van von voor wie wir zu zum zur "
    # Russian
    "а в во вы да для до ее же за и из или их к как ко мы на не но о об он она "
    "они от по с со та то ты у что это я"
)
STOP_WORDS = frozenset(_WORDS.split())
"""Whole words, folded."""

_DENIED = (
    "ain aren can couldn didn doesn don hadn hasn haven isn mustn shan shouldn wasn weren won "
    "wouldn"
)
DENIED = frozenset(_DENIED.split())
"""Verbs before the apostrophe and the t of don't; elsewhere they are ordinary words."""


MOST_TERMS = 64
"""The maximum of terms of a query; later ones are ignored."""

LONGEST_QUERY = 1 << 16
"""The maximum of characters of a query; later ones are ignored."""

LONGEST_PHRASE = 32
"""The maximum of tokens of a phrase; later ones are ignored."""

LONGEST_WORD = 128
"""The maximum of characters of a word, in the index and in a query; later ones are ignored."""

# Word boundaries in a long run are unknown, so "any word" also means any of its pairs there.
# Korean: two syllables are the usual noun, the third may already be a particle.
_ONE_WORD = {"unspaced": 4, "southeast": 4, "hangul": 2}

_HANGUL = "\u1100-\u11ff\ua960-\ua97f\uac00-\ud7fb"
_UNSPACED = (  # the most frequent first: they are compared in order
    "\u4e00-\u9fff\u3041-\u3096\u30a1-\u30fa\u30fc-\u30ff"
    "\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\uf900-\ufaff"
    "\U00020000-\U0003fffd"  # Han
    "\u309d-\u309f\u31f0-\u31ff\U0001aff0-\U0001b16f"  # Kana
    "\u3105-\u312f\u31a0-\u31bf"  # Bopomofo
)
_SOUTHEAST = (
    "\u0e01-\u0e3a\u0e40-\u0e4e"  # Thai
    "\u0e81-\u0ece\u0edc-\u0edf"  # Lao
    "\u1000-\u103f\u1050-\u108f\u109a-\u109d\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a-\uaa7f"
    "\u1780-\u17d3\u17d7\u17dc\u17dd"  # Burmese above, Khmer here
)
# The last two planes of Unicode are private: they stand in for the first two.
_TWO_PLANES = 0x20000
_ALIAS_OFFSET = 0xF0000
_ALIAS = "\U000f0000-\U0010fffd"
_FIRST_ALIAS = _ALIAS[0]
_SPACE_OF_NO_WIDTH = "\u200b"

_SPACED = rf"[^\W_{_HANGUL}{_UNSPACED}{_SOUTHEAST}]"
_PIECE = (
    # Most words are plain: one lookahead after the word, not one for each letter.
    f"(?P<plain>[a-z0-9]+(?!{_SPACED}|[{_ALIAS}]))"
    f"|(?P<word>{_SPACED}+(?:[{_ALIAS}]+{_SPACED}*)*|(?:[{_ALIAS}]+{_SPACED}*)+)"
    f"|(?P<hangul>[{_HANGUL}][{_HANGUL}{_ALIAS}]*)"
    f"|(?P<unspaced>[{_UNSPACED}][{_UNSPACED}{_ALIAS}]*)"
    # Khmer and Thai editors put spaces of no width between words, some do not: they do not count.
    f"|(?P<southeast>[{_SOUTHEAST}][{_SOUTHEAST}{_ALIAS}{_SPACE_OF_NO_WIDTH}]*)"
)
# After the signs that stack (Khmer coeng, Burmese virama) the next consonant belongs to the same
# cluster. No real text needs more than 16; hostile text gets no longer terms.
_STACK = "\U000f17d2\U000f1039"
_CLUSTER = re.compile(rf"([^{_ALIAS}](?:[{_STACK}][^{_ALIAS}]|[{_ALIAS}]){{0,15}})[{_ALIAS}]*")
# Plain characters in index and query: lower-case letters and digits, and spaces.
_ASCII = bytes(ord(chr(code).lower()) if chr(code).isalnum() else 0x20 for code in range(128))
_ASCII += bytes(128)
_WORD = re.compile("[a-z0-9]+")

# What joins the parts of one name: user@example.com, snake_case, v2.1.0, don't. In Tibetan, the
# tsheg, which stands between the syllables of a word.
_JOINS = "-._@/:'\u2019+#&=~\\%\u0f0b"

_EMOJI = re.compile(
    "[\u231a\u231b\u23e9-\u23f3\u2600-\u27bf\u2b50\u2b55\U0001f1e6-\U0001f1ff\U0001f300-\U0001faff]"
)
_SKIN_TONES = range(0x1F3FB, 0x1F400)

# Letters since Unicode 8 that the tokenizer's tables still call marks: New Tai Lue, Vedic.
_LATE_LETTERS = frozenset((*range(0x19B0, 0x19C1), 0x19C8, 0x19C9, 0x1CF2, 0x1CF3))

# The combining classes of marks that make another word: vowel signs, viramas, nuktas, tones.
_VOWEL_SIGNS = frozenset((0, *range(6, 10), *range(84, 133)))

# Marks that choose a glyph: the grapheme joiner, Mongolian, emoji, and variants of Han in names.
_SELECTORS = frozenset(
    (0x34F, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
)


class _Piece(NamedTuple):
    """A word, or a run of an unspaced script; ``end`` is the lone last character of a run."""

    tokens: list[str]
    end: str | None
    one_word: bool
    start: int
    stop: int


class _Folding(dict[int, str]):
    """The folded form of each character, computed once and cached."""

    def __missing__(self, code: int) -> str:
        """Return the folded form of one character of an NFKC text."""
        folded = _folded(chr(code))
        if code < _TWO_PLANES:  # the rest is rare Han: hostile text cannot fill the memory
            self[code] = folded
        return folded


_FOLDING = _Folding()


class _Unaliasing(dict[int, int]):
    """Maps private-use characters back to the original ones."""

    def __missing__(self, code: int) -> int:
        """Return the code point that a character of the index stands for."""
        return code - _ALIAS_OFFSET if code >= _ALIAS_OFFSET else code


_PLAIN = _Unaliasing()


def index_text(text: str) -> str:
    """Return the terms of ``text`` in their order, a space between them, for an FTS5 column.

    Guarantees: the same text has the same terms, terms have only letters, digits and private-use
    characters, and the output has at most three characters for each one of the folded text (see the
    module). Time is linear. Lone surrogates and NUL separate words, so the output is always valid
    UTF-8.
    """
    if text.isascii():
        return _ascii_terms(text)
    terms: list[str] = []
    plain: list[str] = []
    for stretch in text.split():  # only other letters need more than lower case
        if stretch.isascii():
            plain.append(stretch)
            continue
        if plain:
            terms.append(_ascii_terms(" ".join(plain)))
            plain.clear()
        _add_terms(_fold(stretch), terms)
    if plain:
        terms.append(_ascii_terms(" ".join(plain)))
    return " ".join(filter(None, terms))


def _ascii_terms(text: str) -> str:
    plain = text.encode().translate(_ASCII)
    words = plain.split()
    if _has_long_word(plain):
        words = [word[:LONGEST_WORD] for word in words]
    return b" ".join(words).decode()


def _has_long_word(plain: bytes) -> bool:
    """Return whether some word between spaces has more than ``LONGEST_WORD`` letters."""
    at = 0
    while len(plain) - at > LONGEST_WORD:
        space = plain.rfind(b" ", at, at + LONGEST_WORD + 1)
        if space < 0:
            return True
        at = space + 1
    return False


def _add_terms(folded: str, terms: list[str]) -> None:
    for match in _piece().finditer(folded):
        if match.lastgroup in _ONE_WORD:
            clusters = _clusters(match[0])
            terms += map(add, clusters, clusters[1:])
            terms.append(clusters[-1])
        else:
            terms.append(match[0][:LONGEST_WORD])


def query(text: str, *, any_word: bool = True) -> str | None:
    """Return an FTS5 MATCH expression for what a user typed; None for nothing.

    The input is never syntax: every term is quoted and has only characters that ``index_text``
    returns. Text without spaces is a phrase: ``user@example.com`` matches these three words in this
    order, 金曜日 these characters in this order. One character of an unspaced script matches every
    text that has it.

    With ``any_word`` any of the terms matches a text; see ``query_terms``. Without, a text must
    have everything between spaces.
    """
    if any_word:
        return " OR ".join(query_terms(text)) or None
    phrases = islice(map(_phrase, _chunks(text)), MOST_TERMS)
    return " AND ".join(dict.fromkeys(phrases)) or None


def query_terms(text: str) -> list[str]:
    """Return the terms of a query, each an FTS5 expression, in text order.

    The parts of a phrase count too (``example``; the pairs of a run that is too long for a word),
    so that a question finds its answer; ranking puts the phrase first. Stop words are ignored,
    unless there is nothing else.

    Bounded: the first ``LONGEST_QUERY`` characters, the first ``MOST_TERMS`` distinct terms, and of
    each phrase the first ``LONGEST_PHRASE`` tokens, so long input finds more, never an error.
    """
    terms: dict[str, None] = {}
    stopping: dict[str, None] = {}
    for chunk in _chunks(text[:LONGEST_QUERY]):
        telling = [] if _denies(chunk) else [piece for piece in chunk if not _stops(piece)]
        into = terms if telling else stopping
        into[_phrase(chunk)] = None
        into.update(dict.fromkeys(_parts(telling or chunk)))
        if len(terms) >= MOST_TERMS:
            break
    return list(terms or stopping)[:MOST_TERMS]


def readable(term: str) -> str:
    """Return a term of ``query_terms`` for a user: folded, without signs."""
    runs = term.replace('"', "").removesuffix(" *").split(" ")
    plain = [run.translate(_PLAIN) for run in runs]
    if len(plain) > 1 and all(
        re.match(f"[{_UNSPACED}{_SOUTHEAST}{_HANGUL}]", run) for run in plain
    ):
        # Overlapping pairs: each adds its last cluster.
        clusters = [_CLUSTER.findall(run)[-1] for run in runs[1:]]
        return plain[0] + "".join(clusters).translate(_PLAIN)
    return " ".join(plain)


def _stops(piece: _Piece) -> bool:
    """Return whether a piece is a stop word."""
    return piece.end is None and piece.tokens[0] in STOP_WORDS


def _denies(chunk: list[_Piece]) -> bool:
    """Return whether a chunk is a negated verb, such as don't."""
    verb = DENIED.intersection(chunk[0].tokens)
    return bool(verb) and [piece.tokens for piece in chunk[1:]] == [["t"]]


def needle(text: str) -> str | None:
    """Return a substring of the terms of every text that mentions this text; None for nothing.

    Search it in ``index_text`` of the other text with a space before and after it. It matches where
    the same words, or characters of an unspaced script, follow each other.
    """
    pieces = list(_pieces(_fold(text)))
    if not pieces:
        return None
    terms = [term for piece in pieces for term in (*piece.tokens, piece.end) if term is not None]
    last = pieces[-1]
    if last.end is None:
        return f" {' '.join(terms)} "
    # The last run may continue in the other text, so its end here does not count.
    return f" {' '.join(terms[:-1])} " if last.tokens else f" {' '.join(terms)}"


def _chunks(text: str) -> Iterator[list[_Piece]]:
    """Yield the pieces of each chunk: of text that only joining characters divide."""
    folded = _fold(text)
    chunk: list[_Piece] = []
    for piece in _pieces(folded):
        if chunk and folded[chunk[-1].stop : piece.start].strip(_JOINS):
            yield chunk
            chunk = []
        chunk.append(piece)
    if chunk:
        yield chunk


def _phrase(chunk: list[_Piece]) -> str:
    """Return the phrase that matches wherever the chunk is part of a text.

    The end of the last run is omitted: in a text, that run may continue. If the run is a single
    character, any pair that it begins matches, hence the prefix.
    """
    tokens: list[str] = []
    last = chunk[-1]
    for piece in chunk:
        tokens.extend(piece.tokens)
        if piece.end is not None and (piece is not last or not piece.tokens):
            tokens.append(piece.end)
        if len(tokens) > LONGEST_PHRASE:
            return _quoted(tokens[:LONGEST_PHRASE])
    return _quoted(tokens) + ("" if last.tokens else " *")


def _parts(chunk: list[_Piece]) -> Iterator[str]:
    """Yield the parts of a chunk that are worth finding alone.

    A single character of an unspaced script is not, if there is more: it is in every text.
    """
    for piece in chunk:
        if piece.tokens:
            yield _phrase([piece])
            if not piece.one_word:
                yield from (_quoted([token]) for token in piece.tokens)


def _quoted(tokens: list[str]) -> str:
    return f'"{" ".join(tokens)}"'


def _pieces(folded: str) -> Iterator[_Piece]:
    """Yield the words and runs of a folded text, in order."""
    if folded.isascii():
        for match in _WORD.finditer(folded):
            yield _Piece([match[0][:LONGEST_WORD]], None, True, *match.span())  # noqa: FBT003
        return
    for match in _piece().finditer(folded):
        kind, run, (start, stop) = match.lastgroup, match[0], match.span()
        longest = _ONE_WORD.get(kind or "")
        if longest is None:
            yield _Piece([run[:LONGEST_WORD]], None, one_word=True, start=start, stop=stop)
            continue
        clusters = _clusters(run)
        pairs = list(map(add, clusters, clusters[1:]))
        yield _Piece(pairs, clusters[-1], len(clusters) <= longest, start, stop)


def _clusters(run: str) -> Sequence[str]:
    """Return the clusters of a run."""
    run = run.replace(_SPACE_OF_NO_WIDTH, "")
    found: list[str] = _CLUSTER.findall(run) if max(run) >= _FIRST_ALIAS else list(run)
    return found


@cache
def _piece() -> re.Pattern[str]:
    # Compiling it takes as long as a recall, and English does not need it.
    return re.compile(_PIECE)


def _fold(text: str) -> str:
    """Return the text without differences that do not count in a search."""
    return text.lower() if text.isascii() else normalize("NFKC", text).translate(_FOLDING)


def _folded(character: str) -> str:
    """Return the folded form of one character of an NFKC text."""
    if _EMOJI.match(character):
        # A word of its own, whatever it touches; skin tones would hide the hand that has them.
        return "" if ord(character) in _SKIN_TONES else f" {_alias(character)} "
    if character.isascii() or character == _SPACE_OF_NO_WIDTH or character in _JOINS:
        return character.lower()
    kind = category(character)
    if kind == "Cf":
        return ""  # soft hyphens, joiners, directions: invisible, and not typed
    if kind in {"Cc", "Cs", "Co"} or kind[0] in "PSZ":
        # Co: private-use characters of a text are dropped, since they are the aliases.
        return " "
    # Case first: folding can leave marks behind (Turkish İ).
    bare = "".join(filter(_tells, normalize("NFKD", character.casefold())))
    return "".join(map(_alias, normalize("NFC", bare)))


def _tells(character: str) -> bool:
    """Return whether a character is more than an accent.

    Vowel signs, viramas, nuktas, kana voicing and tones make other words. Accents, Hebrew and
    Arabic points, enclosing marks and variation selectors are omitted in many queries. The
    canonical combining class tells them apart: 10 to 36 are the points, 200 and up the accents.
    """
    if not category(character).startswith("M"):
        return True
    if category(character) == "Me" or ord(character) in _SELECTORS:
        return False
    return combining(character) in _VOWEL_SIGNS


def _alias(character: str) -> str:
    """Return a private-use character for one that the tokenizer would drop."""
    code = ord(character)
    if code < _TWO_PLANES and (
        category(character).startswith("M") or code in _LATE_LETTERS or _EMOJI.match(character)
    ):
        return chr(code + _ALIAS_OFFSET)
    return character


FEW = 1000
"""A term in more rows is common."""

HANDFUL = 20
"""Up to so many rows, common words do not count for the order."""

RANKED = 4000
"""The maximum of rows to rank that rare terms nominate: the newest."""

COMMON = 1000
"""The maximum of rows to rank that common terms nominate: the newest."""

_HELPING = 2


class Spread(NamedTuple):
    """How a term is spread over the searched rows of a bank."""

    term: str
    rows: int
    """The number of rows with it, counted up to one more than ``FEW``."""

    reach: int
    """The log position of the oldest counted row; the newest are counted first."""


class Search(NamedTuple):
    """A search for terms."""

    needed: tuple[str, ...]
    all_needed: bool
    """Whether a row must have all of them, or any."""

    helping: tuple[str, ...]
    """Terms that count for ranking only."""

    newest: int
    """The maximum of rows to rank: the newest."""

    @property
    def phrases(self) -> tuple[str, ...]:
        """The terms that count for ranking: needed ones twice if others help."""
        return (*self.needed, *self.needed, *self.helping) if self.helping else self.needed

    @property
    def expression(self) -> str:
        """The search in FTS5's language."""
        needed = (" AND " if self.all_needed else " OR ").join(self.needed)
        if not self.helping:
            return needed
        return f"({needed}) AND ({' OR '.join((*self.needed, *self.helping))})"


def searches(spreads: Sequence[Spread], few: int) -> Iterator[Search]:
    """Yield searches; run them until enough is found.

    Args:
        spreads: The spread of each term of a query.
        few: As ``FEW``.
    """
    there = [spread for spread in spreads if spread.rows]
    rare = [spread for spread in there if spread.rows <= few]
    by_reach = sorted((s for s in there if s.rows > few), key=lambda spread: spread.reach)
    common = tuple(spread.term for spread in by_reach)[:_HELPING]
    if rare:
        by_rows = sorted(rare, key=lambda spread: spread.rows)
        chosen = _rarest(by_rows, few)
        needed = tuple(spread.term for spread in rare if spread.term in chosen)
        others = [spread.term for spread in by_rows if spread.term not in needed]
        # The order of a handful of rows is not worth counting the rows of common terms.
        handful = sum(spread.rows for spread in rare) <= HANDFUL
        helping = () if handful else (*others, *common)[:_HELPING]
        yield Search(needed, all_needed=False, helping=helping, newest=RANKED)
    elif common:
        rarest, *others = common
        if others:
            yield Search(common, all_needed=True, helping=(), newest=COMMON)
        yield Search((rarest,), all_needed=False, helping=tuple(others), newest=COMMON)


def _rarest(by_rows: Sequence[Spread], few: int) -> set[str]:
    """Return the rarest terms, until they have ``few`` rows in total."""
    chosen, rows = set[str](), 0
    for spread in by_rows:
        if rows < few:
            chosen.add(spread.term)
        rows += spread.rows
    return chosen


_K1, _B = 1.2, 0.75
_LEAST_IDF = 1e-6
SCORE_DIGITS = 9
"""Decimals of a score: rounding makes equal scores equal in any order of addition."""
_TOKENIZER = ("porter", ["unicode61", "remove_diacritics", "2"])

Tokens = Sequence[str]
"""The words of a text as in an index: folded and stemmed."""


class Term(NamedTuple):
    """A term of a query."""

    expression: str
    """The term as an FTS5 expression."""

    tokens: tuple[str, ...]
    """Adjacent tokens."""

    prefix: bool
    """Whether the last token is a prefix."""

    @property
    def words(self) -> str:
        """The term for a user."""
        return readable(self.expression)

    def times(self, tokens: Tokens) -> int:
        """Return how often a text contains the term."""
        *first, last = self.tokens
        if not self.prefix and (not first or last not in tokens):
            return 0 if first else tokens.count(last)  # most terms; all steps in C
        if not first:
            return sum(self._ends(token) for token in tokens)
        return sum(
            self._ends(token) and [*tokens[end - len(first) : end]] == first
            for end, token in enumerate(tokens)
            if end >= len(first)
        )

    def _ends(self, token: str) -> bool:
        last = self.tokens[-1]
        return token.startswith(last) if self.prefix else token == last


class CorpusTotals(NamedTuple):
    """The totals of a corpus, for ranking."""

    texts: int
    tokens: float
    """Total number of tokens; may be fractional."""


@cache
def _stemmer() -> Callable[[str], list[str]]:
    import apsw

    # Typed as its result for a text without offsets and colocated tokens.
    tokenize: Any = apsw.Connection(":memory:").fts5_tokenizer(*_TOKENIZER)
    reason = apsw.FTS5_TOKENIZE_DOCUMENT

    def stems(terms: str) -> list[str]:
        found = tokenize(terms.encode(), reason, None, include_offsets=False)
        return [token for (token,) in cast("list[tuple[str]]", found)]

    return stems


def stems(terms: str) -> list[str]:
    """Return the words in the index for terms of ``index_text``."""
    return _stemmer()(terms)


def tokens_of(text: str) -> list[str]:
    """Return the words of a text as in an index."""
    return _stemmer()(index_text(text))


def terms_of(text: str) -> list[Term]:
    """Return the terms of a query, without stop words."""
    return list(map(term_of, query_terms(text)))


def term_of(expression: str) -> Term:
    """Parse a term of ``query_terms``."""
    phrase = expression.removesuffix(" *")
    return Term(expression, tuple(_stemmer()(phrase.strip('"'))), phrase is not expression)


def scores(
    search: Search,
    texts: Mapping[int, Tokens],
    everything: Collection[Tokens],
    totals: CorpusTotals,
    newest: int,
) -> dict[int, float]:
    """Return the score of each text that matches a search.

    Args:
        search: The search.
        texts: The texts, by log position.
        everything: The corpus: each term is counted in all of its texts.
        totals: Of ``everything``.
        newest: The maximum of texts to rank: those with the highest positions.
    """
    every = {name: term_of(name) for name in search.phrases}
    having = {
        name: sum(bool(term.times(text)) for text in everything) for name, term in every.items()
    }
    rarities = {name: rarity(count, totals) for name, count in having.items()}
    needs = [every[name] for name in search.needed]
    matching = {
        position: tokens
        for position, tokens in texts.items()
        if (all if search.all_needed else any)(term.times(tokens) for term in needs)
    }
    newest_matching = {
        position: matching[position] for position in sorted(matching, reverse=True)[:newest]
    }
    return ranked(search, newest_matching, rarities, totals)


def ranked(
    search: Search, texts: Mapping[int, Tokens], rarities: Mapping[str, float], totals: CorpusTotals
) -> dict[int, float]:
    """Return the score of each matching text.

    Args:
        search: The search.
        texts: The matching texts, by log position.
        rarities: The ``rarity`` of each term.
        totals: The totals of the corpus of the rarities.
    """
    terms = [term_of(name) for name in search.phrases]
    rare = [rarities[name] for name in search.phrases]
    scored = dict[int, float]()
    for position, tokens in texts.items():
        times = {at: term.times(tokens) for at, term in enumerate(terms)}
        scored[position] = round(bm25(times, rare, len(tokens), totals), SCORE_DIGITS)
    return scored


def rarity(having: int, totals: CorpusTotals) -> float:
    """Return the weight of a term that so many texts have."""
    idf = log((totals.texts - having + 0.5) / (having + 0.5))
    return idf if idf > 0 else _LEAST_IDF


def bm25(
    times: Mapping[int, Any], rarities: Sequence[float], length: Any, totals: CorpusTotals
) -> Any:
    """Return the score of a text; of many, if arrays are passed instead of numbers.

    Args:
        times: How often it has each term, by the term's number; may be fractional.
        rarities: The ``rarity`` of each term.
        length: Its number of words.
        totals: The totals of the corpus.
    """
    mean = max(totals.tokens, 1) / totals.texts
    norm, score = _K1 * (1 - _B + _B * length / mean), 0.0
    for at in sorted(times):
        often = times[at]
        score += rarities[at] * (often * (_K1 + 1) / (often + norm))
    return score


def relevance(terms: Sequence[Term], texts: Mapping[int, Tokens], size: int) -> dict[int, float]:
    """Return the relevance of texts to a query; texts without any of its terms are omitted.

    Args:
        terms: The terms of the query.
        texts: By log position: all texts with a term, from which its rarity is computed.
        size: The number of texts, including those without any term.
    """
    count = max(size, len(texts))
    tokens = sum(map(len, texts.values())) * count // max(len(texts), 1)
    names = tuple(term.expression for term in terms)
    search = Search(names, all_needed=False, helping=(), newest=count)
    return scores(search, texts, texts.values(), CorpusTotals(count, tokens), count)


def is_searched(row: Row) -> bool:
    """Return whether a row's words are indexed."""
    return row.retired is None or row.retired == PENDING


def thread_of(row: Row) -> tuple[str, str] | None:
    """Return the thread of a row: its session, or else its run."""
    if row.session is not None:
        return "session", row.session
    return None if row.run is None else ("run", row.run)


class Mentions:
    """Searches texts for the names of a person or thing.

    Args:
        names: Names as they occur in texts: a name, a user ID, a mail address.

    Raises:
        UsageError: If there is none, or one has no searchable characters.
    """

    def __init__(self, names: Sequence[str]) -> None:
        needles = [needle(name) for name in names]
        wrong = [name for name, words in zip(names, needles, strict=True) if words is None]
        if wrong or not needles:
            message = f"nothing to search for in {wrong[0]!r}" if wrong else "no name to search for"
            raise UsageError(message, field="about", hint="Give a person, an ID or an address.")
        self._needles = [words for words in needles if words is not None]

    def are_in(self, text: str) -> bool:
        """Return whether a text mentions one of the names, as separate words."""
        terms = f" {index_text(text)} "
        return any(needle in terms for needle in self._needles)

    def places_in(self, value: Any) -> list[str]:
        """Return the JSON pointers where a value mentions one of the names, in keys or values.

        Numbers are read as digits, since IDs are often numbers. IDs of records are ignored.
        """
        return [path for path, text in _texts(value) if not is_id(text) and self.are_in(text)]


def _texts(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts in a JSON value, keys included, each with its pointer."""
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        path, part = waiting.pop()
        if isinstance(part, dict):
            yield from ((f"{path}/{_escaped(key)}", key) for key in part)
            inner = [(f"{path}/{_escaped(key)}", each) for key, each in part.items()]
            waiting += reversed(inner)
        elif isinstance(part, list):
            waiting += reversed([(f"{path}/{at}", each) for at, each in enumerate(part)])
        elif isinstance(part, str):
            yield path, part
        elif isinstance(part, int | float) and not isinstance(part, bool):
            yield path, str(part)


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
