"""The terms that a store indexes and searches, and their cost, with SQLite's full-text index."""

import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random
from unicodedata import category, normalize

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from satchel.stores.text_search import (
    DENIED,
    LONGEST_PHRASE,
    LONGEST_WORD,
    MOST_TERMS,
    STOP_WORDS,
    index_text,
    query,
    query_terms,
    readable,
)

# ruff: noqa: RUF001 - these tests are about letters that look alike


TABLE = (
    "CREATE VIRTUAL TABLE words USING fts5(text, detail=full, content='', contentless_delete=1, "
    "tokenize='porter unicode61 remove_diacritics 2')"
)

Found = Callable[..., bool]

# What people write, and what breaks things: marks, joiners, syntax, surrogates.
TEXTS = st.text() | st.text(
    st.sampled_from(
        "aZé ß'_-\"*^:()+@.\0\u200b\u200d\u0301\ud800日曜茶メーｶﾞ　กาแฟี่ຂໍខ្មែរမြန်한국어हैलोمُ🎂👍🏽1²ﷺ"
    )
)
# Sentences, with a bar between the characters: what must not be cut stands together.
WRITTEN_TOGETHER = {
    "Chinese": "我|每|天|喝|咖|啡|和|茶",
    "Japanese": "次|の|金|曜|日|に|メ|モ|帳|で|コ|ー|ヒ|ー",
    "Thai": "ดื่|ม|ก|า|แ|ฟ|ทุ|ก|วั|น|ที่|นี่|น้ำ",
    "Lao": "ຂ້|ອ|ຍ|ດື່|ມ|ກ|າ|ເ|ຟ",
    "Khmer": "ខ្ញុំ|រៀ|ន|ភា|សា|ខ្មែ|រ",
    "Burmese": "မြ|န်|မာ|စ|ကား|ပြော|ပါ|သ|ည်",
    "Korean": "회|의|는|커|피|숍|에|서|한|국|어",
}


@pytest.fixture(scope="session")
def index() -> Iterator[apsw.Connection]:
    """A database with an empty full-text table."""
    connection = apsw.Connection(":memory:")
    connection.execute(TABLE)
    yield connection
    connection.close()


@pytest.fixture(scope="session")
def matches(index: apsw.Connection) -> Found:
    """Return a function that reports whether a query finds a text."""

    def search(typed: str, text: str, *, any_word: bool = True) -> bool:
        expression = query(typed, any_word=any_word)
        if expression is None:
            return False
        index.execute("DELETE FROM words")
        index.execute("INSERT INTO words(rowid, text) VALUES (1, ?)", (index_text(text),))
        rows = index.execute("SELECT rowid FROM words WHERE words MATCH ?", (expression,))
        return rows.fetchall() == [(1,)]

    return search


@pytest.mark.parametrize("any_word", [True, False])
@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("メモ", "昨日のメモ帳を開いてください"),
        ("金曜日", "次の金曜日に会議があります"),
        ("コーヒー", "毎朝コーヒーを飲む"),
        ("咖啡", "我每天早上喝咖啡。"),
        ("银行", "他在中国银行工作"),
        ("𠮷野", "昨日は𠮷野家で食べた"),
        ("กาแฟ", "ผมดื่มกาแฟทุกวัน"),
        ("น้ำ", "ขอน้ำเย็นด้วย"),
        ("ກາເຟ", "ຂ້ອຍດື່ມກາເຟທຸກມື້"),
        ("ភាសាខ្មែរ", "ខ្ញុំរៀនភាសាខ្មែរនៅផ្ទះ"),
        ("စကား", "သူမြန်မာစကားပြောသည်"),
        ("회의", "금요일에 회의는 세 시입니다"),
        ("커피", "아침마다 커피를 마신다"),
        ("བོད", "བོད་ཡིག"),
    ],
)
def test_a_word_is_found_inside_a_sentence_without_spaces(
    matches: Found, typed: str, text: str, *, any_word: bool
) -> None:
    """For all scripts without spaces, and Korean: a word need not stand alone."""
    assert matches(typed, text, any_word=any_word)


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("曜金", "次の金曜日に"),
        ("金日", "次の金曜日に"),
        ("曜日本", "金曜、日本"),  # nothing runs on over a comma
        ("啡咖", "喝咖啡"),
        ("京都府", "東京都と府中"),
        ("แฟกา", "ดื่มกาแฟ"),
        ("นที", "กินที่"),  # a tone makes another word
        ("ខរ", "ភាសាខ្មែរ"),  # the consonant below belongs to the one above
    ],
)
def test_characters_in_another_order_do_not_match(matches: Found, typed: str, text: str) -> None:
    """曜金 is not in 金曜日."""
    assert not matches(typed, text)


