"""Private keys written as text: PEM, OpenSSH, PGP, and those of PuTTY."""

import re
from collections.abc import Iterator

from satchel.screen.vendors import Found

_begin = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}?PRIVATE KEY(?: BLOCK)?-----")
_end = re.compile(r"-----END (?:[A-Z0-9]{1,20} ){0,4}?PRIVATE KEY(?: BLOCK)?-----")
# Base64 over several lines, whichever way the line breaks were written, with header lines.
_body = re.compile(r"(?:(?!-----)[A-Za-z0-9+/=\s\\:,.>()<@_-])*+")
_encoded = re.compile(r"[A-Za-z0-9+/]{16,}+={0,2}")
_plain = re.compile(r"[A-Za-z0-9]{20}")

_putty = re.compile(r"Private-Lines: \d{1,4}\s{1,4}((?:[A-Za-z0-9+/=]{16,64}\s{0,4})+)")


def private_keys(text: str) -> Iterator[Found]:
    """Yield the private keys in a text; one that was cut off ends with its last base64."""
    if "PRIVATE KEY" in text:
        for head in _begin.finditer(text):
            body = _body.match(text, head.end())
            assert body is not None  # noqa: S101 - it may be empty
            if not _plain.search(body[0]):
                continue  # the mention of a header
            encoded = [found.end() for found in _encoded.finditer(body[0])]
            tail = _end.match(text, body.end())
            yield Found(
                head.start(), tail.end() if tail else body.start() + encoded[-1], "private-key"
            )
    if "PuTTY-User-Key-File-" in text:
        for found in _putty.finditer(text):
            yield Found(found.start(1), found.end(1), "private-key")
