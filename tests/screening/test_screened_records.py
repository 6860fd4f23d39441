"""Secrets in records: found in every member, alone and in batches, and replaced where permitted."""

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from secrets_kit import Maker, card

from satchel.conformance.strategies import records
from satchel.crypto.sealed_records import seal
from satchel.errors import LimitError
from satchel.model.records import (
    Bank,
    Blob,
    Config,
    Edge,
    FileVersion,
    GraphNode,
    Model,
    Procedural,
    Semantic,
    SessionEvent,
    Source,
    Status,
    Token,
)
from satchel.model.values import Entity, Evidence, Origin, Scope
from satchel.screening.records import SecretFinding, screened, scrubbed, suspects
from satchel.screening.secrets import KINDS

_ID = "blake3:" + "0" * 64
_KEY = Maker(1).make("github-token")[1]
_OTHER = Maker(2).make("github-token")[1]
_WORD = Maker(3).body(12)
_KEY_TOKEN, _WORD_TOKEN = "[REDACTED:github-token:1]", "[REDACTED:assigned-secret:1]"


def _fields(found: list[SecretFinding], *, kept: bool = False) -> list[str]:
    return [finding.field for finding in found if finding.kept == kept]


def test_the_text_of_a_memory_and_its_copy_as_written_are_both_scrubbed() -> None:
    """One secret, one token, in every member that contains it."""
    text = f"her key is {_KEY}, her password is {_WORD}"
    draft = Semantic(
        text=text,
        origin=Origin(provider="mem0", id="7", as_written={"memory": text, "was": _WORD}),
    )
    clean, found = scrubbed(draft)

    said = f"her key is {_KEY_TOKEN}, her password is {_WORD_TOKEN}"
    assert isinstance(clean, Semantic)
    assert clean.text == said
    assert clean.origin == Origin(
        provider="mem0", id="7", as_written={"memory": said, "was": _WORD_TOKEN}
    )
    assert _fields(found) == [
        "/text",
        "/text",
        "/origin/as_written/memory",
        "/origin/as_written/memory",
        "/origin/as_written/was",
    ]
    assert found == screened(draft)


@pytest.mark.parametrize(
    "draft",
    [
        Semantic(subject="key", predicate="is", object=_KEY),
        Semantic(data={"a": [{"b": _KEY}]}),
        Semantic(metadata={_KEY: {"x": 1}}),
        Semantic(tags=("a", _KEY)),
        Semantic(kind=_KEY),
        Semantic(entities=(Entity(name="x", aliases=("y", _KEY)),)),
        Procedural(name="n", body=f"curl {_KEY}", parameters=("a", {"b": _KEY})),
        SessionEvent(event="message", content=[{"text": _KEY}], state={"vars": {"A": _KEY}}),
        FileVersion(path="a.env", text=f"TOKEN={_KEY}"),
        GraphNode(name=_KEY, summary=_KEY, properties={"p": _KEY}),
        Edge(source="a", target="b", kind="c", properties={"p": _KEY}),
        Source(provider="p", format="f", container={"owner": _KEY}),
        Status(target=_ID, state="deleted", reason=f"it held {_KEY}"),
        Status(target=_ID, state="deleted", metadata={"note": _KEY}),
    ],
)
def test_a_secret_is_found_in_every_member_that_can_hold_text(draft: Model) -> None:
    """Keys, items and values, at any depth; the scrubbed record no longer contains it."""
    clean, found = scrubbed(draft)

    assert {finding.kind for finding in found} == {"github-token"}
    assert _KEY.encode() not in msgspec.json.encode(clean)
    assert _KEY_TOKEN.encode() in msgspec.json.encode(clean)
    assert _KEY not in repr(found)
    assert screened(clean) == []


