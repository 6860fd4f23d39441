"""The structure of sealed files: sections, encodings, statements, limits and compression."""

import gzip
import io
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from artifact_kit import TIME, entry, line, sealed_file, sections, signers
from hypothesis import given
from hypothesis import strategies as st

from satchel.artifact.body import (
    COMPONENTS,
    ORDER,
    BodyBuilder,
    FileScope,
    RootHash,
    SourceAgent,
    build,
    check_name,
    parse,
    rank,
)
from satchel.artifact.encodings import PREAMBLE, Encoding, open_artifact
from satchel.artifact.verification import Outcome, TrustPolicy, Verification
from satchel.artifact.verifier import VerificationRequest, verify_artifact
from satchel.crypto.canonical import DEFAULT_LIMITS, Limits, canonical
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import digest
from satchel.errors import MalformedError, SatchelError


@pytest.fixture
def judge(tmp_path: Path, key: SigningKey) -> Any:
    """Return a function that writes bytes to a file and verifies it in depth, trusting ``key``."""

    def verify(data: bytes, **limits: int) -> Verification:
        path = tmp_path / "file"
        path.write_bytes(data)
        policy = TrustPolicy(keys=frozenset([key.did]))
        return verify_artifact(
            path, policy, VerificationRequest(deep=True, limits=Limits(**limits))
        )

    return verify


def assert_malformed(result: Verification, *words: str) -> None:
    """Assert that a file was refused as malformed, with these words."""
    assert (result.outcome, result.exit_status) == (Outcome.MALFORMED, 4)
    told = " ".join(f"{found.message} {found.field}" for found in result.findings)
    assert all(word in told for word in words), told


# -- the body ----------------------------------------------------------------------------------


@given(
    st.dictionaries(
        st.sampled_from([*ORDER, "acme", "bolt", "zeta"]),
        st.lists(
            st.dictionaries(st.sampled_from("abc"), st.integers(0, 9)), min_size=1, max_size=3
        ),
    ),
    st.randoms(use_true_random=False),
)
def test_a_body_has_its_sections_in_the_specified_order(
    held: dict[str, list[dict[str, int]]], random: Any
) -> None:
    """For all sections added in all orders: body, root and counts are as specified."""
    rows = [(name, canonical(dict(value))) for name, part in held.items() for value in part]
    names = list(held)
    random.shuffle(names)
    builder, sink = BodyBuilder(), io.BytesIO()
    for wanted in names:
        for name, data in rows:
            if name == wanted:
                builder.add(name, data)
    totals = builder.write(sink)
    expected = b""
    for name in sorted(held, key=rank):
        expected += canonical({"section": name}) + b"\n"
        expected += b"".join(canonical(dict(value)) + b"\n" for value in held[name])
    assert sink.getvalue() == expected
    assert totals.body_hash == digest(expected)
    components = {name: held.get(name, []) for name in COMPONENTS}
    assert totals.root_hash == digest(canonical(components))
    assert totals.counts == {name: len(part) for name, part in held.items()}


@given(st.lists(st.integers(1, 40), max_size=6), st.data())
def test_the_root_does_not_depend_on_chunk_boundaries(cuts: list[int], data: st.DataObject) -> None:
    """For all cuts of the lines into chunks, also inside a record."""
    held = {
        name: [{"n": number, "c": name} for number in range(data.draw(st.integers(0, 3)))]
        for name in COMPONENTS
    }
    root = RootHash()
    for name in COMPONENTS:
        lines = b"".join(canonical(dict(value)) + b"\n" for value in held[name])
        for cut in cuts:
            if len(lines) > cut:
                root.feed(name, lines[:cut])
                lines = lines[cut:]
        if lines:
            root.feed(name, lines)
    assert root.finish() == digest(canonical(held))


@pytest.mark.parametrize(
    "name",
    [
        *("statement", "signatures", "components", "pam_version", "metadata", "root_hash"),
        *("signature", "", "A", "a-b", "1a", "a\n", "a" * 65, "\u00e9", "_a", "a b"),
    ],
)
def test_a_reserved_or_malformed_section_name_is_refused(judge: Any, name: str) -> None:
    """A section with the name of a part of the file would be read as that part."""
    with pytest.raises(MalformedError):
        check_name(name)
    builder = BodyBuilder()
    with pytest.raises(MalformedError):
        builder.add(name, b"{}")
    body = canonical({"section": name}) + b'\n{"a":1}\n'
    statement = build(body_hash=digest(body), root_hash=digest(b""), counts={"x": 1})
    last = canonical({"signatures": [], "statement": statement}) + b"\n"
    assert_malformed(judge(PREAMBLE + body + last))


