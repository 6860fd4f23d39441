"""Random banks, tokens, attenuations, revocations and clocks against an independent policy.

The policy reads the JSON of tokens without the code under test: a memory is visible if every token
of a valid chain covers its type, tags and ID.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from blake3 import blake3
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from ledger_kit import WRITER
from token_kit import NOW, OWNER, chain_of, child_of, held, key_of, later

from satchel.admin.statistics import stats
from satchel.bank.changes import MemoryEdit, forget, remember, restore, update
from satchel.bank.details import history, raw, show
from satchel.bank.listings import ListRequest, list_memories
from satchel.bank.open_bank import OpenBank
from satchel.config.settings import load_settings
from satchel.crypto.canonical import canonical
from satchel.crypto.token_chain import Chain
from satchel.crypto.tokens import Clause, Components, Permission, Tags, Wildcard, entries_clause
from satchel.errors import EmptyInputError, RefusedError, SatchelError, UnknownMemoryError
from satchel.ledger.authority import token_revocation_record
from satchel.ledger.ledger import Ledger
from satchel.recall.query import Query
from satchel.recall.search import recall_memories
from satchel.stores.memory import InMemoryStore
from satchel.transfer.export_records import ExportOptions
from satchel.transfer.exports import export

_TYPES = ("semantic", "working", "procedural")
_TAGS = ("a", "b", "c")
_PERMISSIONS = sorted(Permission)


@dataclass
class Known:
    """A memory as the policy knows it."""

    id: str
    type: str
    tags: frozenset[str]
    text: str
    is_current: bool = True
    hashes: list[bytes] = field(default_factory=list)
    """Hashes of its contents without the nonce, as an attacker would compute them to guess."""


def covers(clause: dict[str, Any], one: Known, lists: dict[str, list[str]]) -> bool:
    """Return whether a clause in JSON covers a memory."""
    if clause["type"] == "components":
        return one.type in clause["components"]
    if clause["type"] == "entries":
        return one.id in (clause.get("ids") or lists.get(clause["digest"], []))
    if clause["type"] == "tags":
        any_of, all_of = clause.get("any_of", []), clause.get("all_of", [])
        none_of = clause.get("none_of", [])
        return (
            (not any_of or bool(one.tags & set(any_of)))
            and one.tags >= set(all_of)
            and not one.tags & set(none_of)
        )
    return bool(clause["type"] == "wildcard")


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text)


class SharedBank(RuleBasedStateMachine):
    """A bank, its owner, and holders of tokens who try every operation."""

    folder: Path

    def __init__(self) -> None:
        super().__init__()
        store = InMemoryStore()
        ledger = Ledger.create(store, owner=OWNER, writer=WRITER, name="bank")
        self.bank = OpenBank(settings=load_settings(), store=store, ledger=ledger, name="bank")
        self.known: list[Known] = []
        self.chains: list[Chain] = []
        self.revoked: set[str] = set()
        self.clock = NOW
        self.number = 0

    # -- the owner --------------------------------------------------------------------------------

    @initialize(
        data=st.data(),
        memories=st.lists(
            st.tuples(st.sampled_from(_TYPES), st.sets(st.sampled_from(_TAGS)), st.integers(-2, 5)),
            min_size=4,
            max_size=7,
        ),
    )
    def begin(self, data: st.DataObject, memories: list[tuple[str, set[str], int]]) -> None:
        """Create a bank with memories in several scopes, and tokens for it."""
        for type_, tags, parent in memories:
            self._owner_remembers(type_, tags, parent)
        for allow in ({"read", "export", "write"}, {"read", "derive", "write"}):
            self._owner_issues(data, allow, 0.0, 48.0)

    def _owner_remembers(self, type_: str, tags: set[str], parent: int) -> None:
        """Store a memory with a unique text."""
        current = [one for one in self.known if one.is_current]
        parents = [current[parent % len(current)].id] if current and parent >= 0 else []
        text = self._text()
        made = remember(
            self.bank, {"text": text, "type": type_, "tags": sorted(tags)}, parents=parents
        )
        self._know(made.id)

    @precondition(lambda self: any(one.is_current for one in self.known))
    @rule(data=st.data(), tags=st.sets(st.sampled_from(_TAGS)))
    def owner_updates(self, data: st.DataObject, tags: set[str]) -> None:
        """Change the tags, so that the next version may be in another scope."""
        one = data.draw(st.sampled_from([one for one in self.known if one.is_current]))
        edit = MemoryEdit(members={"text": self._text(), "tags": sorted(tags)})
        self._know(update(self.bank, one.id, edit).id)
        one.is_current = False

    @precondition(lambda self: any(one.is_current for one in self.known))
    @rule(data=st.data())
    def owner_forgets(self, data: st.DataObject) -> None:
        """Forget a memory."""
        one = data.draw(st.sampled_from([one for one in self.known if one.is_current]))
        forget(self.bank, [one.id])
        one.is_current = False

    @rule(
        data=st.data(),
        allow=st.sets(st.sampled_from(_PERMISSIONS), min_size=1).map(lambda some: some | {"read"}),
        start=st.sampled_from([0.0, 2.0]),
        hours=st.sampled_from([1.0, 5.0]),
    )
    def owner_issues(
        self, data: st.DataObject, allow: set[str], start: float, hours: float
    ) -> None:
        """Issue a token for some time."""
        self._owner_issues(data, allow, start, hours)

    def _owner_issues(
        self, data: st.DataObject, allow: set[str], start: float, hours: float
    ) -> None:
        self.chains.append(
            chain_of(
                *self._scope(data),
                bank=self.bank.id,
                permissions=sorted(allow),
                issued_at=self.clock,
                not_before=later(start, since=self.clock),
                expires_at=later(start + hours, since=self.clock),
                audience=key_of(10).did,
            )
        )

    @precondition(lambda self: self.chains)
    @rule(data=st.data())
    def owner_revokes(self, data: st.DataObject) -> None:
        """Revoke any token of a chain."""
        chain = data.draw(st.sampled_from(self.chains))
        token = data.draw(st.sampled_from(chain.tokens)).id
        self.revoked.add(token)
        at = self.clock
        self.bank.ledger.append([token_revocation_record(self.bank.id, token, OWNER, at, None)])

    @rule(hours=st.sampled_from([0.01, 1.0, 3.0]))
    def time_passes(self, hours: float) -> None:
        """Advance the clock."""
        self.clock = later(hours, since=self.clock)

    # -- holders ----------------------------------------------------------------------------------

    @precondition(lambda self: any(len(chain.tokens) < 4 for chain in self.chains))
    @rule(data=st.data())
    def holder_attenuates(self, data: st.DataObject) -> None:
        """Attenuate a token with any scope."""
        chain = data.draw(st.sampled_from([one for one in self.chains if len(one.tokens) < 4]))
        ends = min(token.payload.expires_at for token in chain.tokens)
        begins = chain.leaf.payload.issued_at
        allow = data.draw(st.sets(st.sampled_from(sorted(chain.permissions)))) | {"read"}
        self.chains.append(
            child_of(
                chain,
                *self._scope(data),
                key=key_of(9 + len(chain.tokens)),
                audience=key_of(10 + len(chain.tokens)).did,
                permissions=sorted(allow),
                issued_at=begins,
                expires_at=ends,
            )
        )

    @precondition(lambda self: self.chains and self.known)
    @rule(data=st.data())
    def holder_reads(self, data: st.DataObject) -> None:
        """Read by every operation; results match the policy."""
        for chain in data.draw(st.permutations(self.chains))[:3]:
            self._read(chain)

    def _read(self, chain: Chain) -> None:
        bank = held(self.bank, chain, lambda: self.clock)
        seen = {one.id: one for one in self.known if self._sees(chain, one)}
        with self._allowed(chain, "read") as is_allowed:
            listing = list_memories(bank, ListRequest(limit=1000))
            every = list_memories(bank, ListRequest(limit=1000, everything=True))
            answer = recall_memories(bank, Query(text="marker", limit=1000))
            counts = stats(bank)
            told: list[Any] = [listing, every, counts]
            self._read_each(bank, seen, told)
            assert is_allowed
            current = {name for name, one in seen.items() if one.is_current}
            assert {memory.id for memory in listing.memories} == current
            assert {memory.id for memory in every.memories} == set(seen)
            assert {memory.id for memory in answer.memories} == current
            assert counts.memories == len(current)
            assert sum(counts.states.values()) == len(seen)
            self._require_nothing_withheld(msgspec.json.encode([told, answer]), seen)

    @precondition(lambda self: self.chains and self.known)
    @rule(data=st.data())
    def holder_exports(self, data: st.DataObject) -> None:
        """Export to a file; its bytes have only memories in the scope."""
        chain = data.draw(st.sampled_from(self.chains))
        bank = held(self.bank, chain, lambda: self.clock)
        seen = {one.id: one for one in self.known if self._sees(chain, one)}
        path = self.folder / "out.pam.jsonl"
        path.unlink(missing_ok=True)
        with self._allowed(chain, "read", "export") as is_allowed:
            current = [one for one in seen.values() if one.is_current]
            try:
                done = export(bank, path, ExportOptions(key=key_of(9 + len(chain.tokens))))
            except EmptyInputError:
                assert not current
                return
            assert is_allowed
            assert done.entries == len(current)
            data_ = path.read_bytes()
            assert all(one.text.encode() in data_ for one in current)
            self._require_nothing_withheld(data_, seen)
        assert path.exists() is is_allowed

    @precondition(lambda self: self.chains)
    @rule(data=st.data(), type_=st.sampled_from(_TYPES), tags=st.sets(st.sampled_from(_TAGS)))
    def holder_writes(self, data: st.DataObject, type_: str, tags: set[str]) -> None:
        """Store a memory, in the scope or not."""
        chain = data.draw(st.sampled_from(self.chains))
        bank = held(self.bank, chain, lambda: self.clock)
        text = self._text()
        fits = self._sees(chain, Known("", type_, frozenset(tags), text))
        with self._allowed(chain, "write", also=fits) as is_allowed:
            made = remember(bank, {"text": text, "type": type_, "tags": sorted(tags)})
            assert is_allowed
            self._know(made.id)

    @precondition(lambda self: self.chains and any(one.is_current for one in self.known))
    @rule(data=st.data())
    def holder_derives(self, data: st.DataObject) -> None:
        """Derive a memory from a parent, in the scope or not."""
        chain = data.draw(st.sampled_from(self.chains))
        bank = held(self.bank, chain, lambda: self.clock)
        parent = data.draw(st.sampled_from([one for one in self.known if one.is_current]))
        text = self._text()
        child = Known("", parent.type, parent.tags, text)
        fits = self._sees(chain, parent) and self._sees(chain, child)
        with self._allowed(chain, "read", "derive", also=fits) as is_allowed:
            members = {"text": text, "type": parent.type, "tags": sorted(parent.tags)}
            made = remember(bank, members, parents=[parent.id])
            assert is_allowed
            self._know(made.id)

    @precondition(lambda self: self.chains and self.known)
    @rule(data=st.data())
    def holder_forgets_or_restores(self, data: st.DataObject) -> None:
        """Forget or restore a memory, in the scope or not."""
        chain = data.draw(st.sampled_from(self.chains))
        bank = held(self.bank, chain, lambda: self.clock)
        one = data.draw(st.sampled_from(self.known))
        before = self._current_ids()
        try:
            moved = (forget if one.is_current else restore)(bank, [one.id])
        except (RefusedError, SatchelError):
            assert self._current_ids() == before
            return
        assert self._may(chain, "read", "write")
        assert self._sees(chain, one)
        if moved[0].is_changed:
            one.is_current = not one.is_current
        assert self._current_ids() == {each.id for each in self.known if each.is_current}

    # -- the policy -------------------------------------------------------------------------------

    def _sees(self, chain: Chain, one: Known) -> bool:
        value = chain.value()
        return all(
            covers(clause, one, value.get("lists", {}))
            for token in value["tokens"]
            for clause in token["payload"]["scope"]
        )

    def _may(self, chain: Chain, *permissions: str) -> bool:
        clock, minute = _at(self.clock), timedelta(seconds=60)
        for token, value in zip(chain.tokens, chain.value()["tokens"], strict=True):
            said = value["payload"]
            if token.id in self.revoked or not set(permissions) <= set(said["permissions"]):
                return False
            if (
                _at(said["not_before"]) > clock + minute
                or _at(said["expires_at"]) <= clock - minute
            ):
                return False
        return True

    @contextmanager
    def _allowed(self, chain: Chain, *permissions: str, also: bool = True) -> Iterator[bool]:
        """Yield whether the policy allows it, and require a refusal if not."""
        is_allowed = self._may(chain, *permissions) and also
        if is_allowed:
            yield True
            return
        before = self._current_ids()
        with pytest.raises((RefusedError, UnknownMemoryError)) as caught:
            yield False
        self._require_nothing_withheld(str(caught.value).encode(), {})
        assert self._current_ids() == before

    def _current_ids(self) -> set[str]:
        everything = list_memories(self.bank, ListRequest(limit=1000))
        return {memory.id for memory in everything.memories}

    def _read_each(self, bank: OpenBank, seen: dict[str, Known], told: list[Any]) -> None:
        for one in self.known:
            if one.id in seen:
                told += [show(bank, one.id), history(bank, one.id)]
                assert raw(bank, one.id).decode().count(one.text) == 1
                continue
            for look in (show, raw, history):
                with pytest.raises(UnknownMemoryError):
                    look(bank, one.id)

    def _require_nothing_withheld(self, data: bytes, seen: dict[str, Known]) -> None:
        for one in self.known:
            if one.id not in seen:
                assert one.text.encode() not in data
                assert not any(made in data for made in one.hashes)

    def _know(self, identity: str) -> None:
        value = show(self.bank, identity).record
        bare = {name: part for name, part in value.items() if name not in ("id", "nonce")}
        spoken = [value["text"].encode(), canonical(bare), canonical(value["text"])]
        hashes = [
            made
            for said in spoken
            for made in (
                blake3(said).hexdigest().encode(),
                hashlib.sha256(said).hexdigest().encode(),
            )
        ]
        tags = frozenset(value.get("tags", []))
        self.known.append(Known(identity, value["type"], tags, value["text"], hashes=hashes))

    def _text(self) -> str:
        self.number += 1
        return f"marker says{self.number:06d}x"

    def _scope(self, data: st.DataObject) -> tuple[Clause, ...]:
        kinds = ["all", "type", "tags", "type and tags", *(["ids"] if self.known else [])]
        kind = data.draw(st.sampled_from(kinds))
        found = list[Clause]()
        if kind == "ids":
            ids = data.draw(st.sets(st.sampled_from([one.id for one in self.known]), min_size=1))
            return (entries_clause(ids)[0],)
        if "type" in kind:
            types = data.draw(st.sets(st.sampled_from(_TYPES), min_size=1))
            found.append(Components(components=tuple(sorted(types))))  # type: ignore[arg-type]
        if "tags" in kind:
            some = st.sets(st.sampled_from(_TAGS)).map(lambda tags: tuple(sorted(tags)))
            tags = [data.draw(some) for _ in range(3)]
            if not any(tags):
                tags[2] = ("a",)
            found.append(Tags(any_of=tags[0], all_of=tags[1], none_of=tags[2]))
        return tuple(found) or (Wildcard(),)


def _run(folder: Path, examples: int, steps: int) -> None:
    Here = type("Here", (SharedBank,), {"folder": folder})  # noqa: N806 - a class
    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_results_match_an_independent_policy(tmp_path: Path) -> None:
    """No withheld text or hash is in any result."""
    _run(tmp_path, 25, 12)


@pytest.mark.prove
@pytest.mark.timeout(1200)
def test_results_match_an_independent_policy_at_length(tmp_path: Path) -> None:
    """With more and longer examples."""
    _run(tmp_path, 100, 30)
