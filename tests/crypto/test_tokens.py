"""Capability tokens: their content, verification, chains and scopes."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from token_kit import (
    BANK,
    HOLDER,
    NOW,
    OTHER_BANK,
    OUTSIDER,
    OWNER,
    SECOND,
    SEMANTIC,
    WORKING,
    around,
    chain_of,
    child_of,
    grant,
    id_of,
    key_of,
    later,
    signed_anyhow,
)

from satchel.crypto.canonical import canonical
from satchel.crypto.token_chain import MOST_TOKENS, Chain, chain_from_value, link_tokens, open_chain
from satchel.crypto.tokens import (
    Clause,
    Entries,
    Permission,
    Tags,
    Wildcard,
    entries_clause,
    issue,
    payload_value,
    scope_filter,
)
from satchel.errors import (
    LimitError,
    MalformedError,
    PermissionRefusedError,
    SatchelError,
    SigningKeyError,
    TokenError,
    TokenRevokedError,
    TokenTimeError,
    UsageError,
)
from satchel.model.records import ENTRY_CLASSES, Entry
from satchel.model.values import Component

READ, EXPORT, WRITE = Permission.READ, Permission.EXPORT, Permission.WRITE


def entry(number: int = 1, type_: str = "semantic", *tags: str) -> Entry:
    """Return an entry with an id."""
    cls = ENTRY_CLASSES[Component(type_)]
    return cls(id=f"blake3:{number:064x}", text="x", tags=tags)


def forged(chain: Chain, key: Any = OWNER, **members: Any) -> Chain:
    """Return a chain of one token whose payload was changed and signed with ``key``."""
    payload = payload_value(chain.leaf.payload) | members
    payload = {name: part for name, part in payload.items() if part is not ...}
    return chain_from_value({"format": "satchel-token/1", "tokens": [signed_anyhow(payload, key)]})


# -- one token ---------------------------------------------------------------------------------


def test_a_token_round_trips_through_its_bytes() -> None:
    """The holder's file has the content that the owner signed."""
    chain = chain_of(SEMANTIC, permissions=["read", "export"])
    again = open_chain(chain.encoded())
    assert again == chain
    assert again.permissions == {READ, EXPORT}
    again.require([READ], around())


def test_the_id_of_a_token_is_the_hash_of_its_payload() -> None:
    """An id cannot be chosen, so no token can take the id of another."""
    chain = chain_of()
    assert chain.leaf.id == id_of(payload_value(chain.leaf.payload))
    assert chain.leaf.id != chain_of().leaf.id


@pytest.mark.parametrize(
    "member",
    ["bank", "issuer", "audience", "permissions", "expires_at", "not_before", "scope", "nonce"],
)
def test_attack_an_edited_token_is_refused(member: str) -> None:
    """A member of a signed token is replaced with another well-formed value."""
    value = chain_of(SEMANTIC).value()
    other = chain_of(
        WORKING, bank=OTHER_BANK, owner=OUTSIDER, permissions=["write"], audience=SECOND.did
    )
    more = {"expires_at": later(2), "not_before": later(0.5)}
    replaced = {**payload_value(other.leaf.payload), **more}[member]
    assert value["tokens"][0]["payload"][member] != replaced
    value["tokens"][0]["payload"][member] = replaced
    with pytest.raises(TokenError, match="signature"):
        chain_from_value(value)


def test_attack_a_signature_of_another_payload_type_is_not_a_token() -> None:
    """The same bytes are signed as another payload type."""
    from satchel.crypto.keys import PayloadType, sign

    payload = payload_value(chain_of().leaf.payload)
    (signature,) = sign(PayloadType.CONFIG, payload, [OWNER])
    token = {"payload": payload, "signatures": [msgspec.to_builtins(signature)]}
    with pytest.raises(TokenError, match="signature"):
        chain_from_value({"format": "satchel-token/1", "tokens": [token]})


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"expires_at": later(24 * 91)}, "90 days"),
        ({"audience": None, "expires_at": later(25)}, "24 hours"),
        ({"expires_at": NOW}, "must start at or after its issue, and expire"),
        ({"not_before": later(-1)}, "must start at or after its issue"),
        ({"permissions": []}, "permissions|length"),
        ({"permissions": ["own"]}, "own"),
        ({"expires_at": "tomorrow"}, "expires_at|pattern|length|match"),
    ],
)
def test_a_token_with_excessive_or_empty_rights_is_not_issued(
    members: dict[str, Any], problem: str
) -> None:
    """Ninety days at most, a day for a bearer token, and at least one permission."""
    with pytest.raises(UsageError, match=problem):
        chain_of(**members)


