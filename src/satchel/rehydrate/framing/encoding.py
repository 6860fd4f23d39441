"""The escaped record: one line, nothing in it that could end it, and the way back byte for byte.

A backslash starts each escape. Brackets, bars and ampersands are written as what looks like them
and means nothing to anybody; line ends as everywhere; what cannot be seen, and letters in disguise,
by their numbers. A colon that would make a word before it the name of a speaker is escaped as well.
"""
# ruff: noqa: RUF001 - lookalikes are what it is about

import re
import unicodedata

from satchel.errors import MalformedError
from satchel.rehydrate.framing.folding import folded, is_unseen, letters_for_digits

SHORT = {
    "\\": "\\\\",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "[": "\\(",
    "]": "\\)",
    "<": "\\{",
    ">": "\\}",
    "|": "\\/",
    "&": "\\+",
    "\u00a0": "\\_",
    "\u00ad": "\\-",
    "\ufe0f": "\\v",
    "\u200d": "\\j",
    "\u200c": "\\z",
}
"""Escapes of two characters."""

COLON = "\\."
"""A colon after a word that names a speaker."""

_BACK = {escape: character for character, escape in SHORT.items()} | {COLON: ":"}
_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|U[0-9a-f]{8}|.)", re.DOTALL)
_PLAIN = 2
"""Characters of a short escape."""

_BMP = 0xFFFF
_REMEMBERED = 1 << 16

_LOOKALIKES = frozenset("‹›❬❭❮❯⟨⟩〈〉〈〉˂˃ᐸᐳ≺≻⋖⋗⧼⧽❲❳〔〕⁅⁆⟦⟧【】⟬⟭∣ǀ│┃⎸⎹❘❙❚¦׀‖∥ǁ║⼁ꓲ∖⧵⧹﹨")
"""What looks like a bracket, a bar or a backslash."""

_TELLING = re.compile(r"[a-z<>\[\]|&\\:]", re.IGNORECASE)

_COLONS = re.compile("[:\uff1a\ufe55\ufe30\ufe13\u2236\ua789\u02d0\u0589\u05c3\u02f8]")
_SPEAKER = re.compile(
    r"(?:^|[^a-z]|\\[nrt])(?:system|assistant|user|human|ai|developer|tool|function|model|bot|agent|admin"
    r"|root|operator|chatgpt|gpt|claude|gemini|llama|instructions?|prompt)[^a-z0-9]{0,8}$"
)
_BEFORE = 64
"""Characters before a colon that are looked at."""


class _Table(dict[int, str]):
    """Gives what each character becomes; made when it is first met."""

    def __missing__(self, code: int) -> str:
        found = _written(chr(code))
        if len(self) < _REMEMBERED:
            self[code] = found
        return found


def _written(character: str) -> str:
    if character in SHORT:
        return SHORT[character]
    if character.isascii():
        return character if character.isprintable() else _numbered(character)
    if character in _LOOKALIKES or (is_unseen(character) and not _marks(character)):
        return _numbered(character)
    if unicodedata.category(character) in ("Zl", "Zp", "Zs", "Cs"):
        return _numbered(character)
    plain = unicodedata.normalize("NFKC", character)
    if plain != character and plain.isascii() and _TELLING.search(plain):
        return character if plain == ":" else _numbered(character)  # colons: where they tell
    return character


def _marks(character: str) -> bool:
    """Tell whether a character is an accent or a vowel sign, which is seen on the one before."""
    return unicodedata.category(character) in ("Mn", "Me") and not _is_ignorable(character)


def _is_ignorable(character: str) -> bool:
    code = ord(character)
    return (
        code in (0x034F, 0x17B4, 0x17B5)
        or 0x180B <= code <= 0x180F  # noqa: PLR2004 - Unicode's own ranges
        or 0xFE00 <= code <= 0xFE0F  # noqa: PLR2004
        or 0xE0000 <= code <= 0xE0FFF  # noqa: PLR2004
    )


def _numbered(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= _BMP else f"\\U{code:08x}"


_TABLE = _Table()


def encoded(text: str) -> str:
    """Return a text as it can stand in a record: one line, with nothing live in it."""
    pieces, start = list[str](), 0
    for colon in _COLONS.finditer(text):
        at = colon.start()
        before = folded(text[max(0, at - _BEFORE) : at])
        if _SPEAKER.search(before) or _SPEAKER.search(letters_for_digits(before)):
            pieces.append(text[start:at].translate(_TABLE))
            pieces.append(COLON if colon.group() == ":" else _numbered(colon.group()))
            start = at + 1
    pieces.append(text[start:].translate(_TABLE))
    return "".join(pieces)


def decoded(text: str) -> str:
    """Return what ``encoded`` was given.

    Raises:
        MalformedError: If it did not make this.
    """
    return _ESCAPE.sub(_original, text)


def _original(escape: re.Match[str]) -> str:
    found = escape.group()
    if found in _BACK:
        return _BACK[found]
    if found[1] not in "uU" or len(found) == _PLAIN:
        raise MalformedError(f"unknown escape: {found!r}")
    return chr(int(found[2:], base=16))  # noqa: FURB166 - a letter stands before, no 0x


LEGEND = {
    "\\(": "\\( \\) are square brackets",
    "\\{": "\\{ \\} angle brackets",
    "\\/": "\\/ a bar",
    "\\+": "\\+ an ampersand",
    "\\n": "\\n a line end",
}
"""What a reader is told of the escapes that are used; the others say nothing that matters."""
