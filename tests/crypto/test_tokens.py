"""Capability tokens: what they say, what holds, and what nobody can make of them."""

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
    """Return a one-token chain whose payload somebody changed and signed with a key."""
    payload = payload_value(chain.leaf.payload) | members
    payload = {name: part for name, part in payload.items() if part is not ...}
    return chain_from_value({"format": "satchel-token/1", "tokens": [signed_anyhow(payload, key)]})


# -- one token ---------------------------------------------------------------------------------


def test_a_token_round_trips_through_its_bytes() -> None:
    """The file that a holder is given says what the owner signed."""
    chain = chain_of(SEMANTIC, permissions=["read", "export"])
    again = open_chain(chain.encoded())
    assert again == chain
    assert again.permissions == {READ, EXPORT}
    again.require([READ], around())


def test_the_id_of_a_token_is_the_hash_of_what_it_says() -> None:
    """Nobody chooses an id, so nobody can take that of another token."""
    chain = chain_of()
    assert chain.leaf.id == id_of(payload_value(chain.leaf.payload))
    assert chain.leaf.id != chain_of().leaf.id


@pytest.mark.parametrize(
    "member",
    ["bank", "issuer", "audience", "permissions", "expires_at", "not_before", "scope", "nonce"],
)
def test_a_token_that_was_edited_is_refused(member: str) -> None:
    """Attack: a member of a signed token is replaced by one that is as well formed."""
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


def test_a_token_signed_as_something_else_is_no_token() -> None:
    """Attack: a signature over the same bytes, made for another kind of payload."""
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
def test_a_token_that_could_not_be_meant_is_not_issued(
    members: dict[str, Any], problem: str
) -> None:
    """Ninety days at most, a day for one that anybody may use, and it has to allow something."""
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
def test_a_signed_token_of_another_shape_is_refused(members: dict[str, Any]) -> None:
    """Attack: an owner's key signs what is no token of this version, so a limit would not hold."""
    with pytest.raises(MalformedError):
        forged(chain_of(), **members)


def test_a_signature_of_another_key_than_the_claimed_one_is_refused() -> None:
    """Attack (D47): the name of a trusted issuer over a signature by another key."""
    with pytest.raises(TokenError, match="signature"):
        forged(chain_of(), key=OUTSIDER)


def test_unsigned_tokens_are_refused() -> None:
    """Attack (D40): a token without a signature was accepted by the published implementation."""
    value = chain_of().value()
    value["tokens"][0]["signatures"] = []
    with pytest.raises(MalformedError, match="signature"):
        chain_from_value(value)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", b"\xff", b'{"format":"x"}'], ids=str)
def test_a_file_that_is_no_token_is_reported_as_such(data: bytes) -> None:
    """Each of them ends in one typed error."""
    with pytest.raises(MalformedError):
        open_chain(data)


def test_a_token_in_other_bytes_is_refused() -> None:
    """Attack: a second member of the same name, which another reader would take."""
    text = chain_of().encoded().decode()
    twice = text.replace('"format":', '"format":"satchel-token/1","format":', 1)
    with pytest.raises(MalformedError, match="canonical"):
        open_chain(twice.encode())
    spaced = json.dumps(json.loads(text), indent=1)
    with pytest.raises(MalformedError, match="canonical"):
        open_chain(spaced.encode())


@given(st.data())
def test_every_cut_and_flip_of_a_token_is_noticed(data: st.DataObject) -> None:
    """Attack: bytes of a signed token are changed; it never says anything else afterwards."""
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


# -- when, where and for whom -------------------------------------------------------------------


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
    """Clocks differ by a minute at most. D44 to D46: it ends; one from the future is refused."""
    chain = chain_of()
    if holds:
        chain.require([READ], around(moment=moment))
        return
    with pytest.raises(TokenTimeError):
        chain.require([READ], around(moment=moment))


def test_a_token_is_for_one_bank() -> None:
    """Attack: the token of one bank is presented to another of the same owner."""
    with pytest.raises(TokenError, match="another bank"):
        chain_of(bank=OTHER_BANK).require([READ], around())


def test_only_an_owner_of_the_bank_issues_tokens_for_it() -> None:
    """Attack (D47): any key names itself as issuer, whoever trusts it for files."""
    with pytest.raises(TokenError, match="owner"):
        chain_of(owner=OUTSIDER).require([READ], around())


def test_a_token_for_one_artifact_opens_no_other_and_no_bank() -> None:
    """Attack (D49): what was bound to one artifact is presented with another."""
    root, other = "blake3:" + "aa" * 32, "blake3:" + "bb" * 32
    chain = chain_of(root_hash=root)
    chain.require([READ], around(artifact=root))
    for artifact in (other, None):
        with pytest.raises(TokenError, match="artifact"):
            chain.require([READ], around(artifact=artifact))


