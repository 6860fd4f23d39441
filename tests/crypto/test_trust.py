"""Whose word counts here, and what was seen before."""

from pathlib import Path
from typing import Any

import pytest

from satchel.artifact.verification import TrustPolicy
from satchel.crypto.key_files import KnownStatement, StatementHistory, TrustedKey, TrustRegistry
from satchel.crypto.keys import SigningKey
from satchel.errors import MalformedError, TargetError, UsageError

BANK, OTHER = "blake3:" + "11" * 32, "blake3:" + "22" * 32
TIME = "2025-03-04T05:06:07.000000Z"


def did(number: int) -> str:
    """Return the text of a key that is the same in every run."""
    return SigningKey.from_seed(bytes([number]) * 32).did


def trusted(key: str, **members: Any) -> TrustedKey:
    """Return an entry of the registry."""
    return TrustedKey(**{"key": key, "name": key[-4:], "added_at": TIME} | members)


@pytest.fixture
def registry(tmp_path: Path) -> TrustRegistry:
    """Return a registry with one key."""
    made = TrustRegistry(tmp_path / "state" / "trust.json")
    made.trust(trusted(did(1)))
    return made


def again(registry: TrustRegistry) -> TrustRegistry:
    """Return the registry as another process reads it."""
    return TrustRegistry(registry.path)


def test_the_registry_is_kept_on_disk_for_its_owner_alone(registry: TrustRegistry) -> None:
    """What is trusted today is trusted tomorrow, and nobody else may write it."""
    assert [key.key for key in again(registry).listed()] == [did(1)]
    assert registry.path.stat().st_mode & 0o777 == 0o600
    assert registry.path.parent.stat().st_mode & 0o777 == 0o700


def test_no_key_is_trusted_where_there_is_no_registry(tmp_path: Path) -> None:
    """The first file from anyone is untrusted."""
    policy = TrustPolicy(registry=TrustRegistry(tmp_path / "none"))
    assert policy.standing(did(1), None) == "unknown"
    assert TrustPolicy().standing(did(1), None) == "unknown"


def test_a_revoked_key_cannot_be_trusted_again(registry: TrustRegistry) -> None:
    """Not by the registry, not for this once, not under another name."""
    registry.revoke(did(1), "stolen")
    with pytest.raises(UsageError, match="revoked"):
        again(registry).trust(trusted(did(1), name="new name"))
    policy = TrustPolicy(registry=again(registry), keys=frozenset([did(1)]))
    assert policy.standing(did(1), None) == "revoked"
    found = again(registry).find(did(1))
    assert found is not None
    assert (found.state, found.reason) == ("revoked", "stolen")


def test_a_key_that_is_not_there_cannot_be_revoked(registry: TrustRegistry) -> None:
    """A misspelled key is a mistake, not a success."""
    with pytest.raises(UsageError):
        registry.revoke(did(9))


def test_a_key_that_may_not_sign_is_not_trusted(registry: TrustRegistry) -> None:
    """The valid-point check comes before the file is written."""
    identity = "did:key:z6MkeTG3bFFSLYVU7VqhgZxqr6YzpaGrQtFMh1uvqGy1vDnP"
    for wrong in ("", "did:key:z6Mk", did(2) + "\n", identity[:-1]):
        with pytest.raises(MalformedError):
            registry.trust(trusted(wrong, name="x"))
    assert len(again(registry).listed()) == 1


def test_a_succession_retires_the_old_key(registry: TrustRegistry) -> None:
    """What the old one signed still counts."""
    registry.trust(trusted(did(2), replaces=did(1)))
    policy = TrustPolicy(registry=again(registry))
    assert policy.standing(did(1), None) == "retired"
    assert policy.standing(did(2), None) == "trusted"


def test_two_successions_of_one_key_are_a_fork(registry: TrustRegistry) -> None:
    """One of the heirs is an impostor; nothing changes until a person says which."""
    registry.trust(trusted(did(2), replaces=did(1)))
    with pytest.raises(UsageError, match="fork"):
        again(registry).trust(trusted(did(3), replaces=did(1)))
    assert again(registry).find(did(3)) is None
    registry.trust(trusted(did(2), replaces=did(1), name="again"))
    registry.revoke(did(2), "the impostor")
    again(registry).trust(trusted(did(3), replaces=did(1)))
    assert TrustPolicy(registry=again(registry)).standing(did(3), None) == "trusted"


