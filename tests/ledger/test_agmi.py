"""The third-party suite of edits at rest: no edit is served as genuine."""

import pytest
from agmi.agent.compose import compose
from agmi.attacks.at_rest import AT_REST_ATTACKS_WITH_SNAPSHOT as ATTACKS
from agmi.check import verdict

from satchel.conformance.agmi import SatchelArtifact, SatchelLadybug, SatchelSqlite
from satchel.conformance.agmi.postgres import ADDRESS, SatchelPostgres

_Adapter = SatchelSqlite | SatchelLadybug | SatchelArtifact | SatchelPostgres
_PROVED = [pytest.mark.prove, pytest.mark.timeout(900)]
# A restart of the graph's engine takes a tenth of a second.
_LADYBUG = pytest.param(SatchelLadybug, marks=_PROVED)
_EACH = pytest.mark.parametrize("make", [SatchelSqlite, _LADYBUG, SatchelArtifact, SatchelPostgres])
# Thousands of stores, each of them new: minutes on a server.
_LONG = pytest.mark.parametrize(
    "make", [SatchelSqlite, _LADYBUG, SatchelArtifact, pytest.param(SatchelPostgres, marks=_PROVED)]
)
_LONGER = pytest.mark.parametrize(
    "make",
    [
        pytest.param(SatchelSqlite, marks=_PROVED),
        pytest.param(SatchelArtifact, marks=_PROVED),
        pytest.param(SatchelLadybug, marks=[pytest.mark.bench_full, pytest.mark.timeout(7200)]),
    ],
)


@pytest.fixture(autouse=True)
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the address of the server to the adapter that needs one."""
    if request.node.callspec.params["make"] is SatchelPostgres:
        monkeypatch.setenv(ADDRESS, request.getfixturevalue("postgres"))


@pytest.mark.in_check(9)
@_EACH
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_every_edit_at_rest_is_rejected_on_read(attack: type, make: type[_Adapter]) -> None:
    """T1 to T9: by an ordinary open and listing, without an audit."""
    adapter = make()
    assert verdict(attack().run(adapter), adapter) == "REJECTED"


@pytest.mark.in_check(1)
@pytest.mark.timeout(3600)
@_LONG
def test_every_sequence_of_two_moves_is_detected(
    make: type[_Adapter],
) -> None:
    """Edits, genuine writes, restarts and rollbacks, one after another."""
    _, findings = compose(make, max_len=2)
    assert findings == []


@_LONGER
def test_every_sequence_of_three_moves_is_detected(
    make: type[_Adapter],
) -> None:
    """Takes minutes, and most of an hour on LadybugDB, which opens slowly."""
    _, findings = compose(make, max_len=3)
    assert findings == []