@pytest.mark.parametrize("section", ["status", "acme", "semantic"])
def test_an_empty_section_is_refused_in_every_encoding(
    judge: Any, key: SigningKey, section: str
) -> None:
    """An empty section would be a second spelling of its absence."""
    lines = sealed_file(sections(entry("tea")), key)
    marker = canonical({"section": section}) + b"\n"
    body = marker + lines[len(PREAMBLE) : lines.rindex(b"\n", 0, -1) + 1]
    trailer = json.loads(lines.splitlines()[-1])
    trailer["statement"]["body_hash"] = digest(body)
    trailer["signatures"] = []
    assert_malformed(judge(PREAMBLE + body + canonical(trailer) + b"\n"))
    document = json.loads(sealed_file(sections(entry("tea")), key, encoding=Encoding.JSON))
    if section != "semantic":
        assert_malformed(judge(canonical({**document, section: []})), "empty section")


def test_an_artifact_without_records_is_valid(judge: Any, key: SigningKey) -> None:
    """An empty memory can be sealed, in each encoding."""
    for encoding in Encoding:
        assert judge(sealed_file({}, key, encoding=encoding)).outcome is Outcome.GOOD


def test_the_three_encodings_contain_the_same_value(key: SigningKey, tmp_path: Path) -> None:
    """Statement, signatures and body are the same bytes, so one signature covers all."""
    held = sections(entry("tea"), entry("milk"), acme=[{"n": 1e-7, "\U0001f600": [1.5]}])
    found = set()
    for encoding in Encoding:
        path = tmp_path / encoding
        path.write_bytes(sealed_file(held, key, encoding=encoding))
        with open_artifact(path, DEFAULT_LIMITS) as artifact:
            body = b"".join(artifact.body.chunks())
            found.add((body, canonical(artifact.statement_value), artifact.signatures[0].sig))
            assert artifact.encoding is encoding
    assert len(found) == 1


def test_a_document_that_mixes_two_formats_is_refused(judge: Any, key: SigningKey) -> None:
    """A file must not verify as one format and be read as another."""
    document = json.loads(sealed_file(sections(entry("tea")), key, encoding=Encoding.JSON))
    extras: list[dict[str, Any]] = [{"pam_version": "1.0"}, {"semantic": []}, {"signature": "x"}]
    for extra in extras:
        assert_malformed(judge(json.dumps({**document, **extra}).encode()))


# -- the statement -----------------------------------------------------------------------------


def statement_with(**members: Any) -> dict[str, Any]:
    """Return a statement with changed or extra members; None removes one."""
    good = build(
        body_hash=digest(b""), root_hash=digest(b"x"), counts={}, extra={"created_at": TIME}
    )
    return {k: v for k, v in (good | members).items() if v is not ...}


@pytest.mark.parametrize(
    "members",
    [
        {"format": "satchel/2"},
        {"format": ...},
        {"created_at": "2025-03-04"},
        {"created_at": "2025-02-29T00:00:00.000000Z"},
        {"created_at": ...},
        {"body_hash": "x"},
        {"body_hash": ...},
        {"root_hash": ...},
        {"counts": ...},
        {"counts": {"semantic": 0}},
        {"counts": {"semantic": -1}},
        {"counts": {"semantic": 1.5}},
        {"counts": {"semantic": True}},
        {"counts": []},
        {"scope": {"kind": "all"}},
        {"scope": {}},
        {"scope": ...},
        {"source_agent": {"name": 5}},
        {"source_agent": {}},
        {"metadata": []},
        {"metadata": {}},
        {"tokens": []},
        {"mood": None},
        {"mood": []},
        {"critical": ["mood"]},
        {"critical": ["mood"], "mood": 1},
        {"critical": "scope"},
        {"bank": digest(b"b")},
        {"head": {"signed": 1}},
    ],
    ids=str,
)
def test_a_statement_of_another_shape_is_malformed(members: dict[str, Any]) -> None:
    """Strict types, no empty member, no unknown critical member."""
    with pytest.raises(MalformedError):
        parse(statement_with(**members), DEFAULT_LIMITS)


