"""Edits of the sample artifacts, each with the outcomes that are right for it."""

from typing import Any

LINES = "small.pam.jsonl"
JSON = "small.pam"
CBOR = "small.pam.cbor"

# base, name, the bytes to find, what replaces them (None: the file ends there), outcome
Edit = tuple[str, str, bytes, bytes | None, str]

EDITS: list[Edit] = [
    (LINES, "a letter of an entry", b"window", b"Window", "tampered"),
    (LINES, "a digit of a number", b'"ratio":0.0000097', b'"ratio":0.0000098', "tampered"),
    (LINES, "the prefix of an id", b'"id":"blake3:', b'"id":"blake4:', "tampered"),
    (LINES, "a nonce longer by a digit", b'"nonce":"', b'"nonce":"0', "tampered"),
    (LINES, "a member added", b'"language":"en"', b'"kind":"x","language":"en"', "tampered"),
    (LINES, "the same number in another notation", b"99.5,", b"99.50,", "tampered"),
    (LINES, "the same letter escaped", b"12A", b"12\\u0041", "tampered"),
    (LINES, "a section renamed", b'"identity"}', b'"identitz"}', "tampered"),
    (LINES, "a line that is no JSON", b'{"section":"edges"}', b'["section":"edges"}', "tampered"),
    (LINES, "a carriage return in the body", b'"working"}\n', b'"working"}\r\n', "tampered"),
    (
        LINES,
        "an empty line in the body",
        b'{"section":"status"}',
        b'\n{"section":"status"}',
        "tampered",
    ),
    (LINES, "a member of the statement renamed", b'"body_hash"', b'"body_hasH"', "malformed"),
    (LINES, "a letter of the statement", b"small \xf0", b"smell \xf0", "tampered"),
    (LINES, "a count", b'"episodic":2', b'"episodic":3', "tampered"),
    (LINES, "the scope", b'{"kind":"full"}', b'{"kind":"filter"}', "tampered"),
    (LINES, "the preamble's version", b"satchel/1", b"satchel/2", "malformed"),
    (LINES, "a space in the preamble", b'{"format"', b'{ "format"', "malformed"),
    (LINES, "a space in the last line", b'{"signatures":', b'{"signatures": ', "malformed"),
    (
        LINES,
        "a member beside the statement",
        b'{"signatures":',
        b'{"also":1,"signatures":',
        "malformed",
    ),
    (LINES, "cut inside the body", b'{"section":"semantic"}', None, "malformed"),
    (LINES, "cut before the last line", b'{"signatures":', None, "malformed"),
    (LINES, "cut inside the last line", b'"statement":', None, "malformed"),
    (LINES, "cut to nothing", b'{"format"', None, "malformed"),
    (JSON, "a letter of an entry", b"window", b"Window", "tampered"),
    (JSON, "a letter of the statement", b"small \xf0", b"smell \xf0", "tampered"),
    (JSON, "the same number in another notation", b"99.5,", b"9.95e1,", "good"),
    (JSON, "a space between members", b'"components":', b'"components" : ', "good"),
    (JSON, "a number beyond 2^53-1", b'"nights":2', b'"nights":9007199254740992', "malformed"),
    (JSON, "a member of an entry twice", b'"nights":2', b'"nights":2,"nights":2', "malformed"),
    (JSON, "a byte that is never UTF-8", b"window", b"windo\xff", "malformed"),
    (JSON, "a lone surrogate", b"window", b"\\ud800", "malformed"),
    (JSON, "cut inside", b'"status":', None, "malformed"),
    (CBOR, "a letter of an entry", b"window", b"Window", "tampered"),
    (CBOR, "a letter of the statement", b"small \xf0", b"smell \xf0", "tampered"),
    (CBOR, "the magic bytes' version", b"PAM\x01", b"PAM\x02", "malformed"),
    (CBOR, "a count in two bytes", b"fnights\x02", b"fnights\x18\x02", "malformed"),
    (CBOR, "a number as a float", b"fnights\x02", b"fnights\xf9\x40\x00", "malformed"),
    (CBOR, "a number as bytes", b"fnights\x02", b"fnights\x40", "malformed"),
    (CBOR, "a number as undefined", b"fnights\x02", b"fnights\xf7", "malformed"),
    (CBOR, "another number", b"fnights\x02", b"fnights\x03", "tampered"),
    (CBOR, "invalid UTF-8", b"window", b"windo\xff", "malformed"),
    (CBOR, "cut inside", b"window", None, "malformed"),
    (CBOR, "an empty object before the value", b"PAM\x01", b"PAM\x01\xa0", "malformed"),
]


def variants(files: dict[str, bytes]) -> list[dict[str, Any]]:
    """Return the edits as offsets, plus those made by position alone."""
    made = [_edit(files[edit[0]], edit) for edit in EDITS]
    for base, data in files.items():
        expect = "good" if base == JSON else "malformed"
        made.append(_variant(base, "a byte more at the end", (len(data), 0), b"\n", expect))
    lines = files[LINES]
    last = (len(lines) - 1, 1)
    made.append(_variant(LINES, "no line end at the end", last, b"", "malformed"))
    made.append(_changed_signature(lines))
    made.append(_swapped_records(lines))
    return made


def _edit(data: bytes, edit: Edit) -> dict[str, Any]:
    base, name, old, new, expect = edit
    offset = data.index(old)
    length = len(data) - offset if new is None else len(old)
    return _variant(base, name, (offset, length), new or b"", expect)


def _variant(
    base: str, name: str, place: tuple[int, int], new: bytes, expect: str
) -> dict[str, Any]:
    offset, remove = place
    return {
        "name": name,
        "base": base,
        "offset": offset,
        "remove": remove,
        "replace_hex": new.hex(),
        "expect": [expect],
    }


def _changed_signature(lines: bytes) -> dict[str, Any]:
    """Return an edit to a signature of the right form that nobody made."""
    offset = lines.index(b'"sig":"') + len(b'"sig":"')
    letter = b"A" if lines[offset : offset + 1] != b"A" else b"B"
    return _variant(LINES, "a letter of the signature", (offset, 1), letter, "tampered")


def _swapped_records(lines: bytes) -> dict[str, Any]:
    """Return an edit that swaps two whole records: every id still holds."""
    start = lines.index(b'{"section":"episodic"}\n') + len(b'{"section":"episodic"}\n')
    middle = lines.index(b"\n", start) + 1
    end = lines.index(b"\n", middle) + 1
    swapped = lines[middle:end] + lines[start:middle]
    place = (start, end - start)
    return _variant(LINES, "two records in another order", place, swapped, "tampered")
