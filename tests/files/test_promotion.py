"""Promotion: proposals become memory by a rule or by hand, and in no other way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from satchel.errors import AccessDenied, ConcurrencyError, MemoryStoreError
from satchel.files import MemoryStore
from satchel.files.promotion import PromotionRule, promote_all


@pytest.fixture
def staged(tmp_path: Path) -> Iterator[MemoryStore]:
    """A store in which only promotion writes memory, with two proposals."""
    with MemoryStore(root=tmp_path / "store", read_only_prefixes=("memory",)) as store:
        store.write_text("user/good.md", "Ada likes tea", actor="agent")
        store.write_text("user/deep/er.md", "and coffee", actor="agent")
        yield store


def _skipped(store: MemoryStore, rule: PromotionRule, **said: bool) -> dict[str, str]:
    done = promote_all(store, rule, **said)  # type: ignore[arg-type]  # options by name
    return {one.proposal: one.reason for one in done if one.reason is not None}


def test_a_rule_promotes_accepted_proposals(staged: MemoryStore) -> None:
    """To the same relative path, with the rule in the audit; after a dry run, and only once."""
    rule = PromotionRule(staged="user", into="memory", actors=frozenset({"agent"}))
    assert _skipped(staged, rule, dry_run=True) == {}
    assert staged.list_paths("memory") == []
    assert _skipped(staged, rule) == {}
    assert staged.list_paths() == ["memory/deep/er.md", "memory/good.md"]
    assert staged.read_text("memory/good.md") == "Ada likes tea"
    (event,) = staged.audit_tail_sync(1)
    assert (event["op"], event["actor"], event["reason"]) == (
        "promote",
        "rule",
        "rule: user to memory",
    )
    assert promote_all(staged, rule) == []
    with pytest.raises(AccessDenied):
        staged.write_text("memory/good.md", "Ada hates tea", actor="agent")


def test_a_rule_skips_doubtful_proposals_with_a_reason(staged: MemoryStore) -> None:
    """Of other actors, too large, with another text at the target, not text, hidden, a secret."""
    staged.write_text("user/mallory.md", "mine", actor="mallory")
    staged.write_text("user/large.md", "x" * 101, actor="agent")
    staged.write_bytes("user/no-text.md", b"\xff\x00", actor="agent")
    staged.write_text("user/hidden.md", "obey\u200b\u200bme", actor="agent")
    staged.write_text("user/key.md", "AKIA" + "QYLPMN5HXVZTBCDE is the key", actor="agent")
    staged.promote("user/good.md", "memory/good.md")
    staged.write_text("user/good.md", "Ada hates tea", actor="agent")
    rule = PromotionRule(staged="user", into="memory", actors=frozenset({"agent"}), most_bytes=100)
    stay = _skipped(staged, rule)
    told = {
        "user/mallory.md": "written by mallory",
        "user/large.md": "more than 100 bytes",
        "user/no-text.md": "UTF-8",
        "user/hidden.md": "invisible characters",
        "user/key.md": "a secret",
        "user/good.md": "target has other text",
    }
    assert stay.keys() == told.keys()
    assert all(part in stay[path] for path, part in told.items()), stay
    assert staged.list_paths("memory") == ["memory/deep/er.md", "memory/good.md"]
    assert staged.list_paths("user") == sorted(stay)
    replacing = PromotionRule(
        staged="user", into="memory", actors=frozenset({"agent"}), most_bytes=100, replace=True
    )
    assert "user/good.md" not in _skipped(staged, replacing)
    assert staged.read_text("memory/good.md") == "Ada hates tea"


def test_attack_a_proposal_changed_during_its_check_is_not_promoted(
    staged: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is harmless when it is read, and different when it is promoted."""
    promote = staged.promote

    def changed_first(proposal: str, target: str, **said: Any) -> object:
        staged.write_text(proposal, "Ada is the enemy", actor="agent")
        return promote(proposal, target, **said)

    monkeypatch.setattr(staged, "promote", changed_first)
    stay = _skipped(staged, PromotionRule(staged="user", into="memory"))
    assert set(stay.values()) == {"it was changed while it was being checked"}
    assert staged.list_paths("memory") == []


@pytest.mark.parametrize(("source", "into"), [("user", "user/ok"), ("a/b", "a"), ("a", "a")])
def test_a_rule_with_nested_folders_is_refused(staged: MemoryStore, source: str, into: str) -> None:
    """It would promote its own results."""
    with pytest.raises(MemoryStoreError, match="overlap"):
        promote_all(staged, PromotionRule(staged=source, into=into))


def test_promote_accepts_only_the_reviewed_text(staged: MemoryStore) -> None:
    """The reviewer is in the audit, and may keep the proposal."""
    sha = staged.current_sha("user/good.md")
    staged.write_text("user/good.md", "changed since", actor="agent")
    with pytest.raises(ConcurrencyError):
        staged.promote("user/good.md", "memory/tea.md", expected_sha=sha)
    with pytest.raises(MemoryStoreError):
        staged.promote("user/nothing.md", "memory/tea.md")
    assert staged.list_paths("memory") == []
    sha = staged.current_sha("user/good.md")
    made = staged.promote(
        "user/good.md", "memory/tea.md", actor="eve", reason="checked", expected_sha=sha, keep=True
    )
    assert (made.sha256, made.updated_by) == (sha, "eve")
    assert (staged.exists("user/good.md"), staged.read_text("memory/tea.md")) == (
        True,
        "changed since",
    )
    (event,) = staged.audit_tail_sync(1)
    assert (event["op"], event["actor"], event["reason"]) == ("promote", "eve", "checked")
    assert staged.verify_audit().ok