def test_an_unknown_statement_member_is_preserved_and_signed(
    key: SigningKey, tmp_path: Path
) -> None:
    """A reader need not know it, unless it is critical."""
    path = tmp_path / "f"
    path.write_bytes(sealed_file({}, key, mood={"calm": 1}, critical=["scope", "counts"]))
    with open_artifact(path, DEFAULT_LIMITS) as artifact:
        assert artifact.statement_value["mood"] == {"calm": 1}


def test_a_statement_has_only_the_known_members_of_its_source() -> None:
    """Unknown members of the agent are omitted."""
    made = build(
        body_hash=digest(b""),
        root_hash=digest(b""),
        counts={},
        scope=FileScope(kind="filter", filter={"tags": ["a"]}),
        source_agent=SourceAgent(name="guide"),
    )
    assert made["source_agent"] == {"name": "guide"}
    assert made["scope"] == {"kind": "filter", "filter": {"tags": ["a"]}}
    assert "source_agent" not in build(
        body_hash=digest(b""), root_hash=digest(b""), counts={}, source_agent=SourceAgent()
    )


@pytest.mark.parametrize("encoding", Encoding)
def test_a_statement_is_limited_in_size_tokens_and_signatures(
    judge: Any, key: SigningKey, encoding: Encoding
) -> None:
    """At each limit, and one over it."""

    def file(*keys: SigningKey, **members: Any) -> bytes:
        return sealed_file({}, *(keys or (key,)), encoding=encoding, **members)

    metadata = {"a": "x" * 1000}
    size = len(
        canonical(
            build(
                body_hash=digest(b""),
                root_hash=digest(b""),
                counts={},
                extra={"metadata": metadata},
            )
        )
    )
    assert judge(file(metadata=metadata), statement_bytes=size).outcome is Outcome.GOOD
    assert_malformed(judge(file(metadata=metadata), statement_bytes=size - 1), str(size))
    tokens = [{"payload": number} for number in range(3)]
    assert judge(file(tokens=tokens), tokens=3).outcome is Outcome.GOOD
    assert_malformed(judge(file(tokens=tokens), tokens=2), "tokens")
    keys = [*signers(2), key]
    assert judge(file(*keys), signatures=3).outcome is Outcome.GOOD
    assert_malformed(judge(file(*keys), signatures=2), "signatures")


@pytest.mark.parametrize("encoding", Encoding)
def test_a_statement_nests_to_the_same_depth_in_every_encoding(
    judge: Any, key: SigningKey, encoding: Encoding
) -> None:
    """All encodings accept the same depth and refuse the same depth."""

    def nested(depth: int) -> Any:
        return {"a": nested(depth - 1)} if depth > 1 else {"b": 1}

    assert judge(sealed_file({}, key, encoding=encoding, mood=nested(63))).outcome is Outcome.GOOD
    with pytest.raises(SatchelError):
        sealed_file({}, key, encoding=encoding, mood=nested(64))
    assert (
        judge(sealed_file(sections(acme=[{"x": nested(63)}]), key, encoding=encoding)).outcome
        is Outcome.GOOD
    )


def test_a_file_of_one_endless_line_costs_a_bounded_read(judge: Any) -> None:
    """The last line is not searched for in the whole file."""
    data = PREAMBLE + b"x" * 100_000 + b"\n"
    assert_malformed(judge(data, statement_bytes=1000))


# -- limits ------------------------------------------------------------------------------------


def test_lines_records_and_documents_are_limited_in_size(judge: Any, key: SigningKey) -> None:
    """At each limit, and one over it."""
    tea, milk = entry("tea"), entry("milk")
    longest = max(len(line(tea)), len(line(milk)), 30) + 1
    data = sealed_file(sections(tea, milk), key)
    assert judge(data, line_bytes=longest).outcome is Outcome.GOOD
    assert_malformed(judge(data, line_bytes=longest - 2), "longer than")
    assert judge(data, records=2).outcome is Outcome.GOOD
    assert_malformed(judge(data, records=1), "records")
    assert_malformed(judge(data, entry_bytes=50), "over the limit")
    for encoding in (Encoding.JSON, Encoding.CBOR):
        document = sealed_file(sections(tea), key, encoding=encoding)
        assert judge(document, document_bytes=len(document)).outcome is Outcome.GOOD
        assert_malformed(judge(document, document_bytes=len(document) - 1), "document")