@pytest.mark.parametrize(
    "text", ["茶が好き", "緑茶", "緑茶を飲む", "お茶、お願い", "茶", "緑茶3杯"]
)
def test_one_character_is_found_at_any_position(matches: Found, text: str) -> None:
    """At the start, in the middle, at the end of a run, and alone."""
    assert matches("茶", text)
    assert not matches("紅", text)


@pytest.mark.parametrize("script", WRITTEN_TOGETHER)
@given(data=st.data())
def test_every_substring_of_a_sentence_finds_the_sentence(
    matches: Found, script: str, data: st.DataObject
) -> None:
    """For all substrings of whole characters: the phrase matches inside the run."""
    characters = WRITTEN_TOGETHER[script].split("|")
    sentence = "".join(characters)
    start = data.draw(st.integers(0, len(characters) - 1))
    stop = data.draw(st.integers(start + 1, len(characters)))
    assert matches("".join(characters[start:stop]), f"abc{sentence}3月", any_word=False)


def test_a_question_finds_the_closest_answer_first(index: apsw.Connection) -> None:
    """A run that is too long for a word is found by its pairs; adjacent words rank first."""
    texts = ["土曜日は休み", "会議は金曜日の10時から", "金曜日の会議は何時?と聞かれた", "猫"]
    index.execute("DELETE FROM words")
    for row, text in enumerate(texts):
        index.execute("INSERT INTO words(rowid, text) VALUES (?, ?)", (row, index_text(text)))
    rows = index.execute(
        "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank", (query("金曜日の会議は何時"),)
    )
    assert [row for (row,) in rows] == [2, 1, 0]
    assert (
        query("金曜日の会議は何時", any_word=False) == '"金曜 曜日 日の の会 会議 議は は何 何時"'
    )


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("run", "she runs daily"),
        ("running", "she runs daily"),
        ("RUNS", "gone Running"),
        ("preference", "his preferences"),
        ("cafe", "at the café"),
        ("CAFÉ", "at the cafe\u0301"),
        ("cafe\u0301", "at the café"),
        ("strasse", "Hauptstraße, Straße"),
        ("istanbul", "İstanbul"),
        ("еж", "Ёж"),
        ("abc", "ＡＢＣ"),
        ("ＡＢＣ", "abc"),
        ("カタカナ", "ｶﾀｶﾅで書く"),
        ("ｶﾞｷﾞ", "「ガギ」"),
        ("か\u3099っこう", "がっこうへ行く"),
        ("한국", normalize("NFD", "한국어")),
        ("१२", "कमरा १२"),
        ("हिन्दी", "मुझे हिन्दी पसंद है"),
        ("محمد", "قال مُحَمَّد"),
        ("שלום", "שָׁלוֹם"),
        ("خواهم", "می\u200cخواهم خواهم"),
        ("cooperate", "they co\u00adoperate"),
        ("ភាសាខ្មែរ", "រៀន\u200bភាសា\u200bខ្មែរ"),
        ("flying", "ﬂying"),
        ("葛城", "葛\U000e0100城市"),
        ("葛\U000e0100城", "葛城市"),
    ],
)
def test_forms_of_a_word_match_each_other(matches: Found, typed: str, text: str) -> None:
    """Width, composition, case, accents, points, invisible characters and English endings."""
    assert matches(typed, text)


