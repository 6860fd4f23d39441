"""Prompt injection: finding instructions to a model, and shapes of prompts, in memories."""

import base64
import binascii
import codecs
import re

# ruff: noqa: RUF001 - this module lists lookalikes
import unicodedata
from collections.abc import Callable, Iterator

# ruff: noqa: RUF001 - both bars
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import unquote

from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.values import Component, TrustClass

Enforce = Literal["outside", "all", "shapes", "nothing"]


_FILE = Path(__file__).parent / "data" / "imperatives.txt"
_HEADING = re.compile(r"\[([a-z ]+)\]")
_DEFINED = re.compile(r"([a-z]+) = (.+)")
_USED = re.compile(r"<([a-z]+)>")

_WORDS = re.compile(r"~ (.+)")
_WORDS_ONLY = bytes(one if chr(one).isalnum() else ord(" ") for one in range(256))
_KEY = 4
"""Length of the word prefixes by which phrases are indexed."""

STEMS = (
    *("ignor", "disregard", "forget", "instruc", "prompt", "reveal", "restrict", "system"),
    *("assistant", "api", "password", "secret", "send", "call ", "delete", "append", "from now"),
    "you are",
)
"""Stems of which a decoded text must have one to be searched, since it may be noise."""


class Phrase(NamedTuple):
    """A pattern, and words of which every match has one."""

    says: str
    pattern: re.Pattern[str]
    words: tuple[str, ...]

    def is_in(self, seen: str) -> bool:
        """Return whether a folded text matches."""
        if self.words and not any(map(seen.__contains__, self.words)):
            return False
        return self.pattern.search(seen) is not None


def imperatives_in(seen: str) -> list[str]:
    """Return the kinds of instructions in a folded text."""
    candidates = list(range(len(phrases())))
    if seen.isascii():
        words = {word[:_KEY] for word in seen.encode().translate(_WORDS_ONLY).split()}
        begun = _numbers_by_prefix()
        candidates = sorted({number for key in words & begun.keys() for number in begun[key]})
    return list(
        dict.fromkeys(
            phrase.says for phrase in map(phrases().__getitem__, candidates) if phrase.is_in(seen)
        )
    )


def may_tell(seen: str) -> bool:
    """Return whether a text that may be noise could contain an instruction."""
    return any(map(seen.__contains__, STEMS))


@cache
def phrases() -> tuple[Phrase, ...]:
    """Return all phrases, in the order of their headings."""
    defined, headings = dict[str, str](), dict[str, list[Phrase]]()
    says, words = "", tuple[str, ...]()
    for row in _FILE.read_text("utf-8").splitlines():
        if not row or row.startswith("#"):
            continue
        if heading := _HEADING.fullmatch(row):
            says = heading[1]
            headings.setdefault(says, [])
        elif not headings and (definition := _DEFINED.fullmatch(row)):
            defined[definition[1]] = _filled(definition[2], defined)
        elif required := _WORDS.fullmatch(row):
            words = tuple(required[1].split("|"))
        else:
            headings[says].append(Phrase(says, re.compile(_filled(row, defined)), words))
            words = ()
    return tuple(phrase for group in headings.values() for phrase in group)


@cache
def _numbers_by_prefix() -> dict[bytes, list[int]]:
    """Return the numbers of phrases by the prefix of a word that they require.

    Phrases without words are for other scripts.
    """
    numbers = dict[bytes, list[int]]()
    for number, phrase in enumerate(phrases()):
        for word in phrase.words:
            if word.isascii():
                begins = word.encode().translate(_WORDS_ONLY).split()[0]
                numbers.setdefault(begins[:_KEY], []).append(number)
    return numbers


def _filled(text: str, defined: dict[str, str]) -> str:
    return _USED.sub(lambda match: defined.get(match[1], match[0]), text)


_LONGEST = 1 << 14
"""Maximum characters that are searched for encoded parts, from the start."""

_MOST = 16
"""Maximum encoded parts of each kind that are decoded."""