@pytest.mark.parametrize("asked", [each for each in Permission if each is not READ])
def test_each_permission_is_its_own(asked: Permission) -> None:
    """D43: only `read` was ever looked at, and it let everything else through."""
    chain = chain_of(permissions=["read"])
    with pytest.raises(PermissionRefusedError, match=asked):
        chain.require([asked], around())
    with pytest.raises(PermissionRefusedError, match=asked):
        chain.require([READ, asked], around())
    with pytest.raises(PermissionRefusedError, match="read"):
        chain_of(permissions=[asked]).require([READ], around())


def test_a_revoked_token_and_a_revoked_issuer_end_it() -> None:
    """The paper says so, and the published implementation has no revocation at all."""
    chain = chain_of()
    with pytest.raises(TokenRevokedError):
        chain.require([READ], around(revoked={chain.leaf.id}))
    with pytest.raises(TokenRevokedError):
        chain.require([READ], around(revoked_keys={OWNER.did}))


# -- chains --------------------------------------------------------------------------------------


def test_a_child_allows_what_every_token_before_it_allows() -> None:
    """Scope, permissions and times of all of them hold."""
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


def test_a_child_that_claims_more_gets_no_more() -> None:
    """Attack: a holder signs a child that says everything; only what all say counts."""
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
    """It would not count anyhow; whoever makes it should know."""
    parent = chain_of(SEMANTIC, permissions=["read"])
    with pytest.raises(UsageError, match="write"):
        child_of(parent, permissions=["read", "write"])
    with pytest.raises(UsageError, match="expire after"):
        child_of(parent, expires_at=later(2))
    with pytest.raises(SigningKeyError):
        child_of(parent, key=OUTSIDER)
    with pytest.raises(UsageError, match="audience"):
        child_of(parent, audience=None)


def test_a_bearer_token_cannot_be_handed_on_in_part() -> None:
    """Whoever has it may use it, so nobody is the one who could."""
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
    ids=["turned", "headless", "twice", "two heads", "another head"],
)
def test_a_chain_with_an_invalid_link_is_refused(break_link: Any) -> None:
    """Attack: tokens of several chains are put together, or one is left out."""
    value = child_of(chain_of(SEMANTIC)).value()
    break_link(value)
    with pytest.raises(TokenError):
        chain_from_value(value)


def test_a_child_token_issued_by_another_key_than_the_holders_is_refused() -> None:
    """Attack: an outsider adds a link to a token that was stolen."""
    parent = chain_of(SEMANTIC)
    token = child_of(chain_of(SEMANTIC, audience=OUTSIDER.did), key=OUTSIDER).leaf
    payload = payload_value(token.payload) | {"parent": parent.leaf.id}
    value = parent.value()
    value["tokens"].append(signed_anyhow(payload, OUTSIDER))
    with pytest.raises(TokenError, match="not attenuated from"):
        chain_from_value(value)


def test_a_child_dies_with_its_parent() -> None:
    """Revoking what was handed out ends everything that was made of it."""
    parent = chain_of(SEMANTIC)
    child = child_of(parent)
    with pytest.raises(TokenRevokedError):
        child.require([READ], around(revoked={parent.leaf.id}))
    with pytest.raises(TokenRevokedError):
        child.require([READ], around(revoked_keys={HOLDER.did}))


def test_a_chain_has_eight_tokens_at_most() -> None:
    """Attack: a chain so long that checking it is work."""
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


def test_a_long_list_of_entries_goes_beside_the_token() -> None:
    """Above 64 ids the token has the hash; without the list nothing is allowed."""
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


def test_another_list_than_the_one_that_was_hashed_is_refused() -> None:
    """Attack: a holder shows a longer list, or one under the hash of another."""
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


def test_a_list_of_entries_cannot_take_what_is_new() -> None:
    """A token to write into a list of ids would allow nothing, so it is not issued."""
    clause, _ = entries_clause([entry(1).id or ""])
    with pytest.raises(UsageError, match="new memory"):
        chain_of(clause, permissions=["write"])
    chain_of(clause, permissions=["read", "write"])


_tags = st.lists(st.sampled_from("abcd"), unique=True).map(lambda found: tuple(sorted(found)))


@given(_tags, _tags, _tags, _tags)
def test_tags_fit_as_the_three_words_say(
    any_of: tuple[str, ...],
    all_of: tuple[str, ...],
    none_of: tuple[str, ...],
    there: tuple[str, ...],
) -> None:
    """One of these, all of these, none of these; each where it is given."""
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
def test_for_all_chains_more_tokens_allow_no_more(data: st.DataObject, links: int) -> None:
    """Whatever a child says, it covers a part of what its parent covers, for no longer."""
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


def test_a_scope_is_judged_on_the_id_that_the_bytes_have() -> None:
    """Attack: an entry that claims the id of another is not read by it; ids are proved first."""
    clause, _ = entries_clause([entry(1).id or ""])
    covers = scope_filter((clause,), {})
    assert covers(entry(1))
    assert not covers(entry(2))
    assert canonical(payload_value(chain_of(clause).leaf.payload)).count(b"blake3:") == 2
