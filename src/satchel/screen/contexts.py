"""Secrets that have no shape of their own, known by what stands around them.

A name and a value (``api_key = ...``, ``the password is ...``), an address with a password, a
header that carries a credential, an AWS secret beside its key id.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from functools import lru_cache

from satchel.screen.sieve import has_name
from satchel.screen.vendors import Found, is_stand_in, looks_random

_FOR_PASSWORDS = (
    r"pass[ _-]?(?:word|phrase|code|wort)|passwd|pwd|(?<![a-z])pw|mot de passe|contraseña|senha"
    r"|пароль|密码|密碼|パスワード|비밀번호"
)
_FOR_KEYS = (
    r"secret|token"
    r"|(?:api|access|auth|private|secret|signing|encryption|master|account|service|client|app)"
    r"[ _-]?key"
)
# What may follow within the same name: API_KEY_PROD, but not token_count.
_REST = (
    r"(?![_-]?(?:id|hash|file|path|length|len|policy|counts?|types?|name|ur[li]|expir\w*|ttl|hint"
    r"|field|limits?|size|version|arn|ref|index|min|max|usage|format|at|in)(?![a-z]))"
    r"(?:[_-][a-z0-9]{1,16}){0,3}(?![a-z0-9_])"
)
_NAME = rf"(?:(?P<password>{_FOR_PASSWORDS})|(?P<key>{_FOR_KEYS})){_REST}"
_name = re.compile(f"(?i){_NAME}")
_whole_name = re.compile(rf"(?i)(?P<before>[\w. -]{{0,40}}?){_NAME}").fullmatch
_LOOSE = r"(?:\s(?:for|to|of|on|at|in)(?:\s[^\s:=\0]{1,30}){1,5}?)?"
_joint = re.compile(
    r"[\"'`\\]{0,2}\s{0,4}(?:(?::=|=>|->|={1,3}|:)\s{0,4}|は\s{0,2}:?\s{0,2}|은\s{0,2}|는\s{0,2}"
    rf"|(?P<loose>(?i:{_LOOSE}\s{{1,2}}(?:is|was|ist|est|es|é)(?:\s(?:now|(?:set|reset|changed)\sto))?))"
    r"\s{0,2}:?\s{1,4})"
)
# What ends a value without quotes; writing that needs no spaces does.
_ENDS = r"^\s\"'`\\<>,;&\0\u3001-\u9fff\uac00-\ud7af"
_value = re.compile(
    r"\\?(?:\"(?P<double>[^\"\n\\\0]{1,512})\"|'(?P<single>[^'\n\\\0]{1,512})'"
    r"|`(?P<ticks>[^`\n\\\0]{1,512})`"
    rf"|[\"'`]?(?P<bare>(?:[{_ENDS}]++|&(?!\w{{1,32}}=))++))"
)
_bare = re.compile(rf"(?:[{_ENDS}]++|&(?!\w{{1,32}}=))*+")
_LONGEST = 520  # one in quotes; one without is followed to its end, if its beginning is a secret
_TRAILING = ".:)]}*_"
_names_something_else = re.compile(
    r"(?i)(?:public|next|page|continuation|prev|previous|cursor|sync|pad|eos|bos|unk|sep|cls|mask"
    r"|stop|special|primary|foreign|sort|partition|cache|idempotency)[ _-]?$"
).search
_BEFORE = 24

_not_a_password = re.compile(
    r"\d{1,3}[+-]*[A-Za-z-]+"  # 8-characters
    r"|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"  # an address of mail
    r"|[A-Za-z]+(?:-[A-Za-z]+)+"  # case-sensitive
).fullmatch
_not_a_key = re.compile(
    r"(?:blake3|sha\d{1,3}|md5|did|urn|https?|file|s3|arn):.*"
    r"|[./~].*"  # a path
    r"|\d{4}-\d\d-\d\d.*",  # a time
    re.DOTALL,
).fullmatch
_code = re.compile(
    r"\$\{.*|\$[A-Z_][A-Z0-9_]*|\$[a-z_]+|\{.*|<.*|%[A-Z_]+%|%\(.*"  # filled in later
    r"|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*[(\[].*"  # a call or a subscript
    r"|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+",  # a dotted name
    re.DOTALL,
).fullmatch
_ornament = re.compile(r"[!@#$%^*+=~|]").search
_letter = re.compile(r"[^\W\d_]").search
_digit = re.compile(r"\d").search
_space = re.compile(r"[\s\0]").search
_turns = re.compile(r"[A-Za-z][0-9]|[0-9][A-Za-z]")
_SHORTEST_PASSWORD, _SHORTEST_LOOSE, _SHORTEST_KEY = 6, 7, 16
_FEWEST_TURNS = 3
_JUDGED = 128
"""Characters of a long value that are looked at, so that a chain of names costs no more."""

_credentials = re.compile(
    r"://[^\s/?#:@\"'<>\0]{0,256}+:(?P<secret>[^\s/?#\"'<>\0]{1,512})@(?=[\w\[%$])"
)
_words_for_password = frozenset(
    ("password", "passwd", "pass", "pwd", "passphrase", "secret", "token", "pw", "key")
)
_bearer = re.compile(
    r"(?i:\bbearer)\s{1,4}(?P<secret>[A-Za-z0-9._~+/-]{0,40}?[A-Za-z0-9_-]{20,}+[A-Za-z0-9._~+/-]*+=*)"
)
_basic = re.compile(
    r"(?i:\bauthorization)[\"'`\\]{0,2}\s{0,4}[:=]\s{0,4}[\"'`\\]{0,2}(?i:basic)\s{1,4}"
    r"(?P<secret>[A-Za-z0-9+/]{8,}+={0,2})"
)
_aws_secret = re.compile(r"(?<![A-Za-z0-9/+=])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
_aws_name = re.compile(
    r"(?i)(?:secret[ _-]?access[ _-]?key|aws[ _-]?secret(?:[ _-]?key)?)"
    r"[\"'`\\]{0,2}\s{0,4}(?:[:=]{1,2}>?|is|->)\s{0,4}[\"'`\\]{0,2}(?P<secret>[A-Za-z0-9/+]{40})"
    r"(?![A-Za-z0-9/+])"
)


def named_secrets(text: str) -> Iterator[Found]:
    """Yield values that a name in front of them says to be secret."""
    at = 0 if has_name(text) else len(text)
    while name := _name.search(text, at):
        at = name.end()
        joint = _joint.match(text, at)
        value = joint and _value.match(text, joint.end(), joint.end() + _LONGEST)
        if joint is None or value is None:
            continue
        is_key = name["key"] is not None
        group = value.lastgroup or "bare"
        judged = value[group][:_JUDGED]
        if group == "bare":
            judged = judged.rstrip(_TRAILING)
        if _is_secret(judged, key=is_key, loose=joint["loose"] is not None):
            before = text[max(0, name.start() - _BEFORE) : name.start()]
            if is_key and _names_something_else(before):
                continue
            start, at = value.span(group)
            if group == "bare":
                at = _end_of_bare(text, start)
            yield Found(start, at, "assigned-secret")


def _end_of_bare(text: str, start: int) -> int:
    """Return where a value without quotes ends."""
    run = _bare.match(text, start)
    return start + len(run[0].rstrip(_TRAILING)) if run else start


@lru_cache(maxsize=4096)
def names_secret(name: str) -> str | None:
    """Return ``password`` or ``key`` when a member of this name holds a secret, else None."""
    found = _whole_name(name)
    if found is None or (found["key"] is not None and _names_something_else(found["before"])):
        return None
    return "key" if found["key"] is not None else "password"


def is_named_secret(value: str, names: str) -> bool:
    """Tell whether the value of a member is a secret, given what its name says."""
    return _is_secret(value[:_JUDGED], key=names == "key", loose=False)


def _is_secret(value: str, *, key: bool, loose: bool) -> bool:
    """Tell whether a value with such a name is one, and not a word, a variable or a description."""
    value = value.rstrip("!?")
    if not (_letter(value) and (_digit(value) or (not key and _ornament(value)))):
        return False
    if key:
        fits = len(_turns.findall(value)) >= _FEWEST_TURNS and len(value) >= _SHORTEST_KEY
        other = _not_a_key
    else:
        fits = len(value) >= (_SHORTEST_LOOSE if loose else _SHORTEST_PASSWORD)
        other = _not_a_password
    if not fits or _space(value) or other(value) or _code(value):
        return False
    return looks_random(value) if key else not is_stand_in(value)


def credentials_in_addresses(text: str) -> Iterator[Found]:
    """Yield the passwords in addresses: ``scheme://user:password@host``."""
    if "://" in text and "@" in text:
        for found in _credentials.finditer(text):
            secret = found["secret"]
            if (
                secret.lower() not in _words_for_password
                and not is_stand_in(secret)
                and not _code(secret)
            ):
                yield Found(*found.span("secret"), "url-password")


