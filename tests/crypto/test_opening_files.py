"""Opening sealed files: structure, limits and compression, before anything is believed."""

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
    """Write bytes to a file and verify it in depth, with ``key`` trusted."""

    def verify(data: bytes, **limits: int) -> Verification:
        path = tmp_path / "file"
        path.write_bytes(data)
        policy = TrustPolicy(keys=frozenset([key.did]))
        return verify_artifact(
            path, policy, VerificationRequest(deep=True, limits=Limits(**limits))
        )

    return verify


def malformed(result: Verification, *words: str) -> None:
    """Require that a file was refused as malformed, in these words."""
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
def test_every_body_is_the_sections_in_their_one_order(
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
def test_the_root_does_not_depend_on_how_lines_are_cut(
    cuts: list[int], data: st.DataObject
) -> None:
    """For all cuts of the lines into chunks, also inside a record, the root is the same."""
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
def test_a_reserved_or_misshapen_section_name_is_refused(judge: Any, name: str) -> None:
    """A section named like a part of a file would read as that part."""
    with pytest.raises(MalformedError):
        check_name(name)
    builder = BodyBuilder()
    with pytest.raises(MalformedError):
        builder.add(name, b"{}")
    body = canonical({"section": name}) + b'\n{"a":1}\n'
    statement = build(body_hash=digest(body), root_hash=digest(b""), counts={"x": 1})
    last = canonical({"signatures": [], "statement": statement}) + b"\n"
    malformed(judge(PREAMBLE + body + last))


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
    malformed(judge(PREAMBLE + body + canonical(trailer) + b"\n"))
    document = json.loads(sealed_file(sections(entry("tea")), key, encoding=Encoding.JSON))
    if section != "semantic":
        malformed(judge(canonical({**document, section: []})), "empty section")


def test_a_file_without_any_record_is_a_file(judge: Any, key: SigningKey) -> None:
    """An empty memory can be sealed, in each encoding."""
    for encoding in Encoding:
        assert judge(sealed_file({}, key, encoding=encoding)).outcome is Outcome.GOOD


def test_the_three_encodings_hold_one_value(key: SigningKey, tmp_path: Path) -> None:
    """Statement, signatures and body are the same to the byte, so one signature serves all."""
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
    """A file must not verify as one thing and be read as another."""
    document = json.loads(sealed_file(sections(entry("tea")), key, encoding=Encoding.JSON))
    extras: list[dict[str, Any]] = [{"pam_version": "1.0"}, {"semantic": []}, {"signature": "x"}]
    for extra in extras:
        malformed(judge(json.dumps({**document, **extra}).encode()))


# -- the statement -----------------------------------------------------------------------------


def said(**members: Any) -> dict[str, Any]:
    """Return a statement with other or further members; None takes one out."""
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
    """Strict on types, no empty member, no critical member that we do not know."""
    with pytest.raises(MalformedError):
        parse(said(**members), DEFAULT_LIMITS)


def test_a_member_of_the_future_is_kept_and_signed(key: SigningKey, tmp_path: Path) -> None:
    """Unless it is critical, a reader need not know it."""
    path = tmp_path / "f"
    path.write_bytes(sealed_file({}, key, mood={"calm": 1}, critical=["scope", "counts"]))
    with open_artifact(path, DEFAULT_LIMITS) as artifact:
        assert artifact.statement_value["mood"] == {"calm": 1}


def test_what_a_statement_says_of_its_source() -> None:
    """Only what is known of the agent is written."""
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
def test_the_limits_on_a_statement_hold(judge: Any, key: SigningKey, encoding: Encoding) -> None:
    """Its size, its tokens, its signatures: at the bound, and one over it."""

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
    malformed(judge(file(metadata=metadata), statement_bytes=size - 1), str(size))
    tokens = [{"payload": number} for number in range(3)]
    assert judge(file(tokens=tokens), tokens=3).outcome is Outcome.GOOD
    malformed(judge(file(tokens=tokens), tokens=2), "tokens")
    keys = [*signers(2), key]
    assert judge(file(*keys), signatures=3).outcome is Outcome.GOOD
    malformed(judge(file(*keys), signatures=2), "signatures")


@pytest.mark.parametrize("encoding", Encoding)
def test_a_statement_nests_to_the_same_depth_in_every_encoding(
    judge: Any, key: SigningKey, encoding: Encoding
) -> None:
    """What one encoding holds the others hold, and what one refuses all refuse."""

    def nested(depth: int) -> Any:
        return {"a": nested(depth - 1)} if depth > 1 else {"b": 1}

    assert judge(sealed_file({}, key, encoding=encoding, mood=nested(63))).outcome is Outcome.GOOD
    with pytest.raises(SatchelError):
        sealed_file({}, key, encoding=encoding, mood=nested(64))
    assert (
        judge(sealed_file(sections(acme=[{"x": nested(63)}]), key, encoding=encoding)).outcome
        is Outcome.GOOD
    )


def test_a_last_line_without_end_is_not_searched_for_in_the_whole_file(judge: Any) -> None:
    """A file of one endless line costs a bounded read."""
    data = PREAMBLE + b"x" * 100_000 + b"\n"
    malformed(judge(data, statement_bytes=1000))


# -- bounds on the rest ------------------------------------------------------------------------


def test_the_limits_on_lines_records_and_documents_hold(judge: Any, key: SigningKey) -> None:
    """Each bound, at it and one over it."""
    tea, milk = entry("tea"), entry("milk")
    longest = max(len(line(tea)), len(line(milk)), 30) + 1
    data = sealed_file(sections(tea, milk), key)
    assert judge(data, line_bytes=longest).outcome is Outcome.GOOD
    malformed(judge(data, line_bytes=longest - 2), "longer than")
    assert judge(data, records=2).outcome is Outcome.GOOD
    malformed(judge(data, records=1), "records")
    malformed(judge(data, entry_bytes=50), "over the limit")
    for encoding in (Encoding.JSON, Encoding.CBOR):
        document = sealed_file(sections(tea), key, encoding=encoding)
        assert judge(document, document_bytes=len(document)).outcome is Outcome.GOOD
        malformed(judge(document, document_bytes=len(document) - 1), "document")


# -- compression -------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", Encoding)
def test_a_compressed_file_verifies_like_the_plain_one(
    judge: Any, key: SigningKey, encoding: Encoding
) -> None:
    """Compression is outside the signature."""
    data = sealed_file(sections(entry("tea")), key, encoding=encoding)
    result = judge(gzip.compress(data))
    assert result.outcome is Outcome.GOOD
    assert result.encoding == encoding.value
    assert judge(gzip.compress(data.replace(b"tea", b"TEA"))).outcome is Outcome.TAMPERED


@pytest.mark.parametrize("content", [b"\0" * 3_000_000, PREAMBLE + b"{}\n" * 1_000_000])
def test_a_gzip_bomb_is_refused_before_it_is_written_out(judge: Any, content: bytes) -> None:
    """Two hundred times its size is the end, once beyond what is free."""
    bomb = gzip.compress(content)
    assert len(bomb) < 30_000
    malformed(judge(bomb, expansion=20, expansion_free_bytes=100_000), "expands")
    double = gzip.compress(bomb)
    with pytest.raises(SatchelError):
        judge(double, expansion=20, expansion_free_bytes=100_000)


def test_a_small_file_may_expand_as_it_likes(judge: Any, key: SigningKey) -> None:
    """The ratio counts only beyond what is free."""
    data = sealed_file(sections(entry("x" * 50_000)), key)
    assert judge(gzip.compress(data), expansion=1, expansion_free_bytes=2**20).outcome is (
        Outcome.GOOD
    )


def test_a_cut_or_damaged_gzip_is_malformed_at_every_place(judge: Any, key: SigningKey) -> None:
    """No prefix of a compressed file passes for a file."""
    data = gzip.compress(sealed_file(sections(entry("tea")), key))
    for length in range(2, len(data)):
        malformed(judge(data[:length]))
    for place in range(2, len(data), 7):
        damaged = data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :]
        result = judge(damaged)
        # A gzip header has bytes (time, system) that say nothing.
        assert result.outcome is not Outcome.GOOD or place < 10


def test_anything_after_the_compressed_data_is_malformed(judge: Any, key: SigningKey) -> None:
    """A second member or a byte would be read by one tool and not by another."""
    data = gzip.compress(sealed_file(sections(entry("tea")), key))
    for more in (b"\0", b"x", gzip.compress(b""), data):
        malformed(judge(data + more), "after the compressed data")


def test_raw_zlib_is_no_gzip(judge: Any, key: SigningKey) -> None:
    """One compression, told by its first bytes."""
    with pytest.raises(SatchelError):
        judge(zlib.compress(sealed_file(sections(entry("tea")), key)))
