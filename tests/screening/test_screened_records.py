"""Secrets in records: found in every member, replaced in all that may change."""

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
from satchel.screening.records import SecretFinding, screened, scrubbed

_ID = "blake3:" + "0" * 64
_KEY = Maker(1).make("github-token")[1]
_OTHER = Maker(2).make("github-token")[1]
_WORD = Maker(3).body(12)
_KEY_TOKEN, _WORD_TOKEN = "[REDACTED:github-token:1]", "[REDACTED:assigned-secret:1]"


def _fields(found: list[SecretFinding], *, kept: bool = False) -> list[str]:
    return [finding.field for finding in found if finding.kept == kept]


def test_the_text_of_a_memory_and_its_copy_as_written_are_both_scrubbed() -> None:
    """One secret, one token, in every member that holds it."""
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
def test_a_secret_is_found_wherever_a_record_can_hold_text(draft: Model) -> None:
    """Keys, items and values, however deep; the clean record holds it nowhere."""
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
def test_what_identifies_or_is_signed_is_reported_and_left(draft: Model) -> None:
    """Another text there would be another identity, or break a signature."""
    clean, found = scrubbed(draft)

    assert clean is draft
    assert [finding.kept for finding in found] == [True]
    assert found == screened(draft)


def test_a_member_with_a_telling_name_holds_a_secret() -> None:
    """As settings are written, also as pairs of name and value; other members are left."""
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


def test_a_card_written_as_a_number_is_found() -> None:
    """JSON has numbers; carried integers of foreign files keep their form."""
    carried = {"$int": card()}
    clean, found = scrubbed(Semantic(metadata={"pan": int(card()), "n": carried, "at": 10**15}))

    assert clean.metadata == {"pan": "[REDACTED:card-number:1]", "n": carried, "at": 10**15}
    assert _fields(found) == ["/metadata/pan"]


def test_a_pointer_is_a_json_pointer_without_the_secret() -> None:
    """Escaped as RFC 6901 says; a key that is a secret is named by its token."""
    found = screened(Semantic(metadata={"a/b~c": {_KEY: _OTHER}}))

    assert [(finding.field, finding.number) for finding in found] == [
        (f"/metadata/a~1b~0c/{_KEY_TOKEN}", 1),
        (f"/metadata/a~1b~0c/{_KEY_TOKEN}", 2),
    ]


def test_two_keys_that_are_secrets_stay_two() -> None:
    """Each has a number of its own, also beside one that was scrubbed before."""
    clean, _ = scrubbed(Semantic(metadata={_KEY_TOKEN: 0, _KEY: 1, _OTHER: 2}))

    assert clean.metadata == {
        _KEY_TOKEN: 0,
        "[REDACTED:github-token:2]": 1,
        "[REDACTED:github-token:3]": 2,
    }


def test_a_sealed_record_that_is_scrubbed_is_a_new_one() -> None:
    """With its nonce the secret could be guessed from its id: both go, and it can be sealed."""
    sealed = seal(Semantic(text=f"key {_KEY}")).model
    clean, _ = scrubbed(sealed)

    assert (clean.id, clean.nonce) == (None, None)
    again = seal(clean).model
    assert again.id != sealed.id
    assert again.nonce != sealed.nonce


def test_a_vector_or_blob_is_no_text() -> None:
    """Base64 of bytes is not looked through."""
    assert screened(Blob(digest=_ID, data=_KEY)) == []


def test_attack_json_nested_without_end() -> None:
    """A value made by a program, far deeper than can be sealed, is refused, not crashed on."""
    value: Any = _KEY
    for _ in range(5_000):
        value = [value]

    with pytest.raises(LimitError):
        screened(Semantic(data=value))


@given(records())
def test_a_record_without_a_secret_is_returned_itself(draft: Model) -> None:
    """The very same value, whatever the type."""
    if not screened(draft):
        assert scrubbed(draft) == (draft, [])
        assert scrubbed(draft)[0] is draft


@given(records(), st.sampled_from([_KEY, _OTHER, card(), f"password={_WORD}"]), st.data())
def test_in_a_scrubbed_record_only_what_is_kept_is_found(
    draft: Model, secret: str, data: st.DataObject
) -> None:
    """A secret put anywhere into a record of any type; twice is no more than once."""
    planted = msgspec.structs.replace(draft, **_planted(draft, secret, data))
    clean, found = scrubbed(planted)
    again, left = scrubbed(clean)

    assert again == clean
    assert all(finding.kept for finding in left)
    assert len(left) == sum(finding.kept for finding in found)
    assert secret not in repr(found)
    assert found == screened(planted)


def _planted(draft: Model, secret: str, data: st.DataObject) -> dict[str, Any]:
    """Return members of a record with a secret in one of them."""
    member = data.draw(st.sampled_from(["metadata", "text", "data", "tags"]))
    value: Any = {"metadata": {"a": [secret]}, "text": secret, "data": secret, "tags": (secret,)}
    if member not in draft.__struct_fields__ or isinstance(draft, Blob):
        member = "metadata"
    return {member: value[member]}