def credentials_in_headers(text: str) -> Iterator[Found]:
    """Yield what stands after ``Bearer`` and ``Basic``."""
    low = text.lower()
    for found in _bearer.finditer(text) if "bearer" in low else ():
        if looks_random(found["secret"]) and _turns.search(found["secret"]):
            yield Found(*found.span("secret"), "bearer-token")
    for found in _basic.finditer(text) if "basic" in low else ():
        if _is_basic(found["secret"]):
            yield Found(*found.span("secret"), "basic-auth")


def _is_basic(text: str) -> bool:
    """Tell whether a text is base64 of ``user:password``."""
    try:
        plain = base64.b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return False
    user, colon, password = plain.partition(":")
    return bool(user and colon and password) and plain.isprintable()


def aws_secrets(text: str) -> Iterator[Found]:
    """Yield AWS secret keys: under their name, or in a text that has an access key id."""
    if "ecret" in text or "ECRET" in text:
        for found in _aws_name.finditer(text):
            if looks_random(found["secret"]):
                yield Found(*found.span("secret"), "aws-secret-key")
    if "AKIA" in text or "ASIA" in text:
        for found in _aws_secret.finditer(text):
            if _mixes(found[0]) and looks_random(found[0]):
                yield Found(found.start(), found.end(), "aws-secret-key")


def _mixes(text: str) -> bool:
    """Tell whether a text has small and large letters and digits; a hash has not."""
    return (
        any(map(str.islower, text)) and any(map(str.isupper, text)) and any(map(str.isdigit, text))
    )