# -- compression -------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", Encoding)
def test_a_compressed_file_verifies_like_the_plain_one(
    judge: Any, key: SigningKey, encoding: Encoding
) -> None:
    """Compression is outside of the signature."""
    data = sealed_file(sections(entry("tea")), key, encoding=encoding)
    result = judge(gzip.compress(data))
    assert result.outcome is Outcome.GOOD
    assert result.encoding == encoding.value
    assert judge(gzip.compress(data.replace(b"tea", b"TEA"))).outcome is Outcome.TAMPERED


@pytest.mark.parametrize("content", [b"\0" * 3_000_000, PREAMBLE + b"{}\n" * 1_000_000])
def test_a_gzip_bomb_is_refused_before_it_is_expanded(judge: Any, content: bytes) -> None:
    """The limit is two hundred times the size of the file, above a fixed allowance."""
    bomb = gzip.compress(content)
    assert len(bomb) < 30_000
    assert_malformed(judge(bomb, expansion=20, expansion_free_bytes=100_000), "expands")
    double = gzip.compress(bomb)
    with pytest.raises(SatchelError):
        judge(double, expansion=20, expansion_free_bytes=100_000)


def test_a_small_file_may_expand_by_any_ratio(judge: Any, key: SigningKey) -> None:
    """The ratio applies only above the allowance."""
    data = sealed_file(sections(entry("x" * 50_000)), key)
    assert judge(gzip.compress(data), expansion=1, expansion_free_bytes=2**20).outcome is (
        Outcome.GOOD
    )


def test_a_truncated_or_damaged_gzip_file_is_malformed_at_every_offset(
    judge: Any, key: SigningKey
) -> None:
    """No prefix of a compressed file passes for a file."""
    data = gzip.compress(sealed_file(sections(entry("tea")), key))
    for length in range(2, len(data)):
        assert_malformed(judge(data[:length]))
    for place in range(2, len(data), 7):
        damaged = data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :]
        result = judge(damaged)
        # The bytes for time and system in a gzip header are not checked.
        assert result.outcome is not Outcome.GOOD or place < 10


def test_data_after_the_compressed_member_is_malformed(judge: Any, key: SigningKey) -> None:
    """A second member or a byte would be read by one tool and not by another."""
    data = gzip.compress(sealed_file(sections(entry("tea")), key))
    for more in (b"\0", b"x", gzip.compress(b""), data):
        assert_malformed(judge(data + more), "after the compressed data")


def test_raw_zlib_is_not_accepted_as_gzip(judge: Any, key: SigningKey) -> None:
    """There is one compression, recognized by its first bytes."""
    with pytest.raises(SatchelError):
        judge(zlib.compress(sealed_file(sections(entry("tea")), key)))


@pytest.mark.parametrize(
    ("claims", "outcome"),
    [
        ({"source_agent": {"name": None}}, Outcome.MALFORMED),
        ({"source_agent": {"name": "helper"}}, Outcome.GOOD),
        ({"scope": {"kind": "increment"}}, Outcome.MALFORMED),
        ({"scope": {"kind": "increment", "since_size": -1}}, Outcome.MALFORMED),
        ({"scope": {"kind": "increment", "since_size": 3}}, Outcome.GOOD),
    ],
    ids=str,
)
def test_a_null_name_and_an_increment_without_a_start_are_malformed(
    claims: dict[str, Any], outcome: Outcome, key: SigningKey, tmp_path: Path
) -> None:
    """SEAL-3.15: an unknown name is absent; an increment names its start."""
    path = tmp_path / "f.pam.jsonl"
    path.write_bytes(sealed_file(sections(entry("tea")), key, claims=claims))
    assert verify_artifact(path, TrustPolicy(keys=frozenset([key.did]))).outcome is outcome