@pytest.mark.parametrize(
    "draft",
    [
        Semantic(scope=Scope(user=_KEY)),
        Semantic(scope=Scope(namespace=("a", _KEY))),
        Semantic(origin=Origin(id=_KEY)),
        Semantic(sources=(Evidence(kind="message", id=_KEY),)),
        SessionEvent(event="message", session=_KEY),
        FileVersion(path=f"keys/{_KEY}"),
        Edge(source=_KEY, target="b", kind="c"),
        Bank(owner_keys=(), created_at="2024-05-01T00:00:00.000000Z", name=_KEY),
        Token(payload={"about": _KEY}),
        Config(action="x", payload={"about": [_KEY]}),
    ],
)
def test_secrets_in_identifying_or_signed_members_are_reported_only(draft: Model) -> None:
    """Another text there would change the identity or break a signature."""
    clean, found = scrubbed(draft)

    assert clean is draft
    assert [finding.kept for finding in found] == [True]
    assert found == screened(draft)


def test_the_value_of_a_member_with_a_secret_name_is_a_secret() -> None:
    """As in settings, also as pairs of name and value; other members are unchanged."""
    draft = Semantic(
        metadata={
            "password": _WORD,
            "env": [{"name": "API_KEY", "value": "7f3b2c1d9e8a4f6b5c0d"}],
            "revision": "a1b2c3d4e5f60718",
            "value": "plain",
        }
    )
    clean, _ = scrubbed(draft)

    assert clean.metadata == {
        "password": _WORD_TOKEN,
        "env": [{"name": "API_KEY", "value": "[REDACTED:assigned-secret:2]"}],
        "revision": "a1b2c3d4e5f60718",
        "value": "plain",
    }


def test_a_card_number_as_a_json_number_is_found() -> None:
    """Encoded integers of foreign files keep their form."""
    carried = {"$int": card()}
    clean, found = scrubbed(Semantic(metadata={"pan": int(card()), "n": carried, "at": 10**15}))

    assert clean.metadata == {"pan": "[REDACTED:card-number:1]", "n": carried, "at": 10**15}
    assert _fields(found) == ["/metadata/pan"]


def test_a_finding_has_a_json_pointer_without_the_secret() -> None:
    """Escaped according to RFC 6901; a key that is a secret is named by its token."""
    found = screened(Semantic(metadata={"a/b~c": {_KEY: _OTHER}}))

    assert [(finding.field, finding.number) for finding in found] == [
        (f"/metadata/a~1b~0c/{_KEY_TOKEN}", 1),
        (f"/metadata/a~1b~0c/{_KEY_TOKEN}", 2),
    ]


def test_two_secret_keys_stay_distinct() -> None:
    """Each has its own number, also next to one that was scrubbed before."""
    clean, _ = scrubbed(Semantic(metadata={_KEY_TOKEN: 0, _KEY: 1, _OTHER: 2}))

    assert clean.metadata == {
        _KEY_TOKEN: 0,
        "[REDACTED:github-token:2]": 1,
        "[REDACTED:github-token:3]": 2,
    }


def test_scrubbing_a_sealed_record_gives_a_new_record() -> None:
    """With its nonce the secret could be guessed from the id: both are removed."""
    sealed = seal(Semantic(text=f"key {_KEY}")).model
    clean, _ = scrubbed(sealed)

    assert (clean.id, clean.nonce) == (None, None)
    again = seal(clean).model
    assert again.id != sealed.id
    assert again.nonce != sealed.nonce


def test_vectors_and_blobs_are_not_screened() -> None:
    """Base64 of bytes is not searched."""
    assert screened(Blob(digest=_ID, data=_KEY)) == []


def test_attack_deeply_nested_json_is_refused() -> None:
    """A value of a program that is far deeper than can be sealed does not crash."""
    value: Any = _KEY
    for _ in range(5_000):
        value = [value]

    with pytest.raises(LimitError):
        screened(Semantic(data=value))


@given(records())
def test_a_record_without_a_secret_is_returned_unchanged(draft: Model) -> None:
    """The same object, whatever its type."""
    if not screened(draft):
        assert scrubbed(draft) == (draft, [])
        assert scrubbed(draft)[0] is draft


