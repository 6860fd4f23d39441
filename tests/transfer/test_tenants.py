"""Whose memory goes into which bank: nobody's is given to whoever comes first."""

from pathlib import Path

import pytest
from import_kit import A, B, C, bring, rows, texts, write
from transfer_kit import new_bank

from satchel.errors import MalformedError, UnknownBankError, UsageError
from satchel.transfer.import_plan import maps_from


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
