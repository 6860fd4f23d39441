"""Secrets in a text: found, and replaced by a token that says what stood there.

The rules are in the modules beside. What is certain wins over what is probable where two of them
see the same place, and what they see together is one secret.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from satchel.screen.cards import card_numbers
from satchel.screen.contexts import (
    aws_secrets,
    credentials_in_addresses,
    credentials_in_headers,
    is_named_secret,
    named_secrets,
    names_secret,
)
from satchel.screen.disguise import seen
from satchel.screen.keys import private_keys
from satchel.screen.sieve import may_hold_secret
from satchel.screen.vendors import SHAPES, Found, vendor_secrets

KINDS: dict[str, str] = {
    "private-key": "Private key: PEM, OpenSSH, PGP, PuTTY",
    **{shape.kind: shape.title for shape in SHAPES},
    "aws-secret-key": "AWS secret access key, under its name or beside its id",
    "card-number": "Payment card of a known issuer, with a valid check digit",
    "url-password": "Password in an address, such as that of a database",
    "basic-auth": "User and password in an `Authorization: Basic` header",
    "bearer-token": "Token after `Bearer`",
    "assigned-secret": "Value whose name says that it is a password, secret, token or key",
}
"""What is recognised, and its title; in order of precedence."""

_RANK = {kind: rank for rank, kind in enumerate(KINDS)}
_token = re.compile(r"\[REDACTED:([a-z0-9-]{1,40}):([0-9]{1,9})\]")
_HIDDEN = "\0"
_ROUNDS = 8
_LONGEST_NAME = 80
_REPEATED_FROM = 8
_MOST_REPEATED = 256
_HIGHEST = 10**8
"""Numbers from here on were never given; counting on from one would outgrow the token."""


class Secret(NamedTuple):
    """A place in a text where a secret stands; the value itself is not kept."""

    kind: str
    start: int
    end: int


def find_secrets(
    text: str, name: str | None = None, known: Collection[tuple[str, str]] = ()
) -> list[Secret]:
    """Return the secrets in a text, in order and apart from each other.

    A value that is found once is found wherever else it stands in the text by itself, if it is
    not a plain word.

    Args:
        text: Any text; the time is linear in its length.
        name: What the text is the value of, such as ``password``, where it is that.
        known: Kinds and values that are secrets wherever they stand.
    """
    if name is None and not known and text.isascii() and not may_hold_secret(text):
        return []  # most texts of most banks
    shown = seen(text)
    names = names_secret(name) if name and len(name) <= _LONGEST_NAME else None
    known = tuple(known)
    if not (known or names or may_hold_secret(shown.text)):
        return []
    return [
        Secret(found.kind, *shown.original(found.start, found.end))
        for found in _settled(_hidden_tokens(shown.text), names, known)
    ]


def is_distinctive(value: str) -> bool:
    """Tell whether a value can only be itself: no word, name or number of everyday."""
    return (
        len(value) >= _REPEATED_FROM
        and any(map(str.isdigit, value))
        and any(map(str.isalpha, value))
    )


def value_of(secret: Secret, text: str) -> str:
    """Return the secret itself, as it is seen; for comparing, never for showing."""
    return seen(text[secret.start : secret.end]).text


def _hidden_tokens(text: str) -> str:
    """Put tokens of an earlier scrubbing out of sight, in place."""
    if "[REDACTED:" not in text:
        return text
    return _token.sub(lambda found: _HIDDEN * len(found[0]), text)


def _settled(text: str, names: str | None, known: tuple[tuple[str, str], ...]) -> list[Found]:
    """Return what is found until nothing more is.

    Where something is taken away, what stood beside it may become a secret. Two looks are the
    rule; a text that is made to go on for ever is taken for a secret as a whole.
    """
    settled: list[Found] = []
    left = text
    for _ in range(_ROUNDS):
        found = _merged(chain(_rules(left, names), _repeats(left, known)))
        if not found:
            return sorted(settled)
        settled += found
        values = [(item.kind, left[item.start : item.end]) for item in found]
        known = tuple(dict.fromkeys([*known, *values]))
        left = _without(left, found)
    return [Found(0, len(text), settled[-1].kind)]


def _rules(text: str, names: str | None) -> Iterator[Found]:
    """Yield what every rule sees, in any order and on top of each other."""
    yield from vendor_secrets(text)
    yield from private_keys(text)
    yield from named_secrets(text)
    yield from credentials_in_addresses(text)
    yield from credentials_in_headers(text)
    yield from aws_secrets(text)
    yield from card_numbers(text)
    if names is not None and is_named_secret(text, names):
        yield Found(0, len(text), "assigned-secret")


def _repeats(text: str, known: tuple[tuple[str, str], ...]) -> Iterator[Found]:
    """Yield the other places where known values stand by themselves."""
    for kind, value in filter(lambda item: is_distinctive(item[1]), known[:_MOST_REPEATED]):
        at = text.find(value)
        while at >= 0:
            end = at + len(value)
            if not (_in_word(text, at - 1) or _in_word(text, end)):
                yield Found(at, end, kind)
            at = text.find(value, end)


def _in_word(text: str, at: int) -> bool:
    return 0 <= at < len(text) and (text[at].isalnum() or text[at] in "_-")


def _merged(found: Iterable[Found]) -> list[Found]:
    """Join what overlaps; the more certain kind names it."""
    merged: list[Found] = []
    for item in sorted(found):
        if merged and item.start < merged[-1].end:
            last = merged[-1]
            kind = min(last.kind, item.kind, key=_RANK.__getitem__)
            merged[-1] = Found(last.start, max(last.end, item.end), kind)
        else:
            merged.append(item)
    return merged


def _without(text: str, found: list[Found]) -> str:
    """Return a text with places put out of sight."""
    parts, at = [], 0
    for item in found:
        parts += [text[at : item.start], _HIDDEN * (item.end - item.start)]
        at = item.end
    return "".join([*parts, text[at:]])


def scrub(text: str) -> tuple[str, list[Secret]]:
    """Replace each secret by a token such as ``[REDACTED:github-token:1]``.

    The same value gets the same number. In what is returned nothing is found any more.

    Returns:
        The text, and where in the text that was given the secrets stood.
    """
    found = find_secrets(text)
    if not found:
        return text, found
    tokens = Tokens([text])
    return tokens.replace(text, found), found


class Tokens:
    """The tokens of one record: a number for each value, counted by kind.

    Args:
        texts: All texts of the record; numbers that tokens in them have are not given again.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._last: dict[str, int] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        for text in texts:
            for kind, number in _token.findall(text):
                if int(number) < _HIGHEST:
                    self._last[kind] = max(self._last.get(kind, 0), int(number))

    def number(self, secret: Secret, text: str) -> int:
        """Return the number of the value that stands in a text."""
        value = (secret.kind, value_of(secret, text))
        if value not in self._numbers:
            self._last[secret.kind] = self._last.get(secret.kind, 0) + 1
            self._numbers[value] = self._last[secret.kind]
        return self._numbers[value]

    def replace(self, text: str, found: Iterable[Secret]) -> str:
        """Return a text with tokens in the places of secrets."""
        parts, at = [], 0
        for secret in found:
            parts += [
                text[at : secret.start],
                f"[REDACTED:{secret.kind}:{self.number(secret, text)}]",
            ]
            at = secret.end
        return "".join([*parts, text[at:]])