@given(records(), st.sampled_from([_KEY, _OTHER, card(), f"password={_WORD}"]), st.data())
def test_scrubbing_twice_equals_scrubbing_once(
    draft: Model, secret: str, data: st.DataObject
) -> None:
    """A secret is planted anywhere in any record; only unchangeable members are found again."""
    planted = msgspec.structs.replace(draft, **_with_secret(draft, secret, data))
    clean, found = scrubbed(planted)
    again, left = scrubbed(clean)

    assert again == clean
    assert all(finding.kept for finding in left)
    assert len(left) == sum(finding.kept for finding in found)
    assert secret not in repr(found)
    assert found == screened(planted)


def _with_secret(draft: Model, secret: str, data: st.DataObject) -> dict[str, Any]:
    """Return the members of a record with a secret in one of them."""
    member = data.draw(st.sampled_from(["metadata", "text", "data", "tags"]))
    value: Any = {"metadata": {"a": [secret]}, "text": secret, "data": secret, "tags": (secret,)}
    if member not in draft.__struct_fields__ or isinstance(draft, Blob):
        member = "metadata"
    return {member: value[member]}


_ORDINARY = Semantic(
    text="The monkey broke the keyboard at 12:30; see https://example.org/a-b",
    created_at="2026-03-01T09:30:00.414003Z",
    metadata={"score": 0.87345234151234567, "hash": "3035d17a833df6962a1e1cbcf3eec26a"},
    origin=Origin(provider="mem0", id="892f902b-d23f-4824-928b-2f330c5c7fd0"),
)


def _between_ordinary(draft: Model) -> list[Model]:
    return [_ORDINARY, draft, _ORDINARY]


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_of_each_kind_is_found_among_ordinary_records(kind: str) -> None:
    """In the text, as a value, or as a key."""
    text, secret = Maker(4).make(kind)
    for draft in (
        Semantic(text=text),
        Semantic(metadata={"note": {"deep": [text]}}),
        Semantic(metadata={text: True}),
        Semantic(text=f'said "{text}"\n\\ {text}'),
        Semantic(text="".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)),
        Semantic(text=text.upper()),
    ):
        if screened(draft):
            assert suspects(_between_ordinary(draft)) == [1], (kind, draft)
    assert screened(Semantic(text=text)), secret


@pytest.mark.parametrize(
    "text",
    [
        "ПАРОЛЬ: Sommer-2031!kx",
        "contraseña: Sommer-2031!kx",
        "パスワード\uff1aSommer-2031!kx",
        "pass\u200bword: Sommer-2031!kx",
        "PASSWORD: Sommer-2031!kx",
        "api \u212aey = Sommer2031kxyzLm48",
        "\u017fecret token = Sommer2031kxyzLm48",
        f"4{card()[1:]}",
    ],
)
def test_attack_a_secret_name_in_another_spelling_is_found_in_a_batch(text: str) -> None:
    """Capitals beyond ASCII, full-width letters, and invisible characters."""
    draft = Semantic(text=text)
    assert bool(suspects(_between_ordinary(draft))) >= bool(screened(draft))


def test_ordinary_records_are_not_suspects() -> None:
    """Ids, digests, fractions and words such as monkey; this keeps screening fast."""
    assert suspects([_ORDINARY] * 300) == []


def test_attack_text_that_cannot_be_encoded_is_screened_separately() -> None:
    """A lone surrogate does not hide secrets of other records."""
    hidden = Semantic(text=Maker(1).make("github-token")[0])
    assert suspects([Semantic(text="\ud800"), hidden, Blob(digest="blake3:0", data="x")]) == [0, 1]


@given(st.lists(records(), max_size=6), st.integers(0, 2**32), st.data())
def test_batch_screening_finds_every_record_that_single_screening_finds(
    drafts: list[Model], seed: int, data: st.DataObject
) -> None:
    """With a secret of any kind planted in any of them."""
    drawn = random.Random(seed)  # noqa: S311 - nothing here is secret
    text, _ = Maker(seed).make(drawn.choice(list(KINDS)))
    place = data.draw(st.integers(0, len(drafts)))
    drafts.insert(place, Semantic(text=text, tags=(data.draw(st.text(max_size=5)),)))

    found = suspects(drafts)
    assert found == sorted(set(found))
    assert {number for number, draft in enumerate(drafts) if screened(draft)} <= set(found)