@pytest.mark.parametrize(
    ("typed", "text"),
    [("ran", "she runs"), ("कम", "काम कीमत"), ("हल", "हैलो"), ("ปา", "ปี"), ("か", "がく")],
)
def test_different_words_do_not_match_each_other(matches: Found, typed: str, text: str) -> None:
    """Vowel signs and voicing make other words; Porter does not know irregular verbs."""
    assert not matches(typed, text)


@pytest.mark.parametrize("any_word", [True, False])
@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Python 3.12で動くメモ帳", ["python", "3.12", "メモ帳", "メモ", "動く", "12で動く", "帳"]),
        ("mail user@example.com now", ["user", "example", "example.com", "user@example.com"]),
        ("the snake_case name", ["snake", "case", "snake_case", "snake-case"]),
        ("C++ and C#", ["C++", "C", "c#"]),
        ("release v2.1.0-rc1", ["v2.1.0", "rc1", "v2", "2.1.0-rc1"[2:]]),
        (
            "see https://example.org/a/b?q=maps#top",
            ["example.org", "https://example.org/a/b?q=maps", "maps", "top"],
        ),
        ("🎂 party🎉 for 👩🏽‍💻 ☕️", ["🎂", "🎉", "party", "👩", "👩‍💻", "☕"]),
        ("don’t stop", ["don't", "don’t"]),
        ("iPhone15を買う", ["iPhone15", "買う", "iphone15を"]),
        ("10월 3일에 만나요", ["10월", "3일", "만나"]),
    ],
)
def test_the_parts_of_mixed_text_are_found(
    matches: Found, text: str, parts: list[str], *, any_word: bool
) -> None:
    """Names, versions, addresses, emoji, and words next to another script."""
    assert [part for part in [*parts, text] if not matches(part, text, any_word=any_word)] == []


def test_words_written_together_are_searched_as_a_phrase(matches: Found) -> None:
    """Without any_word a name matches as a whole; with it, one part is enough."""
    text = "the user wrote an example"
    assert not matches("user@example.com", text, any_word=False)
    assert matches("user@example.com", text)
    assert not matches("tea coffee", "a cup of tea", any_word=False)
    assert matches("tea coffee", "a cup of tea")
    assert matches("coffee tea", "tea, then coffee", any_word=False)


@pytest.mark.parametrize(
    "typed", ["", " \n", "\0", "\ud800", "...", '"*^()-:+', "\u0301\u200d", "、。"]
)
def test_a_query_without_terms_is_none(typed: str) -> None:
    """Not an expression that SQLite refuses."""
    assert query(typed) is None


@pytest.mark.parametrize(
    "typed",
    [
        'tea" OR coffee',
        "tea* NOT coffee",
        "NEAR(tea coffee, 5)",
        "text : tea",
        "-text: tea",
        "{text} : ^tea",
        "tea AND NOT (",
        "tea\0coffee",
        "tea\udfff",
        "'; DROP TABLE words; -- tea",
    ],
)
def test_query_syntax_is_plain_text(matches: Found, typed: str) -> None:
    """It neither raises nor acts: its words are searched."""
    assert matches(typed, "tea")
    assert not matches(typed, "teapot")
    assert matches(typed, typed, any_word=False)


@given(typed=TEXTS, any_word=st.booleans())
@example(typed="茶\0*", any_word=True)
def test_no_query_makes_sqlite_raise(index: apsw.Connection, *, typed: str, any_word: bool) -> None:
    """For all texts."""
    expression = query(typed, any_word=any_word)
    if expression is not None:
        index.execute(
            "SELECT rowid FROM words WHERE words MATCH ? LIMIT 1", (expression,)
        ).fetchall()