_PRINTABLE = 0.85
_LEAST = 8

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,4096}={0,2}")
_BASE32 = re.compile(r"\b[A-Z2-7]{24,4096}={0,6}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}[\s:]?){12,4096}")
_BINARY = re.compile(r"(?:[01]{8}\s*){4,}")
_MORSE = re.compile(r"(?:[.\-]{1,6}[ /]+){8,}[.\-]{1,6}")
_ASCII85 = re.compile(r"<~(.{8,}?)~>", re.DOTALL)
_BASE85 = re.compile(r"[0-9A-Za-z!#$%&()*+\-;<=>?@^_`{|}~]{40,4096}")
_ESCAPED = re.compile(r"(?:\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}){4,}")
_PERCENT = re.compile(r"%[0-9a-fA-F]{2}")
_SPACED = re.compile(r"\b(?:[^\W\d_] ){3,}[^\W\d_]\b")
_TAGGED = re.compile("[\U000e0020-\U000e007e]{4,}")

_LEAST_TOKEN = 16
_HEX_ONLY = bytes(ord("h") if chr(one) in "0123456789abcdefABCDEF" else 32 for one in range(256))
_MORSE_ONLY = bytes(ord("m") if chr(one) in ".-" else 120 for one in range(256))
_LETTERS_ONLY = bytes(
    one if one == ord(" ") else ord("l") if chr(one).isalpha() else 120 for one in range(256)
)
_ROTATED = tuple(codecs.encode(one, "rot13") for one in STEMS)
_BACKWARDS = tuple(one[::-1] for one in STEMS)

_LETTERS = (
    ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .--"
    " -..- -.-- --.."
)
_CODE = dict(zip(_LETTERS.split(" "), "abcdefghijklmnopqrstuvwxyz", strict=True))


def hidden_in(text: str) -> Iterator[str]:
    """Yield decoded parts of a text; ordinary text has none."""
    start = text[:_LONGEST]
    if start.isascii() and not _may_hide(start):
        return
    for pattern, decode in _WAYS:
        for number, match in enumerate(pattern.finditer(start)):
            if number == _MOST:
                break
            decoded = _decoded(decode, match.group())
            if decoded:
                yield decoded
    if len(_PERCENT.findall(start)) > 1:
        yield unquote(start)
    if _ESCAPED.search(start):
        yield _ESCAPED.sub(lambda escape: _unescaped(escape.group()), start)
    if _SPACED.search(start):
        yield _SPACED.sub(lambda escape: escape.group().replace(" ", ""), start)


def _may_hide(text: str) -> bool:
    """Return whether an ASCII text may contain an encoded part; much faster than the patterns.

    Each condition is true for every match of the pattern of that kind.
    """
    if max(map(len, text.split()), default=0) >= _LEAST_TOKEN:
        return True  # base 64, 32 and 85
    if text.count("%") > 1 or "<~" in text or "\\u" in text or "\\x" in text:
        return True
    raw = text.encode()
    return (
        b"h" * 24 in raw.translate(_HEX_ONLY, b" \t\n\r\v\f\x1c\x1d\x1e\x1f:")  # and binary
        or b"m" * 9 in raw.translate(_MORSE_ONLY, b" /")
        or b"l l l l" in raw.translate(_LETTERS_ONLY)
    )


def turned(seen: str) -> Iterator[str]:
    """Yield a folded text in ROT13, and reversed, if that may contain an instruction."""
    start = seen[:_LONGEST]
    if any(map(start.__contains__, _ROTATED)):
        yield codecs.encode(start, "rot13")
    if any(map(start.__contains__, _BACKWARDS)):
        yield start[::-1]


def _decoded(decode: Callable[[str], bytes | str], encoded: str) -> str:
    try:
        raw = decode(encoded)
    except (ValueError, binascii.Error, KeyError):
        return ""
    text = raw if isinstance(raw, str) else raw.decode("utf-8", "replace")
    printable = sum(
        character.isprintable() or character in "\n\t" for character in text
    ) - text.count("\ufffd")
    return text if len(text) >= _LEAST and printable / len(text) >= _PRINTABLE else ""


