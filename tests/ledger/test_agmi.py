"""The third-party suite of edits at rest finds nothing that is served as genuine."""

import pytest
from agmi.agent.compose import compose
from agmi.attacks.at_rest import AT_REST_ATTACKS_WITH_SNAPSHOT as ATTACKS
from agmi.check import verdict

from satchel.conformance.agmi import SatchelArtifact, SatchelLadybug, SatchelSqlite

# A restart of the graph's engine takes a tenth of a second.
_LONG = [pytest.mark.prove, pytest.mark.timeout(900)]
_EACH = pytest.mark.parametrize(
    "make", [SatchelSqlite, pytest.param(SatchelLadybug, marks=_LONG), SatchelArtifact]
)


@_EACH
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_every_edit_of_the_store_is_rejected_when_it_is_read(
    attack: type, make: type[SatchelSqlite | SatchelArtifact]
) -> None:
    """T1 to T9: by an ordinary open and listing, without an audit."""
    adapter = make()
    assert verdict(attack().run(adapter), adapter) == "REJECTED"


@_EACH
def test_no_sequence_of_two_moves_gets_through(
    make: type[SatchelSqlite | SatchelArtifact],
) -> None:
    """Edits, genuine writes, restarts and rollbacks, one after another."""
    _, findings = compose(make, max_len=2)
    assert findings == []


@pytest.mark.prove
@_EACH
@pytest.mark.timeout(900)
def test_no_sequence_of_three_moves_gets_through(
    make: type[SatchelSqlite | SatchelArtifact],
) -> None:
    """All of them, which takes a minute."""
    _, findings = compose(make, max_len=3)
    assert findings == []
