"""The target banks of an import: the default bank, mapped owners, and refusals."""

import json
from pathlib import Path
from typing import Any

import pytest
from import_kit import A, B, C, bring, owner, rows, texts, write
from transfer_kit import new_bank

from satchel.bank.banks import create_bank, list_banks
from satchel.config.settings import load_settings
from satchel.errors import InputError, MalformedError, UnknownBankError, UsageError
from satchel.transfer.import_plan import maps_from

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


@pytest.fixture
def three_owners(tmp_path: Path) -> Path:
    """A file with memories of two users and an agent."""
    parts = (rows(A), rows(B, user="bob"), rows(C, user=None, agent_id="bot"))
    return write(tmp_path / "two.json", *parts)


def test_an_owner_is_imported_into_the_mapped_bank(three_owners: Path) -> None:
    """The others go into the banks of their names."""
    bring(three_owners, None, maps=("user:ada=bank-ada", "agent:bot=robots"))
    assert (texts("bank-ada"), texts("bob"), texts("robots")) == (["tea"], ["coffee"], ["water"])
    with pytest.raises(UnknownBankError):
        texts("ada")


def test_an_owner_can_be_mapped_to_a_bank_id(three_owners: Path) -> None:
    """As everywhere else on the command line."""
    bank = new_bank("there")
    bring(three_owners, None, maps=(f"user:ada={bank[:20]}",))
    assert texts("there") == ["tea"]


def test_a_memory_with_only_a_run_is_refused_until_it_is_mapped(tmp_path: Path) -> None:
    """The error names the record and the option."""
    path = write(tmp_path / "a.json", rows(A), rows(B, user=None, run_id="r1"))
    with pytest.raises(MalformedError, match="names only a run") as caught:
        bring(path, None)
    assert (caught.value.field, "--map run:r1=" in str(caught.value.hint)) == ("1", True)
    bring(path, None, maps=("run:r1=runs",))
    assert texts("runs") == ["coffee"]


def test_the_error_of_an_unknown_owner_lists_the_known_ones(three_owners: Path) -> None:
    """A typing error must not leave somebody's memory in another's bank."""
    with pytest.raises(UsageError, match="no memories of user:eve") as caught:
        bring(three_owners, None, maps=("user:eve=x",))
    assert "user:ada, user:bob, agent:bot" in str(caught.value.hint)
    with pytest.raises(UnknownBankError):
        texts("ada")


def test_two_owners_share_a_bank_only_if_both_are_mapped(three_owners: Path) -> None:
    """Otherwise ada's memory could get into bob's bank by accident."""
    with pytest.raises(UsageError, match="would go into one bank"):
        bring(three_owners, None, maps=("user:ada=bob",))
    bring(three_owners, None, maps=("user:ada=bob", "user:bob=bob"))
    assert texts("bob") == ["tea", "coffee"]


def test_a_user_and_an_agent_of_one_name_are_two_owners(tmp_path: Path) -> None:
    """Attack: an agent named like a user must not write to the user's bank."""
    path = write(tmp_path / "a.json", rows(A), rows(B, user=None, agent_id="ada"))
    with pytest.raises(UsageError, match="user:ada, agent:ada would go into one bank"):
        bring(path, None)
    bring(path, None, maps=("agent:ada=robot",))
    assert (texts("ada"), texts("robot")) == (["tea"], ["coffee"])


def test_one_bank_under_two_names_is_refused(three_owners: Path) -> None:
    """Two plans for one bank would not see each other's records."""
    bank = new_bank("there")
    with pytest.raises(UsageError, match="the same bank"):
        bring(three_owners, None, maps=("user:ada=there", f"user:bob={bank}"))


@pytest.mark.parametrize(
    "text", ["", "ada=x", "user:=x", "user:ada=", "user:ada", "team:ada=x", ":=", "user: = x"]
)
def test_an_invalid_owner_mapping_is_refused(text: str) -> None:
    """The error shows the syntax."""
    with pytest.raises(UsageError, match="not an owner and a bank"):
        maps_from([text])


def test_an_owner_name_can_contain_a_colon_and_an_equals_sign(tmp_path: Path) -> None:
    """The first colon and the last equals sign are the separators."""
    assert maps_from(["user:a:b=c@x=bank"]) == {("user", "a:b=c@x"): "bank"}
    with pytest.raises(UsageError, match="two banks"):
        maps_from(["user:a=x", "user:a=y"])
    with pytest.raises(UsageError, match="one bank for everything, or one for each owner"):
        bring(write(tmp_path / "a.json", rows(A)), "b", maps=("user:ada=x",))


def test_a_plan_lists_the_bank_of_each_owner(three_owners: Path) -> None:
    """Also if everything goes into one bank."""
    plan = bring(three_owners, None, maps=("user:ada=x",), dry_run=True).plan
    assert plan is not None
    told = {(one.sort, one.name, one.bank, one.mapped) for one in plan.tenants}
    assert told == {
        ("user", "ada", "x", True),
        ("user", "bob", "bob", False),
        ("agent", "bot", "bot", False),
    }
    one = bring(three_owners, "b", dry_run=True).plan
    assert one is not None
    assert [(one.sort, one.bank) for one in one.tenants] == [
        ("user", "b"),
        ("user", "b"),
        ("agent", "b"),
    ]
