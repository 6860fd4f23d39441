"""Invalid input of every kind: a typed error with its location, quickly, and nothing written."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from satchel.cli.main import run

if TYPE_CHECKING:
    from satchel.crypto.keys import SigningKey
    from tests.hostile.conftest import Value

DEEP = 100_000
TEXT = ("pam", "pam.jsonl")
Refused = Callable[..., dict[str, Any]]
Put = Callable[[str, str, str], bytes]


@pytest.fixture
def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Refused:
    """Convert a file that must be refused, and return the error; nothing may be written."""

    def call(data: bytes | Path, *options: str, status: int = 4) -> dict[str, Any]:
        source, target = tmp_path / "input", tmp_path / "out" / "target.pam"
        if isinstance(data, bytes):
            source.write_bytes(data)
        else:
            source = data
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(b"existing")
        capsys.readouterr()
        found = run(["convert", str(source), str(target), "--overwrite", "--json", *options])
        printed = capsys.readouterr()
        assert found == status, printed.err
        assert printed.out == ""
        assert [path.name for path in target.parent.iterdir()] == ["target.pam"]
        assert target.read_bytes() == b"existing"
        assert len(printed.err.encode()) < 2000
        problem: dict[str, Any] = json.loads(printed.err)["error"]
        assert problem["file"] == str(source)
        return problem

    return call


def mem0(metadata: str) -> bytes:
    """Return a Mem0 file whose second memory has this metadata."""
    return f'[{{"memory": "x"}},\n{{"memory": "y", "metadata": {metadata}}}]'.encode()


@pytest.fixture
def with_text(samples: dict[str, bytes], value: Value, key: SigningKey) -> Put:
    """Insert a text into the statement, or into a signed record."""

    def put(name: str, where: str, text: str) -> bytes:
        old = b'"later":[1]' if where == "statement" else b'"free":[1,0.5]'
        new = old.split(b":")[0] + b":" + text.encode()
        assert old in samples[name]
        if where == "record" and name == "pam.jsonl":
            return value.signed_body(value.body().replace(old, new), key)
        return samples[name].replace(old, new)

    return put


NESTED = {
    "lists": lambda depth: "[" * depth + "]" * depth,
    "objects": lambda depth: '{"a":' * depth + "1" + "}" * depth,
    "objects with odd keys": lambda depth: '{"🍵":' * depth + "1e-7" + "}" * depth,
    "dollar keys": lambda depth: '{"$int":' * depth + "1" + "}" * depth,
    "surrogates inside": lambda depth: "[" * depth + r'"\ud83c\udf75"' + "]" * depth,
    "never closed": lambda depth: "[" * depth,
}


@pytest.mark.parametrize("depth", [65, 480, 700, 950, DEEP])
@pytest.mark.parametrize("kind", NESTED)
def test_deep_nesting_in_a_foreign_file_is_refused_with_its_line(
    refused: Refused, kind: str, depth: int
) -> None:
    """Attack: nesting that exhausts the stack of the parser."""
    problem = refused(mem0(NESTED[kind](depth)), "--from", "mem0")
    assert problem["line"] == 2
    if depth == 65 and kind != "never closed":
        assert problem["field"].startswith("metadata/")


@pytest.mark.in_check(32)
@pytest.mark.parametrize("depth", [65, 480, 950, DEEP])
@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize("name", TEXT)
@pytest.mark.parametrize("where", ["statement", "record"])
def test_deep_nesting_in_a_sealed_file_is_refused(
    refused: Refused, with_text: Put, name: str, where: str, kind: str, depth: int
) -> None:
    """In signed parts, before the signature is verified."""
    refused(with_text(name, where, NESTED[kind](depth)))


@pytest.mark.parametrize("depth", [65, 950, DEEP])
@pytest.mark.parametrize("opening", [b"\x81", b"\xa1\x61a"], ids=["lists", "maps"])
def test_deep_nesting_in_cbor_is_refused_with_its_byte(
    refused: Refused, samples: dict[str, bytes], depth: int, opening: bytes
) -> None:
    """In the binary encoding."""
    data = samples["pam.cbor"].replace(b"later\x81\x01", b"later" + opening * depth + b"\x01")
    assert refused(data)["byte"] > 0


# Invalid JSON, as (text in place of a value, a word of the message).
NOT_JSON = {
    "duplicate keys": ('{"a": 1, "a": 2}', "twice"),
    "duplicate keys, one escaped": (r'{"a": 1, "\u0061": 2}', "twice"),
    "lone surrogate": (r'"\ud800"', "surrogate"),
    "lone surrogate in a key": (r'{"\udfff": 1}', "surrogate"),
    "pair the wrong way round": (r'"\udf75\ud83c"', "surrogate"),
    "too many digits": ("9" * 5000, ""),
    "control character": ('"\x01"', ""),
    "NUL": ('"\x00"', ""),
    "single quotes": ("'a'", ""),
    "trailing comma": ("[1,]", ""),
    "leading zero": ("[01]", ""),
    "plus sign": ("[+1]", ""),
    "hexadecimal": ("[0x10]", ""),
    "comment": ("[/**/1]", ""),
    "bad escape": (r'"\x41"', ""),
    "undefined": ("undefined", ""),
}
NOT_CANONICAL = {
    "NaN": ("NaN", ""),
    "Infinity": ("-Infinity", ""),
    "1e400": ("1e400", ""),
    "integer beyond 2^53": ("9007199254740993", ""),
    "integral float beyond 2^53": ("1e300", ""),
}


@pytest.mark.parametrize("kind", NOT_JSON)
def test_invalid_json_in_a_foreign_file_is_refused_with_its_line(
    refused: Refused, kind: str
) -> None:
    """Syntax that parsers treat differently is an error, never a guess."""
    text, word = NOT_JSON[kind]
    problem = refused(mem0(text), "--from", "mem0")
    assert problem["line"] == 2
    assert word in problem["message"]


@pytest.mark.in_check(28)
@pytest.mark.parametrize("kind", NOT_JSON | NOT_CANONICAL)
@pytest.mark.parametrize("name", TEXT)
@pytest.mark.parametrize("where", ["statement", "record"])
def test_non_canonical_json_in_a_sealed_file_is_refused(
    refused: Refused, with_text: Put, name: str, where: str, kind: str
) -> None:
    """Sealed files have no value that two readers could read differently."""
    refused(with_text(name, where, (NOT_JSON | NOT_CANONICAL)[kind][0]))


@pytest.mark.parametrize(
    "literal",
    ["NaN", "Infinity", "-Infinity", "123456789012345678901234567890", "-9007199254740993"],
)
def test_numbers_of_other_products_round_trip(tmp_path: Path, literal: str) -> None:
    """Python writes NaN and large integers; they are stored and written back unchanged."""
    source, sealed, back = (tmp_path / name for name in ("in.json", "a.pam", "out.mem0.json"))
    source.write_text(f'[{{"id": "1", "memory": "x", "metadata": {{"n": {literal}}}}}]')
    assert run(["convert", str(source), str(sealed)]) == 0
    assert b'{"n":{"$' in sealed.read_bytes()
    assert run(["convert", str(sealed), str(back)]) == 0
    assert f'"n": {literal}' in back.read_text()


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ('[{"memory": 5}]', "0/memory"),
        ('[{"memory": "x"}, {"memory": null}]', "1/memory"),
        ('[{"memory": "x"}, 5]', "1"),
        ('{"results": [{"memory": "x"}], "relations": [5]}', "relations/0"),
        ('{"results": [{"text": "x"}]}', "results/0/memory"),
    ],
)
def test_wrong_types_are_refused_with_their_field(refused: Refused, data: str, field: str) -> None:
    """No value is coerced."""
    assert refused(data.encode(), "--from", "mem0")["field"] == field


@pytest.mark.parametrize("data", ["5", "null", '"x"', "[5]", "{}", '{"results": {}}', "[[]]"])
def test_a_document_of_another_shape_is_refused(refused: Refused, data: str) -> None:
    """With and without ``--from``."""
    refused(data.encode(), "--from", "mem0")
    refused(data.encode(), status=2)


@pytest.mark.parametrize("options", [[], ["--from", "mem0"], ["--from", "pam"]], ids=" ".join)
def test_an_empty_file_is_refused_as_empty(refused: Refused, options: list[str]) -> None:
    """An empty import is not a success."""
    assert refused(b"", *options)["code"] == "input.empty"
    assert refused(b'{"results": []}')["code"] == "input.empty"


@pytest.mark.parametrize("name", ["mem0", *TEXT])
@pytest.mark.parametrize("how", ["latin-1", "utf-16", "utf-32", "overlong", "surrogate bytes"])
def test_other_text_encodings_are_refused(
    refused: Refused, samples: dict[str, bytes], name: str, how: str
) -> None:
    """UTF-8 only; a guess would change the text."""
    good = mem0('"Größe"') if name == "mem0" else samples[name]
    data = {
        "overlong": lambda: good.replace(b"y", b"\xc0\xaf").replace(b"Tee", b"\xc0\xaf"),
        "surrogate bytes": lambda: good.replace(b"y", b"\xed\xa0\x80").replace(
            b"Tee", b"\xed\xa0\x80"
        ),
        "latin-1": lambda: good.replace(b"y", b"\xe9").replace(b"Tee", b"\xe9"),
    }.get(how, lambda: good.decode().encode(how))()
    refused(
        data,
        "--from",
        {"pam.jsonl": "pam_jsonl"}.get(name, name),
        status=2 if name != "mem0" and how.startswith("utf") else 4,
    )


def test_a_byte_order_mark_in_a_sealed_file_is_refused(
    refused: Refused, samples: dict[str, bytes]
) -> None:
    """It is not skipped: the signed bytes have none."""
    for data in samples.values():
        refused(b"\xef\xbb\xbf" + data, status=2)


@pytest.mark.parametrize("kind", ["folder", "fifo", "device", "loop", "missing", "long"])
def test_pipes_devices_folders_and_loops_are_refused_immediately(
    refused: Refused, tmp_path: Path, kind: str
) -> None:
    """Attack: a pipe or a device that never ends, a link to itself."""
    path = tmp_path / ("n" * 300 if kind == "long" else "it")
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "device":
        path = Path("/dev/zero")
    assert refused(path, "--from", "mem0")["code"] == "input.unreadable"
    for name in ("pam", "pam_jsonl", "pam_cbor", "pam_sdk"):
        refused(path, "--from", name)


def test_a_truncated_or_damaged_gzip_is_refused(
    refused: Refused, samples: dict[str, bytes]
) -> None:
    """Truncated, doubled, with trailing bytes, compressed twice, or empty."""
    packed = samples["pam.jsonl.gz"]
    for data in (packed[:-1], packed[:-9], packed[:40], packed + b"x", packed + packed):
        refused(data, "--from", "pam_jsonl")
    refused(gzip.compress(packed), "--from", "pam_jsonl", status=2)
    refused(gzip.compress(b""), "--from", "pam_jsonl")


def test_a_gzip_bomb_is_refused_at_the_expansion_limit(
    refused: Refused, samples: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: a small file that fills the disk."""
    monkeypatch.setenv("SATCHEL_LIMITS_EXPANSION_FREE_BYTES", "100000")
    bomb = gzip.compress(samples["pam.jsonl"][:21] + b" " * 50_000_000)
    problem = refused(bomb, "--from", "pam_jsonl")
    assert "200 times" in problem["message"]


