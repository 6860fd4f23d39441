"""The trust registry, and the history of statements that were verified before."""

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


def trusted_key(key: str, **members: Any) -> TrustedKey:
    """Return an entry of the registry."""
    return TrustedKey(**{"key": key, "name": key[-4:], "added_at": TIME} | members)


@pytest.fixture
def registry(tmp_path: Path) -> TrustRegistry:
    """A registry with one key."""
    made = TrustRegistry(tmp_path / "state" / "trust.json")
    made.trust(trusted_key(did(1)))
    return made


def reopened(registry: TrustRegistry) -> TrustRegistry:
    """Return the registry as another process reads it."""
    return TrustRegistry(registry.path)


def test_the_registry_is_private_on_disk(registry: TrustRegistry) -> None:
    """It persists, and only its owner may write it."""
    assert [key.key for key in reopened(registry).listed()] == [did(1)]
    assert registry.path.stat().st_mode & 0o777 == 0o600
    assert registry.path.parent.stat().st_mode & 0o777 == 0o700


def test_no_key_is_trusted_without_a_registry(tmp_path: Path) -> None:
    """The first file of any signer is untrusted."""
    policy = TrustPolicy(registry=TrustRegistry(tmp_path / "none"))
    assert policy.standing(did(1), None) == "unknown"
    assert TrustPolicy().standing(did(1), None) == "unknown"


def test_a_revoked_key_cannot_be_trusted_again(registry: TrustRegistry) -> None:
    """Not in the registry, not for one verification, not under another name."""
    registry.revoke(did(1), "stolen")
    with pytest.raises(UsageError, match="revoked"):
        reopened(registry).trust(trusted_key(did(1), name="new name"))
    policy = TrustPolicy(registry=reopened(registry), keys=frozenset([did(1)]))
    assert policy.standing(did(1), None) == "revoked"
    found = reopened(registry).find(did(1))
    assert found is not None
    assert (found.state, found.reason) == ("revoked", "stolen")


def test_revoking_an_unknown_key_is_an_error(registry: TrustRegistry) -> None:
    """A mistyped key is a mistake, not a success."""
    with pytest.raises(UsageError):
        registry.revoke(did(9))


def test_an_invalid_key_is_not_trusted(registry: TrustRegistry) -> None:
    """The key is checked before the file is written."""
    identity = "did:key:z6MkeTG3bFFSLYVU7VqhgZxqr6YzpaGrQtFMh1uvqGy1vDnP"
    for wrong in ("", "did:key:z6Mk", did(2) + "\n", identity[:-1]):
        with pytest.raises(MalformedError):
            registry.trust(trusted_key(wrong, name="x"))
    assert len(reopened(registry).listed()) == 1


def test_a_succession_retires_the_old_key(registry: TrustRegistry) -> None:
    """Its earlier signatures stay valid."""
    registry.trust(trusted_key(did(2), replaces=did(1)))
    policy = TrustPolicy(registry=reopened(registry))
    assert policy.standing(did(1), None) == "retired"
    assert policy.standing(did(2), None) == "trusted"


def test_two_successions_of_one_key_are_a_fork(registry: TrustRegistry) -> None:
    """Nothing changes until one of the successors is revoked."""
    registry.trust(trusted_key(did(2), replaces=did(1)))
    with pytest.raises(UsageError, match="fork"):
        reopened(registry).trust(trusted_key(did(3), replaces=did(1)))
    assert reopened(registry).find(did(3)) is None
    registry.trust(trusted_key(did(2), replaces=did(1), name="again"))
    registry.revoke(did(2), "the impostor")
    reopened(registry).trust(trusted_key(did(3), replaces=did(1)))
    assert TrustPolicy(registry=reopened(registry)).standing(did(3), None) == "trusted"


def test_an_unknown_key_cannot_be_replaced(registry: TrustRegistry) -> None:
    """The old key has to be in the registry."""
    with pytest.raises(UsageError, match="not in the registry"):
        registry.trust(trusted_key(did(3), replaces=did(9)))
    assert reopened(registry).find(did(3)) is None


def test_a_revoked_key_stays_revoked_when_it_is_replaced(registry: TrustRegistry) -> None:
    """Rotation does not restore a key."""
    registry.revoke(did(1))
    registry.trust(trusted_key(did(2), replaces=did(1)))
    assert TrustPolicy(registry=reopened(registry)).standing(did(1), None) == "revoked"


def test_a_key_bound_to_a_bank_is_trusted_only_for_that_bank(registry: TrustRegistry) -> None:
    """Not for another bank, and not for a file without a bank."""
    registry.trust(trusted_key(did(2), banks=[BANK]))
    policy = TrustPolicy(registry=registry)
    assert policy.standing(did(2), BANK) == "trusted"
    assert policy.standing(did(2), OTHER) == "other bank"
    assert policy.standing(did(2), None) == "other bank"
    assert policy.standing(did(1), BANK) == "trusted"


def test_a_key_is_trusted_only_for_its_profile_and_role(registry: TrustRegistry) -> None:
    """An SDK key is not trusted for sealed files, nor a writer's key for artifacts."""
    registry.trust(trusted_key(did(2), profile="pam-sdk-1.0"))
    registry.trust(trusted_key(did(3), role="writer"))
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
def test_a_damaged_registry_is_refused_and_not_treated_as_empty(
    registry: TrustRegistry, content: bytes
) -> None:
    """Silently losing a revocation would be worse than an error."""
    registry.path.write_bytes(content)
    with pytest.raises(MalformedError) as caught:
        reopened(registry).listed()
    assert caught.value.file == str(registry.path)
    with pytest.raises(MalformedError):
        TrustPolicy(registry=reopened(registry)).standing(did(1), None)


def statement(number: int, **members: Any) -> KnownStatement:
    """Return a statement of the history."""
    fields: dict[str, Any] = {"at": TIME, "statement": f"blake3:{number:064x}", "key": did(1)}
    return KnownStatement(**fields | members)


def test_the_history_stores_each_statement_once_and_in_order(tmp_path: Path) -> None:
    """A private append-only file."""
    seen = StatementHistory(tmp_path / "state" / "seen")
    assert list(seen.all()) == []
    for number in (1, 2, 1, 2, 3):
        seen.remember(statement(number))
    assert [one.statement[-1] for one in seen.all()] == ["1", "2", "3"]
    assert seen.has(statement(2).statement, did(1))
    assert not seen.has(statement(2).statement, did(2))
    assert not seen.has(statement(9).statement, did(1))
    assert seen.path.stat().st_mode & 0o777 == 0o600


def test_a_torn_last_line_of_the_history_loses_only_that_line(tmp_path: Path) -> None:
    """After a power loss; statements recorded later are readable."""
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


def test_the_history_is_never_written_through_a_link(tmp_path: Path) -> None:
    """A link in place of the file would redirect the lines."""
    target = tmp_path / "victim"
    (tmp_path / "seen").symlink_to(target)
    with pytest.raises(TargetError):
        StatementHistory(tmp_path / "seen").remember(statement(1))
    assert not target.exists()
