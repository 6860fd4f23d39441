"""A quick look that lets ordinary text pass.

Every rule of this layer needs one of a few plain things, which are looked for over the bytes of the
text at the speed of C; a text without them holds nothing that the rules would find.
"""

import re
import string

_TOKEN = (string.ascii_letters + string.digits + "_-").encode()
_SPACERS = b" .-"
_ORNAMENTS = b"!@#$%^*+=~|"
_RUN = b"a" * 20
"""So many letters, digits, ``_`` or ``-`` stand in a row in every token that has a shape."""

_CARD = b"0" * 14
_WORDS = ("key", "pass", "oken", "ecret", "pw", "authoriz")
_FOREIGN_WORDS = ("senha", "contrase", "парол", "密码", "密碼", "パスワード", "비밀번호")

_runs = bytes(97 if code in _TOKEN else 32 for code in range(256))
_signs = bytes(
    48 if 48 <= code <= 57 else 33 if code in _ORNAMENTS else 32  # noqa: PLR2004 - 0 to 9
    for code in range(256)
)


# As they stand alone in members of their own: a UUID, a digest, an id of ours.
is_identifier = re.compile(
    r"(?:blake3:)?[0-9a-f]{32,64}|[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
).fullmatch


def may_hold_secret(text: str) -> bool:
    """Tell whether a text, as it is seen, is worth a closer look."""
    data = text.encode() if text.isascii() else text.encode("utf-8", "surrogatepass")
    if data.translate(_runs).find(_RUN) >= 0:
        return is_identifier(text) is None
    if "@" in text and "://" in text:
        return True
    signs = data.translate(_signs, _SPACERS)
    if signs.isspace():
        return False
    return signs.find(_CARD) >= 0 or has_name(text)


def has_name(text: str) -> bool:
    """Tell whether the name of a secret may be in a text."""
    low = text.lower()
    for word in _WORDS:
        if word in low:  # a loop is faster here than any()
            return True
    if "=" in low and "sig=" in low:
        return True
    return not text.isascii() and any(word in low for word in _FOREIGN_WORDS)