@pytest.mark.parametrize(
    ("name", "limit", "bound"),
    [
        ("pam.jsonl", "LINE_BYTES", 100),
        ("pam.jsonl", "STATEMENT_BYTES", 100),
        ("pam.jsonl", "ENTRY_BYTES", 100),
        ("pam.jsonl", "RECORDS", 2),
        ("pam.jsonl", "PARENTS", 0),
        ("pam.jsonl", "SIGNATURES", 0),
        ("pam.jsonl.gz", "STATEMENT_BYTES", 100),
        ("pam", "DOCUMENT_BYTES", 1000),
        ("pam", "STATEMENT_BYTES", 100),
        ("pam", "RECORDS", 2),
        ("pam.cbor", "DOCUMENT_BYTES", 1000),
        ("pam.cbor", "STATEMENT_BYTES", 100),
        ("pam.cbor", "ENTRY_BYTES", 100),
        ("pam.cbor", "RECORDS", 2),
    ],
)
def test_a_file_over_a_configured_limit_is_refused(
    refused: Refused,
    samples: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    limit: str,
    bound: int,
) -> None:
    """Every documented limit is enforced."""
    monkeypatch.setenv(f"SATCHEL_LIMITS_{limit}", str(bound))
    refused(samples[name])


@pytest.mark.parametrize("name", ["mem0", *TEXT])
def test_one_gigantic_value_is_refused_at_the_limit(
    refused: Refused, with_text: Put, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Attack: an endless value is not collected in memory."""
    monkeypatch.setenv("SATCHEL_LIMITS_LINE_BYTES", "100000")
    monkeypatch.setenv("SATCHEL_LIMITS_ENTRY_BYTES", "50000")
    data = mem0(f'"{"x" * 3_000_000}"')
    if name != "mem0":
        data = with_text(name, "record", f'"{"x" * 3_000_000}"')
    refused(data)


def test_a_million_section_headers_are_refused(
    refused: Refused, value: Value, key: SigningKey
) -> None:
    """Attack: structure without content."""
    data = value.signed_body(b'{"section":"episodic"}\n' * 1_000_000, key)
    assert "empty" in refused(data)["message"]


@pytest.mark.parametrize(
    "claim",
    [
        b"\xbb" + b"\xff" * 8,
        b"\xa1\x7b\x7f" + b"\xff" * 7,
        b"\xa1\x69statement\x9b\x00\x00\x00\x10\x00\x00\x00\x00",
        b"\xa1\x69statement\x7b\x00\x00\x00\x10\x00\x00\x00\x00",
        b"\xa1\x69statement\xbb\x00\x00\x00\x10\x00\x00\x00\x00",
        b"\xbf\x69statement\x01\xff",
    ],
    ids=["map", "key", "list", "text", "members", "indefinite"],
)
def test_a_length_claimed_by_cbor_allocates_no_memory(refused: Refused, claim: bytes) -> None:
    """Attack: eight bytes that claim exabytes."""
    refused(b"PAM\x01" + claim)


@pytest.mark.parametrize(
    "odd",
    [b"\xc0\xa1", b"\x41a", b"\xf7", b"\xf9\x7e\x00", b"\xf9\x7c\x00", b"\xf8\x20", b"\x1c",
     b"\x18\x01", b"\x9f\x01\xff", b"\x1b" + b"\xff" * 8, b"\xfb" + b"\x00" * 8, b"\xd8\x1c\x01",
     b"\xc2\x41\x01", b"\xa1\x01\x01", b"\x61\xff"],
    ids=lambda value: value.hex(),
)  # fmt: skip
def test_cbor_values_without_a_json_form_are_refused(
    refused: Refused, samples: dict[str, bytes], odd: bytes
) -> None:
    """Tags, byte strings, undefined, NaN, bignums, other keys, other lengths."""
    refused(samples["pam.cbor"].replace(b"later\x81\x01", b"later\x81" + odd))


@pytest.mark.in_check(10)
@pytest.mark.parametrize("statement", [None, 5, [], {}, {"format": "satchel/2"}, "x"], ids=str)
@pytest.mark.parametrize("signatures", [None, {}, [5], [{}], [{"key": 1, "sig": 2}]], ids=str)
def test_a_header_of_another_shape_is_refused(
    refused: Refused, value: Value, statement: Any, signatures: Any
) -> None:
    """Statement and signatures, in every encoding."""
    from dataclasses import replace

    from satchel.artifact.encodings import Encoding

    for encoding in Encoding:
        refused(replace(value, statement=statement).encoded(encoding))
        refused(replace(value, signatures=signatures).encoded(encoding))