@pytest.mark.parametrize(
    "members",
    [
        {"expires_at": later(24 * 91)},
        {"audience": ..., "expires_at": later(25)},
        {"expires_at": "never"},
        {"expires_at": ""},
        {"expires_at": ...},
        {"expires_at": None},
        {"scope": []},
        {"scope": [{"type": "wildcard"}, {"type": "tags", "any_of": ["a"]}]},
        {"scope": [{"type": "tags"}]},
        {"scope": [{"type": "entries", "ids": []}]},
        {"scope": [{"type": "entries", "count": 70}]},
        {"scope": [{"type": "tags", "any_of": ["b", "a"]}]},
        {"scope": [{"type": "components", "components": ["all"]}]},
        {"scope": [{"type": "everything"}]},
        {"permissions": ["read", "read"]},
        {"permissions": ["write", "read"]},
        {"parent": None},
        {"binding": {}},
        {"v": 2},
        {"v": True},
        {"caveat": "only on Sundays"},
        {"nonce": "00"},
        {"issuer": "agent-42"},
        {"audience": "agent-42"},
    ],
    ids=str,
)
def test_attack_a_signed_token_of_another_shape_is_refused(members: dict[str, Any]) -> None:
    """The owner's key signs a token that this version cannot read, so a limit would be lost."""
    with pytest.raises(MalformedError):
        forged(chain_of(), **members)


def test_attack_a_signature_of_another_key_than_the_issuer_is_refused() -> None:
    """D47: the name of a trusted issuer over a signature by another key."""
    with pytest.raises(TokenError, match="signature"):
        forged(chain_of(), key=OUTSIDER)


def test_attack_an_unsigned_token_is_refused() -> None:
    """D40: the published implementation accepted a token without a signature."""
    value = chain_of().value()
    value["tokens"][0]["signatures"] = []
    with pytest.raises(MalformedError, match="signature"):
        chain_from_value(value)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", b"\xff", b'{"format":"x"}'], ids=str)
def test_a_file_that_is_not_a_token_raises_a_typed_error(data: bytes) -> None:
    """Each kind of file raises the same error."""
    with pytest.raises(MalformedError):
        open_chain(data)


def test_attack_a_token_in_other_bytes_is_refused() -> None:
    """A duplicate member that another reader would use."""
    text = chain_of().encoded().decode()
    twice = text.replace('"format":', '"format":"satchel-token/1","format":', 1)
    with pytest.raises(MalformedError, match="canonical"):
        open_chain(twice.encode())
    spaced = json.dumps(json.loads(text), indent=1)
    with pytest.raises(MalformedError, match="canonical"):
        open_chain(spaced.encode())


@given(st.data())
def test_attack_every_truncation_and_flipped_byte_of_a_token_is_detected(
    data: st.DataObject,
) -> None:
    """A token with changed bytes never has other content."""
    whole = _SAMPLE.encoded().rstrip(b"\n")
    place = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        changed = whole[:place]
    else:
        bit = 1 << data.draw(st.integers(0, 7))
        changed = whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :]
    with pytest.raises(SatchelError):
        open_chain(changed)


_SAMPLE = child_of(
    chain_of(SEMANTIC, permissions=["read", "write"]),
    Tags(none_of=("secret",)),
    audience=SECOND.did,
)