@given(TEXTS)
@example("ก\u200bข")
@example("か\u309aき")
@example("a" * (LONGEST_WORD + 1))
def test_a_text_is_found_whole_and_by_each_of_its_words(matches: Found, text: str) -> None:
    """For all texts, each word between spaces, with and without any_word."""
    for word in [text, *text.split()]:
        if query(word) is not None:
            assert matches(word, text)
            assert matches(word, text, any_word=False)


@given(TEXTS)
def test_the_unicode_normalization_form_makes_no_difference(text: str) -> None:
    """For all texts: NFC, NFD, NFKC and NFKD have the same terms."""
    terms = index_text(text)
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert index_text(normalize(form, text)) == terms


@given(TEXTS)
def test_the_terms_of_a_text_are_plain_words(index: apsw.Connection, text: str) -> None:
    """For all texts: the tokenizer keeps each term whole, so that phrases match."""
    terms = index_text(text)
    tokens = _tokens(index, terms)
    assert len(tokens) == len(terms.split(" ") if terms else [])


def test_every_letter_digit_and_mark_of_unicode_is_kept_whole(index: apsw.Connection) -> None:
    """Python and SQLite have their own tables; a difference would lose a word."""
    letters = filter(str.isalnum, map(chr, range(0x20000)))
    # Some Arabic forms are nothing but points over a space.
    characters = [one for one in letters if any(map(str.isalnum, normalize("NFKC", one)))]
    assert [one for one in characters if not index_text(one)] == []
    marks = [chr(code) for code in range(0x20000) if category(chr(code)).startswith("M")]
    terms = index_text(" ".join(f"a{one}b" for one in characters + marks))
    differ = zip(terms.split(), _tokens(index, terms), strict=True)
    assert [term for term, token in differ if len(term) != len(token)] == []


@given(TEXTS)
def test_the_output_is_at_most_a_few_times_the_input(text: str) -> None:
    """For all texts: three characters for each one, whatever it expands to (ﷺ: eighteen)."""
    unfolded = normalize("NFKD", normalize("NFKD", text).casefold())
    assert len(index_text(text)) <= 3 * max(len(unfolded), len(text))


def test_a_query_is_bounded(matches: Found) -> None:
    """A bound on terms and phrase length for any input; it still finds."""
    many = " ".join(f"word{number}" for number in range(1000))
    long = "".join(chr(0x4E00 + number) for number in range(1000))
    marks = "ก" + "ี" * 10_000
    for typed in (many, long, "a." * 10_000, "x" * 10_000, marks, f"{many} {long}"):
        for any_word in (True, False):
            expression = query(typed, any_word=any_word)
            assert expression is not None
            terms = expression.split(" OR " if any_word else " AND ")
            assert len(terms) <= MOST_TERMS
            assert len(set(terms)) == len(terms)
            assert max(len(term.split()) for term in terms) <= LONGEST_PHRASE
            assert (
                len(expression) <= MOST_TERMS * (LONGEST_WORD + 8) + LONGEST_PHRASE * LONGEST_WORD
            )
            assert matches(typed, typed, any_word=any_word)


def _tokens(index: apsw.Connection, terms: str) -> list[str]:
    """Return what SQLite's tokenizer makes of ``terms``, before stemming."""
    tokenizer = index.fts5_tokenizer("unicode61", ["remove_diacritics", "2"])
    matches = tokenizer(terms.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False)
    return [str(token[0]) for token in matches if not isinstance(token, str)]


def test_stop_words_are_in_folded_form() -> None:
    """Others would never match."""
    assert [word for word in STOP_WORDS | DENIED if index_text(word) != word] == []