def _base64(encoded: str) -> bytes:
    plain = encoded.rstrip("=").replace("-", "+").replace("_", "/")
    plain = plain[: len(plain) // 4 * 4 + (len(plain) % 4 if len(plain) % 4 > 1 else 0)]
    return base64.b64decode(plain + "=" * (-len(plain) % 4))


def _base32(encoded: str) -> bytes:
    plain = encoded.rstrip("=")
    return base64.b32decode(plain + "=" * (-len(plain) % 8))


def _hex(encoded: str) -> bytes:
    digits = re.sub(r"[\s:]", "", encoded)
    return bytes.fromhex(digits[: len(digits) // 2 * 2])


def _binary(encoded: str) -> bytes:
    return bytes(int(byte, 2) for byte in re.findall("[01]{8}", encoded))


def _morse(encoded: str) -> str:
    words = re.split(r"\s*/\s*", encoded)
    return " ".join("".join(_CODE.get(letter, "") for letter in word.split()) for word in words)


def _ascii85(encoded: str) -> bytes:
    return base64.a85decode(encoded[2:-2])


def _base85(encoded: str) -> bytes:
    return base64.b85decode(encoded)


def _tagged(encoded: str) -> str:
    return "".join(chr(ord(character) - 0xE0000) for character in encoded)


def _unescaped(escaped: str) -> str:
    return "".join(
        chr(int(code, 16))
        for code in re.findall(r"\\u([0-9a-fA-F]{4})|\\x[0-9a-fA-F]{2}", escaped)
        if code
    )


_WAYS: tuple[tuple[re.Pattern[str], Callable[[str], bytes | str]], ...] = (
    (_BASE64, _base64),
    (_BASE32, _base32),
    (_HEX, _hex),
    (_BINARY, _binary),
    (_MORSE, _morse),
    (_ASCII85, _ascii85),
    (_BASE85, _base85),
    (_TAGGED, _tagged),
)


_LIKE = {
    "а": "a", "ɑ": "a", "α": "a", "Α": "a", "А": "a", "Ꭺ": "a", "@": "a", "4": "a",
    "В": "b", "Β": "b", "Ᏼ": "b", "в": "b",
    "с": "c", "С": "c", "ϲ": "c", "Ꮯ": "c",
    "ԁ": "d", "Ꭰ": "d", "ɗ": "d",
    "е": "e", "Е": "e", "Ε": "e", "ε": "e", "є": "e", "Ꭼ": "e", "3": "e", "ё": "e",
    "ɡ": "g", "Ԍ": "g", "Ꮐ": "g",
    "һ": "h", "Н": "h", "Η": "h", "Ꮋ": "h", "н": "h",
    "і": "i", "І": "i", "Ι": "i", "ι": "i", "ı": "i", "Ꭵ": "i", "1": "i", "!": "i",
    "ј": "j", "Ј": "j", "Ꭻ": "j",
    "К": "k", "Κ": "k", "κ": "k", "к": "k", "Ꮶ": "k",
    "ӏ": "l", "Ӏ": "l", "ⅼ": "l", "Ꮮ": "l",
    "М": "m", "Μ": "m", "м": "m", "Ꮇ": "m",
    "Ν": "n", "п": "n", "ո": "n",
    "о": "o", "О": "o", "Ο": "o", "ο": "o", "σ": "o", "օ": "o", "0": "o", "Ꮎ": "o",
    "р": "p", "Р": "p", "Ρ": "p", "ρ": "p", "Ꮲ": "p",
    "ԛ": "q",
    "г": "r", "Ꭱ": "r", "Ꮢ": "r",
    "ѕ": "s", "Ѕ": "s", "Ꮪ": "s", "5": "s", "$": "s",
    "т": "t", "Т": "t", "Τ": "t", "τ": "t", "Ꭲ": "t", "7": "t",
    "ս": "u", "υ": "u", "μ": "u",
    "ν": "v", "ѵ": "v", "Ꮩ": "v",
    "ԝ": "w", "ѡ": "w", "Ꮃ": "w",
    "х": "x", "Х": "x", "Χ": "x", "χ": "x",
    "у": "y", "У": "y", "Υ": "y", "γ": "y", "Ү": "y", "ү": "y",
    "Ζ": "z", "Ꮓ": "z",
}  # fmt: skip
_CHEROKEE = "\u13a0"
_CYRILLIC_AND_SO_ON = {
    ord(form): other
    for one, other in _LIKE.items()
    if not one.isascii()
    # Small letters of Cherokee look like its large ones, and folding turns them into those.
    for form in ((one, one.lower()) if one >= _CHEROKEE else (one,))
}
_DIGITS_TOO = {ord(one): other for one, other in _LIKE.items() if one.isascii()}
_UNSEEN = frozenset({"Cf", "Cc", "Mn", "Me", "Co", "Cn"})
_KEPT = "\n\t\r"


@lru_cache(maxsize=1 << 14)
def is_unseen(character: str) -> bool:
    """Return whether a character is invisible; line ends and tabs are not."""
    if character.isascii():
        return character not in _KEPT and not character.isprintable()
    return unicodedata.category(character) in _UNSEEN or character in _FILLERS


_FILLERS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u17b4\u17b5")


def folded(text: str) -> str:
    """Return a text in lower case, with lookalikes replaced by the letters they resemble."""
    if not text.isascii():
        seen = "".join(character for character in text if not is_unseen(character))
        text = unicodedata.normalize("NFKD", seen).translate(_CYRILLIC_AND_SO_ON)
        text = "".join(character for character in text if unicodedata.category(character) != "Mn")
    return text.casefold()


_RUN = re.compile(r"(.)\1{7,}")
_LEAST_RUN = 8


def normalized(text: str) -> str:
    """Return a text folded for the search: with single spaces and without long runs.

    This limits the time that patterns take.
    """
    rows = (" ".join(row.split()) for row in folded(text).splitlines())
    return _without_runs("\n".join(row for row in rows if row))


def letters_for_digits(seen: str) -> str:
    """Return a folded text with digits and symbols replaced by the letters they resemble."""
    return _without_runs(seen.translate(_DIGITS_TOO))


def _without_runs(text: str) -> str:
    if text.isascii():  # much faster than the pattern: neighbors that are equal give 0
        number = int.from_bytes(text.encode())
        differences = (number ^ (number >> 8)).to_bytes(len(text))
        if bytes(_LEAST_RUN - 1) not in differences:
            return text
    return _RUN.sub(r"\1\1\1\1\1\1", text)


_TEMPLATE = re.compile(
    r"<\s*[|｜]\s*/?[\w▁ -]{1,40}[|｜]\s*>"
    r"|\[\s*/?\s*inst\s*\]|<<\s*/?\s*sys\s*>>|<\s*(?:start|end)_of_turn\s*>|<\s*/\s*s\s*>"
    r"|<\s*/?\s*(?:system|assistant|developer)(?:[_ -]?(?:prompt|message|instructions?))?\s*>"
)
_CLOSING = re.compile(
    r"<\s*/\s*(?:user|human|untrusted|document|context|instructions?|memory|data|tool_result"
    r"|retrieved|search_results?|information)\s*>"
)
_BOUNDARY = re.compile(
    r"[\[<]\s*/?\s*pam\s*:|[\[<]\s*/?\s*(?:memory|semantic|episodic|procedural|working|identity)"
    r"(?:\s+\w+)?[\s-]+\d{9}\s*[\]>]"
)
_HEADER = re.compile(
    r"(?:^|\n|[\"'`>\]])[\s>*_#`~|/\-=\[({<!+.]*"
    r"(?:system|assistant|developer)(?:[ _-]?(?:note|prompt|message|override|instructions?|alert))?"
    r"[\s*_`~\])}>]*[:\uff1a]"
)
_TITLE = re.compile(
    r"(?:^|\n)\s*#{2,}\s*(?:(?:new|updated|system)\s+)?(?:instructions?|system|prompt)\s*(?::|#|\n|$)"
    r"|(?:^|\n)\W{3,40}(?:end|begin|start)\s+(?:of\s+)?(?:the\s+)?(?:user|system|document|context|prompt|"
    r"input|instructions?)\b[^\n]{0,40}"
    r"|\[\s*(?:system|admin|developer|override)(?:\s+(?:note|message|prompt|override))?\s*\]"
    r"|\bsystem\s+(?:note|override|prompt\s+update)\s*[:\uff1a]"
)
_TAGS = re.compile("[\U000e0001-\U000e007f]")
_EMOJI_TAGS = re.compile("\U0001f3f4[\U000e0061-\U000e007a\U000e0030-\U000e0039]{2,6}\U000e007f")
_OVERRIDES = re.compile("[\u202d\u202e]")
_SPLIT = re.compile(r"[^\W\d_][\u200b\u2060\ufeff\u00ad\u180e]+[^\W\d_]")
_SPLITS = 3
_LONGEST_SHAPE = 1 << 16

_TELLING = ("system", "assistant", "developer", "<", "[", "#")
_EDGES = ("end", "begin", "start")
_EDGE = re.compile(r"\W{3}\s*(?:end|begin|start)")


def may_have_shape(body: str) -> bool:
    """Return whether the JSON of a record may contain a shape of a prompt; a fast check."""
    text = body.replace("\\n", "\n")
    return not text.isascii() or _may_have_shape(text.casefold())


def _may_have_shape(seen: str) -> bool:
    """Return whether a folded text may contain a shape of a prompt."""
    if any(map(seen.__contains__, _TELLING)):
        return True
    return any(map(seen.__contains__, _EDGES)) and _EDGE.search(seen) is not None


def shapes_in(text: str) -> list[str]:
    """Return the shapes of prompts in a text."""
    shapes = [] if text.isascii() else _unseen_in(text)
    seen = normalized(text)
    if not _may_have_shape(seen):
        return shapes
    for name, pattern in (
        ("a token of a chat template", _TEMPLATE),
        ("a tag that ends a part of a prompt", _CLOSING),
        ("a boundary of recalled memory", _BOUNDARY),
        ("a line that speaks as the system or the assistant", _HEADER),
        ("a heading of a prompt", _TITLE),
    ):
        if pattern.search(seen):
            shapes.append(name)
    return shapes


def _unseen_in(text: str) -> list[str]:
    """Return the shapes that consist of invisible characters."""
    shapes = list[str]()
    if _TAGS.search(_EMOJI_TAGS.sub("", text)):
        shapes.append("invisible tags")
    if _OVERRIDES.search(text):
        shapes.append("text that is written backwards")
    if len(_SPLIT.findall(text[:_LONGEST_SHAPE])) >= _SPLITS:
        shapes.append("words split by what cannot be seen")
    return shapes


PROMOTED_ONLY = frozenset({Component.IDENTITY.value, Component.PROCEDURAL.value})
"""Types that set the identity and the instructions of an agent."""

FROM_OUTSIDE = frozenset({TrustClass.EXTERNAL, TrustClass.IMPORTED})

_START, _END = 12_000, 4_000
"""Characters of a text that are searched for imperatives: its start and its end."""

_JUDGED = frozenset({"quarantined", "released"})


@dataclass(frozen=True, slots=True)
class InjectionVerdict:
    """Why a memory is withheld; false for one that is provided."""

    reasons: tuple[str, ...] = ()
    needs_promotion: bool = False

    def __bool__(self) -> bool:
        return bool(self.reasons) or self.needs_promotion


SHOWN = InjectionVerdict()


def reasons_against(text: str, component: str, trust: TrustClass, enforce: Enforce) -> list[str]:
    """Return the reasons to withhold a text; empty for none.

    Args:
        text: The text of a memory.
        component: The type of the memory.
        trust: Its trust class.
        enforce: ``shapes``: shapes of prompts from any author; ``outside``: also imperatives from
            outside; ``all``: also imperatives from any author; ``nothing``.
    """
    if enforce == "nothing":
        return []
    reasons = [f"shape: {kind}" for kind in shapes_in(text)]
    is_enforced = enforce == "all" or (enforce == "outside" and trust in FROM_OUTSIDE)
    if is_enforced and (component not in PROMOTED_ONLY or trust in FROM_OUTSIDE):
        reasons += [f"imperative: {kind}" for kind in find_instructions(text)]
    return reasons


def find_instructions(text: str) -> list[str]:
    """Return the kinds of instructions in a text: plain, disguised or encoded."""
    excerpt = text if len(text) <= _START + _END else f"{text[:_START]}\n{text[-_END:]}"
    seen = normalized(excerpt)
    kinds = imperatives_in(seen)
    if kinds:
        return kinds
    letters = letters_for_digits(seen)
    otherwise = [letters, *turned(seen), *(normalized(form) for form in hidden_in(excerpt))]
    for form in otherwise:
        if form != seen and may_tell(form):
            kinds = imperatives_in(form)
            if kinds:
                return [f"{name} (hidden)" for name in kinds]
    return []


def judge_memory(
    view: View, logged: VerifiedRecord, text: str, trust: TrustClass, enforce: Enforce
) -> InjectionVerdict:
    """Return whether a memory may be provided as context.

    A released memory is not withheld again; it may still need a promotion.
    """
    component = logged.record.type
    if component in PROMOTED_ONLY and trust in FROM_OUTSIDE:
        return InjectionVerdict(needs_promotion=True)
    reasons = reasons_against(text, component, trust, enforce)
    if reasons and not is_released(view, logged):
        return InjectionVerdict(tuple(reasons))
    return SHOWN


def is_released(view: View, logged: VerifiedRecord) -> bool:
    """Return whether the last quarantine status of a memory is ``released``."""
    states = [status.state for status in view.status_events(logged) if status.state in _JUDGED]
    return bool(states) and states[-1] == "released"