# -- time, bank and permissions -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "holds"),
    [
        (later(seconds=-61), False),
        (later(seconds=-60), True),
        (NOW, True),
        (later(1, seconds=59), True),
        (later(1, seconds=60), False),
        (later(24), False),
    ],
)
def test_a_token_is_valid_from_start_to_expiry_within_a_minute(
    moment: str,
    holds: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """D44 to D46: a minute of clock skew is accepted; early and expired tokens are refused."""
    chain = chain_of()
    if holds:
        chain.require([READ], around(moment=moment))
        return
    with pytest.raises(TokenTimeError):
        chain.require([READ], around(moment=moment))


def test_attack_a_token_of_another_bank_is_refused() -> None:
    """The token of one bank is presented to another bank of the same owner."""
    with pytest.raises(TokenError, match="another bank"):
        chain_of(bank=OTHER_BANK).require([READ], around())


def test_attack_only_an_owner_of_the_bank_issues_tokens_for_it() -> None:
    """D47: any key, also one that is trusted for files, names itself as issuer."""
    with pytest.raises(TokenError, match="owner"):
        chain_of(owner=OUTSIDER).require([READ], around())


def test_attack_a_token_for_one_artifact_is_refused_for_another() -> None:
    """D49: nor does it give access to a bank."""
    root, other = "blake3:" + "aa" * 32, "blake3:" + "bb" * 32
    chain = chain_of(root_hash=root)
    chain.require([READ], around(artifact=root))
    for artifact in (other, None):
        with pytest.raises(TokenError, match="artifact"):
            chain.require([READ], around(artifact=artifact))


@pytest.mark.parametrize("asked", [each for each in Permission if each is not READ])
def test_each_permission_is_checked_separately(asked: Permission) -> None:
    """D43: only `read` was checked, and it permitted everything else."""
    chain = chain_of(permissions=["read"])
    with pytest.raises(PermissionRefusedError, match=asked):
        chain.require([asked], around())
    with pytest.raises(PermissionRefusedError, match=asked):
        chain.require([READ, asked], around())
    with pytest.raises(PermissionRefusedError, match="read"):
        chain_of(permissions=[asked]).require([READ], around())


def test_a_revoked_token_or_issuer_is_refused() -> None:
    """The paper requires it, and the published implementation has no revocation."""
    chain = chain_of()
    with pytest.raises(TokenRevokedError):
        chain.require([READ], around(revoked={chain.leaf.id}))
    with pytest.raises(TokenRevokedError):
        chain.require([READ], around(revoked_keys={OWNER.did}))


# -- chains --------------------------------------------------------------------------------------


def test_a_child_token_permits_only_what_every_ancestor_permits() -> None:
    """Scope, permissions and times of all of them apply."""
    parent = chain_of(SEMANTIC, permissions=["read", "export"])
    child = child_of(parent, Tags(any_of=("tea",)), permissions=["read"])
    assert child.audience == SECOND.did
    assert child.permissions == {READ}
    assert child.covers(entry(1, "semantic", "tea"))
    assert not child.covers(entry(1, "semantic"))
    assert not child.covers(entry(1, "working", "tea"))
    child.require([READ], around())
    with pytest.raises(PermissionRefusedError):
        child.require([EXPORT], around())


def test_attack_a_child_token_that_claims_more_gets_no_more() -> None:
    """A holder signs a child with all permissions; only those of all tokens apply."""
    parent = chain_of(SEMANTIC, permissions=["read"], expires_at=later(1))
    wide = payload_value(
        issue(
            BANK,
            HOLDER,
            grant(
                Wildcard(),
                permissions=list(Permission),
                audience=SECOND.did,
                expires_at=later(24 * 30),
            ),
        ).payload
    )
    value = parent.value()
    value["tokens"].append(signed_anyhow(wide | {"parent": parent.leaf.id}, HOLDER))
    chain = chain_from_value(value)
    assert chain.permissions == {READ}
    assert not chain.is_wildcard
    assert not chain.covers(entry(1, "working"))
    with pytest.raises(TokenTimeError):
        chain.require([READ], around(moment=later(2)))


def test_a_holder_cannot_widen_a_child_token() -> None:
    """It would have no effect; the error tells the holder."""
    parent = chain_of(SEMANTIC, permissions=["read"])
    with pytest.raises(UsageError, match="write"):
        child_of(parent, permissions=["read", "write"])
    with pytest.raises(UsageError, match="expire after"):
        child_of(parent, expires_at=later(2))
    with pytest.raises(SigningKeyError):
        child_of(parent, key=OUTSIDER)
    with pytest.raises(UsageError, match="audience"):
        child_of(parent, audience=None)


def test_a_bearer_token_cannot_be_attenuated() -> None:
    """It has no holder who could sign a child."""
    bearer = chain_of(audience=None)
    bearer.require([READ], around())
    with pytest.raises(UsageError, match="bearer"):
        child_of(bearer)


@pytest.mark.parametrize(
    "break_link",
    [
        lambda value: value["tokens"].reverse(),
        lambda value: value["tokens"].pop(0),
        lambda value: value["tokens"].append(value["tokens"][0]),
        lambda value: value["tokens"].insert(0, chain_of().value()["tokens"][0]),
        lambda value: value["tokens"].__setitem__(0, chain_of(SEMANTIC).value()["tokens"][0]),
    ],
    ids=["reversed", "without root", "duplicate", "two roots", "another root"],
)
def test_attack_a_chain_with_an_invalid_link_is_refused(break_link: Any) -> None:
    """Tokens of several chains are combined, or one is omitted."""
    value = child_of(chain_of(SEMANTIC)).value()
    break_link(value)
    with pytest.raises(TokenError):
        chain_from_value(value)


def test_attack_a_child_token_of_another_key_than_the_holder_is_refused() -> None:
    """An outsider adds a link to a stolen token."""
    parent = chain_of(SEMANTIC)
    token = child_of(chain_of(SEMANTIC, audience=OUTSIDER.did), key=OUTSIDER).leaf
    payload = payload_value(token.payload) | {"parent": parent.leaf.id}
    value = parent.value()
    value["tokens"].append(signed_anyhow(payload, OUTSIDER))
    with pytest.raises(TokenError, match="not attenuated from"):
        chain_from_value(value)


def test_revoking_a_parent_token_revokes_its_children() -> None:
    """Also when the parent's holder is revoked."""
    parent = chain_of(SEMANTIC)
    child = child_of(parent)
    with pytest.raises(TokenRevokedError):
        child.require([READ], around(revoked={parent.leaf.id}))
    with pytest.raises(TokenRevokedError):
        child.require([READ], around(revoked_keys={HOLDER.did}))


def test_attack_a_chain_has_at_most_eight_tokens() -> None:
    """A long chain would be expensive to verify."""
    chain = chain_of(SEMANTIC, audience=key_of(10).did)
    for number in range(MOST_TOKENS - 1):
        chain = child_of(chain, key=key_of(10 + number), audience=key_of(11 + number).did)
    assert len(chain.tokens) == MOST_TOKENS
    with pytest.raises(LimitError):
        child_of(chain, key=key_of(10 + MOST_TOKENS - 1))
    value = chain.value()
    value["tokens"] *= 1000
    with pytest.raises(LimitError):
        chain_from_value(value)


# -- scopes --------------------------------------------------------------------------------------


def test_a_long_list_of_entries_is_stored_outside_the_token() -> None:
    """Above 64 ids the token has the hash; without the list it permits nothing."""
    clause, lists = entries_clause([entry(number).id or "" for number in range(65)])
    assert clause.ids == ()
    token = issue(BANK, OWNER, grant(clause))
    shown, hidden = link_tokens((token,), lists), link_tokens((token,), {})
    assert open_chain(shown.encoded()).covers(entry(64))
    assert not shown.covers(entry(65))
    assert not hidden.covers(entry(64))
    few, beside = entries_clause([entry(number).id or "" for number in range(64)])
    assert len(few.ids) == 64
    assert beside == {}


def test_attack_a_list_with_another_hash_is_refused() -> None:
    """A holder presents a longer list, or a list under the hash of another."""
    ids = [entry(number).id or "" for number in range(65)]
    clause, lists = entries_clause(ids)
    (name,) = lists
    value = link_tokens((issue(BANK, OWNER, grant(clause)),), lists).value()
    for other in ([*ids, entry(99).id], ids[:-1], ids[::-1], [*ids, ids[-1]]):
        value["lists"] = {name: other}
        with pytest.raises(MalformedError):
            chain_from_value(value)
    other_clause, other_lists = entries_clause([entry(number).id or "" for number in range(66)])
    assert isinstance(other_clause, Entries)
    value["lists"] = other_lists
    with pytest.raises(MalformedError, match="names this list"):
        chain_from_value(value)


def test_a_token_for_listed_entries_cannot_permit_only_writing() -> None:
    """A new memory is never in a list of ids, so the token would permit nothing."""
    clause, _ = entries_clause([entry(1).id or ""])
    with pytest.raises(UsageError, match="new memory"):
        chain_of(clause, permissions=["write"])
    chain_of(clause, permissions=["read", "write"])


_tags = st.lists(st.sampled_from("abcd"), unique=True).map(lambda found: tuple(sorted(found)))


@given(_tags, _tags, _tags, _tags)
def test_tag_scopes_match_any_all_and_none(
    any_of: tuple[str, ...],
    all_of: tuple[str, ...],
    none_of: tuple[str, ...],
    there: tuple[str, ...],
) -> None:
    """Each condition applies where it is given."""
    clause: Clause = (
        Tags(any_of=any_of, all_of=all_of, none_of=none_of)
        if any_of or all_of or none_of
        else Wildcard()
    )
    expected = (
        (not any_of or any(tag in there for tag in any_of))
        and all(tag in there for tag in all_of)
        and not any(tag in there for tag in none_of)
    )
    assert scope_filter((clause,), {})(entry(1, "semantic", *there)) is expected


_clauses = st.one_of(
    st.just(Wildcard()),
    st.lists(st.sampled_from(list(Component)), min_size=1, unique=True).map(
        lambda found: type(SEMANTIC)(components=tuple(sorted(found)))
    ),
    _tags.filter(bool).map(lambda found: Tags(any_of=found)),
    _tags.filter(bool).map(lambda found: Tags(none_of=found)),
    st.lists(st.integers(0, 5), min_size=1).map(
        lambda found: entries_clause([entry(number).id or "" for number in found])[0]
    ),
)


@given(st.data(), st.integers(1, 4))
def test_a_child_token_never_covers_more_than_its_parent(data: st.DataObject, links: int) -> None:
    """For all chains: permissions, entries and times."""
    entries = [
        entry(number, type_, *tags)
        for number, (type_, tags) in enumerate(
            [(each, tags) for each in list(Component)[:2] for tags in ((), ("a",), ("b", "d"))]
        )
    ]
    chain = chain_of(data.draw(_clauses), permissions=list(Permission), audience=key_of(10).did)
    for link in range(links):
        allowed = data.draw(st.sets(st.sampled_from(sorted(chain.permissions)), min_size=1))
        child = child_of(
            chain,
            data.draw(_clauses),
            key=key_of(10 + link),
            audience=key_of(11 + link).did,
            permissions=allowed | ({READ} & chain.permissions),
        )
        assert child.permissions <= chain.permissions
        assert {each.id for each in entries if child.covers(each)} <= {
            each.id for each in entries if chain.covers(each)
        }
        assert open_chain(child.encoded()) == child
        chain = child
        if READ not in chain.permissions:
            return


def test_attack_an_entry_that_claims_another_id_is_outside_the_scope() -> None:
    """Ids are verified before scopes are applied."""
    clause, _ = entries_clause([entry(1).id or ""])
    covers = scope_filter((clause,), {})
    assert covers(entry(1))
    assert not covers(entry(2))
    assert canonical(payload_value(chain_of(clause).leaf.payload)).count(b"blake3:") == 2
