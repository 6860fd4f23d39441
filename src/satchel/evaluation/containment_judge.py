"""The judge of containment: it reads the framed text alone, without the code that made it.

It imports nothing of ``satchel.rehydrate`` (a contract in ``pyproject.toml`` checks that), and has
its own tables of letters, roles and tokens. An escape is one of these:

- **lines**: memory made a line, or changed one that stands there without it;
- **role**: a line, or what follows a line end in a record, looks like the word of a speaker;
- **token**: something that a chat template, or a boundary, takes for itself;
- **unseen**: a character that is not seen, or that turns the reading direction.

Source of the kinds: the OWASP and model vendors' lists of chat tokens; Unicode UAX #9, UTS #39.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

KINDS = ("lines", "role", "token", "unseen")


class Escape(msgspec.Struct, frozen=True):
    """An escape from a record."""

    kind: str
    line: str
    """The beginning of its line."""


_SHOWN = 160
_ROLES = (
    "system|assistant|user|human|developer|tool|function|model|ai|bot|agent|admin|operator|root"
)
_ROLE = re.compile(
    rf"(?:^|\\n|\\r)[\s>#*_\-\"'`~(\[{{=.\u2022]*(?:{_ROLES})[\s*_\"'`)\]}}>-]{{0,6}}:",
)
_TOKENS = re.compile(
    r"<\s*\|"  # <|im_start|> and its kin
    r"|\|\s*>"
    r"|<\s*/?\s*(?:s|system|user|assistant|human|memory|data|instructions?|information|tool|"
    r"function|script|img|start_of_turn|end_of_turn|think|context|document|im_start|im_end)\b"
    r"|<\s*!--"
    r"|<<\s*/?\s*sys"
    r"|\[\s*/?\s*(?:inst|sys|pam|memory|end|system|data|record)"
    r"|\]\s*\("  # a link or picture
)
_UNSEEN_KINDS = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\u180b\u180c\u180d\u180f")
_DIGITS = re.compile(r"\d+")

# Letters by what they look like; compatibility forms are unfolded before.
_LOOKS = {
    "a": "\u0430\u03b1\u0251\u13aa\u15c5\u0103",
    "b": "\u0432\u03b2\u13f4\u042c\u044c",
    "c": "\u0441\u03f2\u13df\u1d04\u2ca5",
    "d": "\u0501\u13a0\u0257\u056a",
    "e": "\u0435\u0454\u03b5\u13ac\u0451\u1d07",
    "f": "\u0584\u03dd\u0192",
    "g": "\u0261\u050d\u13c0\u0581",
    "h": "\u04bb\u043d\u13bb\u0570",
    "i": "\u0456\u03b9\u0131\u13a5\u04cf",
    "j": "\u0458\u03f3\u13ab",
    "k": "\u043a\u03ba\u13e6",
    "l": "\u04cf\u13de\u217c\u0627",
    "m": "\u043c\u03bc\u13b7",
    "n": "\u043f\u03b7\u0578\u057c",
    "o": "\u043e\u03bf\u0585\u13be\u03c3\u0ae6",
    "p": "\u0440\u03c1\u13e2",
    "q": "\u051b\u0566",
    "r": "\u0433\u13a1\u13d2\u1d26",
    "s": "\u0455\u13da\u054f\ua731",
    "t": "\u0442\u03c4\u13a2\u1d1b",
    "u": "\u057d\u03c5\u1d1c",
    "v": "\u03bd\u0475\u13d9\u1d20",
    "w": "\u051d\u0461\u13b3\u1d21",
    "x": "\u0445\u03c7",
    "y": "\u0443\u04af\u03b3\u13a9",
    "z": "\u13c3\u03b6\u1d22",
    ":": "\u02d0\u02f8\u0589\u05c3\u2236\ua789\u0703\u0704\u16ec\ufe30",
    "<": "\u2039\u276e\u2329\u27e8\u3008\u02c2\u1438\u226e",
    ">": "\u203a\u276f\u232a\u27e9\u3009\u02c3\u1433",
    "|": "\u2223\u01c0\u2502\u2758\u05c0\uffe8\u2016",
    "[": "\u3010\u3014\u2772\u27e6\u301a",
    "]": "\u3011\u3015\u2773\u27e7\u301b",
}
_FOLDS = {ord(one): plain for plain, several in _LOOKS.items() for one in several}


def fold(text: str) -> str:
    """Return a text as it looks: lower-case plain letters, without invisible characters."""
    if text.isascii():
        return text.lower()
    seen = (char for char in unicodedata.normalize("NFKD", text) if not _is_unseen(char))
    plain = "".join(char for char in seen if not unicodedata.combining(char))
    return plain.casefold().translate(_FOLDS)


def judge(framed: str, frame: Counter[str], records: int) -> list[Escape]:
    """Return the escapes from the records of a framed text.

    Args:
        framed: The text.
        frame: The lines around records, as ``frame_of`` returns them for harmless memory in the
            same order of types.
        records: The number of memories in the text: each is one line.
    """
    escapes = list[Escape]()
    lines = framed.split("\n")
    left, own = Counter(frame), list[str]()
    for line in lines:
        key = _DIGITS.sub("0", line)
        if left[key]:
            left[key] -= 1
        else:
            own.append(line)
    missing = sum(left.values())
    if len(own) != records or missing:
        first = own[0] if own else framed
        escapes.append(
            Escape("lines", f"{len(own)} for {records}, {missing} gone: {first[:_SHOWN]}")
        )
    escapes += (Escape("unseen", line[:_SHOWN]) for line in lines if any(map(_is_unseen, line)))
    for line in own:
        folded = fold(line)
        if _ROLE.search(folded):
            escapes.append(Escape("role", line[:_SHOWN]))
        if _TOKENS.search(folded):
            escapes.append(Escape("token", line[:_SHOWN]))
    return escapes


def frame_of(framed: str, harmless: str) -> Counter[str]:
    """Return the lines of a framed text without a harmless word, without digits."""
    return Counter(_DIGITS.sub("0", line) for line in framed.split("\n") if harmless not in line)


_BACK = {"\\": "\\", "n": "\n", "r": "\r", "t": "\t", "(": "[", ")": "]", "{": "<", "}": ">"}
_BACK |= {"/": "|", "+": "&", "_": "\u00a0", "-": "\u00ad", "v": "\ufe0f", "j": "\u200d"}
_BACK |= {"z": "\u200c", ".": ":"}
_ESCAPED = re.compile(r"\\(?:u([0-9a-f]{4})|U([0-9a-f]{8})|(.))", re.DOTALL)


def read_back(line: str) -> str:
    """Return a line with each escape decoded, as docs/guides/rehydration.md defines them."""

    def original(match: re.Match[str]) -> str:
        number = match[1] or match[2]
        return chr(int(number, 16)) if number else _BACK.get(match[3], match[0])

    return _ESCAPED.sub(original, line)


def unreadable(framed: str, texts: Sequence[str]) -> list[str]:
    """Return the texts that cannot be decoded exactly from one line."""
    lines = [read_back(line) for line in framed.split("\n")]
    whole = "\0".join(lines)
    return [text for text in texts if text not in whole or not _is_in_one_line(text, lines)]


def _is_in_one_line(text: str, lines: Iterable[str]) -> bool:
    return any(text in line for line in lines)


def _is_unseen(character: str) -> bool:
    if character.isascii():
        return not character.isprintable()
    code = ord(character)
    selects = 0xFE00 <= code <= 0xFE0F or 0xE0000 <= code <= 0xE0FFF  # noqa: PLR2004 - Unicode's own
    return selects or character in _FILLERS or unicodedata.category(character) in _UNSEEN_KINDS