@pytest.mark.parametrize(
    ("typed", "terms"),
    [
        ("What does Ada eat?", ["ada", "eat"]),
        ("to be or not", ["to", "be", "or", "not"]),
        ("don't like it", ["like"]),
        ("the", ["the"]),
        ("Don Quixote", ["don", "quixote"]),
        ("ada@example.com", ["ada example com", "ada", "example", "com"]),
        ("金曜日の会議", ["金曜日の会議", "金曜", "曜日", "日の", "の会", "会議"]),
        ("ที่นี่", ["ที่นี่"]),
        ("茶't", ["茶 t"]),
        ("🎂", ["🎂"]),
    ],
)
def test_stop_words_are_ignored_in_a_query_unless_there_is_nothing_else(
    typed: str, terms: list[str]
) -> None:
    """The searched terms can be shown to a person."""
    assert [readable(term) for term in query_terms(typed)] == terms


TABLE_WITH_OPTIONS = (
    "CREATE VIRTUAL TABLE words USING fts5(text, detail=full, content='', contentless_delete=1, "
    "tokenize='porter unicode61 remove_diacritics 2'{})"
)


@pytest.mark.in_check(5)
@pytest.mark.parametrize(
    "unit",
    ["茶", "ก", "ที่", "한", "a", "é", "🎂", "a.", "茶a", "ี", "茶\u200b", "ក្ក", "្ក", "ﷺ", "a\u0301"],
)
def test_the_work_grows_linearly_with_the_text(unit: str) -> None:
    """Counted, not timed: executed lines of Python, for any unit."""
    once, twice = (_count_lines(unit * size) for size in (2000, 4000))
    assert twice <= 2.1 * once
    assert len(index_text(unit * 4000)) <= 2.1 * len(index_text(unit * 2000)) + 8


def test_indexing_the_ends_of_runs_costs_less_than_every_character() -> None:
    """The reason in the module's docstring: sizes of optimized indexes, which are exact."""
    texts = _sentences(1500)
    pairs = ["".join(text).split("。") for text in texts]
    only_pairs = [" ".join(a + b for run in runs for a, b in pairwise(run)) for runs in pairs]
    singles = [" ".join(text.replace("。", "")) for text in texts]
    ours = _size([index_text(text) for text in texts])
    assert ours < 1.12 * _size(only_pairs)
    assert _size([f"{a} {b}" for a, b in zip(only_pairs, singles, strict=True)]) > 1.4 * ours
    assert _size([index_text(text) for text in texts], ", prefix='1'") > 1.4 * ours


def _count_lines(text: str) -> int:
    """Return how many lines of Python it takes to index and search ``text``."""
    count = 0

    def trace(_frame: object, event: str, _argument: object) -> object:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]  # a tracer's type refers to itself
    try:
        index_text(text)
        query(text)
    finally:
        sys.settrace(before)
    return count


def _sentences(count: int) -> list[str]:
    """Return texts whose characters and words have the frequencies of a language."""
    random = Random(7)  # noqa: S311 - the same texts in every run, no secret
    characters = [chr(0x4E00 + 6 * number) for number in range(3000)]
    common = [1 / (rank + 1) for rank in range(3000)]
    words = [
        "".join(random.choices(characters, common, k=random.choice((1, 1, 2, 2, 2, 2, 2, 3, 4))))
        for _ in range(10_000)
    ]
    used = [1 / (rank + 1) ** 0.9 for rank in range(10_000)]
    return [
        "".join([*random.choices(words, used, k=9), "。", *random.choices(words, used, k=6)])
        for _ in range(count)
    ]


def _size(texts: list[str], options: str = "") -> int:
    """Return the bytes of the full-text index of ``texts``."""
    connection = apsw.Connection(":memory:")
    connection.execute(TABLE_WITH_OPTIONS.format(options))
    with connection:
        connection.executemany("INSERT INTO words(text) VALUES (?)", ((text,) for text in texts))
    connection.execute("INSERT INTO words(words) VALUES ('optimize')")
    size: int = connection.execute("SELECT sum(length(block)) FROM words_data").get
    connection.close()
    return size