def test_an_unknown_key_cannot_be_replaced(registry: TrustRegistry) -> None:
    """Nobody can hand over a key that they never had."""
    with pytest.raises(UsageError, match="not in the registry"):
        registry.trust(trusted(did(3), replaces=did(9)))
    assert again(registry).find(did(3)) is None


def test_a_revoked_key_stays_revoked_when_it_is_replaced(registry: TrustRegistry) -> None:
    """Rotation is no way back."""
    registry.revoke(did(1))
    registry.trust(trusted(did(2), replaces=did(1)))
    assert TrustPolicy(registry=again(registry)).standing(did(1), None) == "revoked"


def test_a_key_bound_to_a_bank_counts_for_it_alone(registry: TrustRegistry) -> None:
    """Not for another bank, and not for a file that names none."""
    registry.trust(trusted(did(2), banks=[BANK]))
    policy = TrustPolicy(registry=registry)
    assert policy.standing(did(2), BANK) == "trusted"
    assert policy.standing(did(2), OTHER) == "other bank"
    assert policy.standing(did(2), None) == "other bank"
    assert policy.standing(did(1), BANK) == "trusted"


def test_a_key_counts_for_its_profile_and_role_alone(registry: TrustRegistry) -> None:
    """A key of the SDK vouches for no file of ours, a writer's for no artifact."""
    registry.trust(trusted(did(2), profile="pam-sdk-1.0"))
    registry.trust(trusted(did(3), role="writer"))
    policy = TrustPolicy(registry=registry)
    assert policy.standing(did(2), None) == "unknown"
    assert policy.standing(did(2), None, "pam-sdk-1.0") == "trusted"
    assert policy.standing(did(1), None, "pam-sdk-1.0") == "unknown"
    assert policy.standing(did(3), None) == "other role"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]\n",
        b'{"format":"satchel-trust/2","keys":[]}\n',
        b'{"format":"satchel-trust/1","keys":[{}]}\n',
        b'{"format":"satchel-trust/1","keys":[],"note":1}\n',
        b'{"format": "satchel-trust/1","keys":[]}\n',
        b"\xff",
    ],
    ids=range(8),
)
def test_a_damaged_registry_is_refused_and_not_taken_for_an_empty_one(
    registry: TrustRegistry, content: bytes
) -> None:
    """Forgetting a revocation silently would be worse than stopping."""
    registry.path.write_bytes(content)
    with pytest.raises(MalformedError) as caught:
        again(registry).listed()
    assert caught.value.file == str(registry.path)
    with pytest.raises(MalformedError):
        TrustPolicy(registry=again(registry)).standing(did(1), None)


def statement(number: int, **members: Any) -> KnownStatement:
    """Return a line of what was seen."""
    fields: dict[str, Any] = {"at": TIME, "statement": f"blake3:{number:064x}", "key": did(1)}
    return KnownStatement(**fields | members)


def test_what_was_seen_is_kept_once_and_in_order(tmp_path: Path) -> None:
    """An append-only file for its owner alone."""
    seen = StatementHistory(tmp_path / "state" / "seen")
    assert list(seen.all()) == []
    for number in (1, 2, 1, 2, 3):
        seen.remember(statement(number))
    assert [one.statement[-1] for one in seen.all()] == ["1", "2", "3"]
    assert seen.has(statement(2).statement, did(1))
    assert not seen.has(statement(2).statement, did(2))
    assert not seen.has(statement(9).statement, did(1))
    assert seen.path.stat().st_mode & 0o777 == 0o600


def test_a_torn_last_line_costs_that_line_and_no_other(tmp_path: Path) -> None:
    """Power was lost while it was written; what comes after is readable again."""
    seen = StatementHistory(tmp_path / "seen")
    seen.remember(statement(1))
    seen.remember(statement(2))
    whole = seen.path.read_bytes()
    for cut in range(whole.index(b"\n") + 1, len(whole)):
        seen.path.write_bytes(whole[:cut])
        assert [one.statement[-1] for one in seen.all()] == ["1"]
        seen.remember(statement(3))
        kept = [one.statement[-1] for one in seen.all()]
        assert kept in (["1", "3"], ["1", "2", "3"])
        assert (kept == ["1", "2", "3"]) == (cut == len(whole) - 1)


def test_what_was_seen_is_never_written_through_a_link(tmp_path: Path) -> None:
    """A link laid in the file's place would send our lines elsewhere."""
    target = tmp_path / "victim"
    (tmp_path / "seen").symlink_to(target)
    with pytest.raises(TargetError):
        StatementHistory(tmp_path / "seen").remember(statement(1))
    assert not target.exists()
