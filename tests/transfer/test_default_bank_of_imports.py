"""The target banks of an import: the default bank, mapped owners, and refusals."""

import json
from pathlib import Path
from typing import Any

import pytest
from import_kit import bring, owner, rows, texts, write

from satchel.bank.banks import create_bank, list_banks
from satchel.config.settings import load_settings
from satchel.errors import InputError, UsageError

SAMPLES = Path(__file__).parent.parent / "data" / "formats"
CHATS = (
    *("chatgpt/good-conversations.json", "claude/good-conversations.json"),
    *("claude_text/good-answered.txt", "gemini/good-activity.json", "codex/good-early.jsonl"),
)


def make_bank(name: str) -> None:
    """Create a bank."""
    create_bank(load_settings(), name, owner())


def claude_export(folder: Path, *accounts: str) -> Path:
    """Write an export with a conversation without an owner, and memories of accounts."""
    message = {
        "uuid": "m1",
        "sender": "human",
        "text": "hello",
        "content": [],
        "created_at": "2026-01-01T10:00:00Z",
        "attachments": [],
        "files": [],
    }
    chat = {"uuid": "c1", "name": "Chat", "created_at": "2026-01-01T10:00:00Z"}
    folder.mkdir()
    (folder / "conversations.json").write_text(json.dumps([{**chat, "chat_messages": [message]}]))
    memories = [
        {"conversations_memory": f"**Work**\n\nfact {n}", "account_uuid": account}
        for n, account in enumerate(accounts)
    ]
    (folder / "memories.json").write_text(json.dumps(memories))
    return folder


@pytest.mark.parametrize("sample", CHATS)
def test_a_file_without_owners_is_imported_into_the_default_bank(sample: str) -> None:
    """Also if there are other banks; no bank is created."""
    make_bank("mine")
    make_bank("other")
    done = bring(SAMPLES / sample, None)

    assert [one.name for one in done.banks] == ["mine"]
    assert sum(one.done.added + one.done.others for one in done.banks) > 0
    assert sorted(one.name or "" for one in list_banks(load_settings())) == ["mine", "other"]


def test_an_export_of_one_account_is_imported_into_the_default_bank(tmp_path: Path) -> None:
    """Some records name the account, and others name nobody."""
    make_bank("mine")
    done = bring(claude_export(tmp_path / "claude", "acc-1"), None)

    assert [one.name for one in done.banks] == ["mine"]
    assert "fact 0" in texts("mine")


def test_the_export_of_several_accounts_is_refused_without_a_bank(tmp_path: Path) -> None:
    """They may be different people."""
    make_bank("mine")
    with pytest.raises(InputError, match=r"user:acc-2.*another owner") as refused:
        bring(claude_export(tmp_path / "claude", "acc-1", "acc-2"), None)

    assert "--bank NAME" in str(refused.value.hint)
    assert texts("mine") == []


@pytest.mark.parametrize("first", [True, False])
def test_a_record_without_an_owner_among_others_is_refused(tmp_path: Path, *, first: bool) -> None:
    """In any order, and nothing is imported."""
    make_bank("mine")
    parts: list[list[dict[str, Any]]] = [rows(("1", "hers")), rows(("2", "whose"), user=None)]
    with pytest.raises(InputError, match=r"names? no user or agent") as refused:
        bring(write(tmp_path / "m.json", *(parts if first else parts[::-1])), None)

    assert (refused.value.field, "--bank NAME" in str(refused.value.hint)) == ("1", True)
    assert texts("mine") == []


def test_without_a_bank_the_error_says_how_to_name_or_create_one(tmp_path: Path) -> None:
    """No bank is created."""
    with pytest.raises(InputError, match="this semantic memory names no user or agent") as refused:
        bring(write(tmp_path / "m.json", rows(("1", "whose"), user=None)), None)

    assert "--bank NAME" in str(refused.value.hint)
    assert "satchel init" in str(refused.value.hint)
    assert list_banks(load_settings()) == []


def test_the_error_lists_the_banks_if_none_is_the_default(tmp_path: Path) -> None:
    """No bank is guessed."""
    bring(write(tmp_path / "two.json", rows(("1", "x")), rows(("2", "y"), user="bob")), None)
    with pytest.raises(UsageError, match=r"several banks exist.*ada, bob"):
        bring(write(tmp_path / "m.json", rows(("3", "whose"), user=None)), None)


def test_settings_of_the_default_bank_apply_to_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bank that scrubs secrets does so whether it was named or not."""
    make_bank("mine")
    config = tmp_path / "satchel.toml"
    config.write_text("[banks.mine]\nscrub_secrets = true\n")
    monkeypatch.setenv("SATCHEL_CONFIG", str(config))
    secret = "ghp_" + "a1B2" * 9
    bring(write(tmp_path / "m.json", rows(("1", f"token {secret}"), user=None)), None)

    assert all(secret not in str(text) for text in texts("mine"))
    assert len(texts("mine")) == 1
