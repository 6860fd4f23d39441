"""amplihack's memory out of its graphs: the same as out of its SQLite database."""

import gzip
from collections import Counter
from pathlib import Path

import pytest

from satchel.errors import EmptyInputError, InputError, MalformedError
from satchel.formats.amplihack_graph import FORMAT
from satchel.model.records import Edge, Episodic, Semantic
from satchel.ports.format import Place, ReadContext, formats

DATA = Path(__file__).parents[1] / "data" / "graphs"
OLD = ("kuzu-39", "ladybug-40", "ladybug-41")


def unpacked(name: str, folder: Path) -> Path:
    """Return a sample as its program left it."""
    path = folder / "graph_db"
    path.write_bytes(gzip.decompress((DATA / f"amplihack-{name}.gz").read_bytes()))
    return path


@pytest.mark.parametrize("name", OLD)
def test_a_graph_yields_facts_episodes_and_links_of_each_kind(name: str, tmp_path: Path) -> None:
    """Under the agents that they are of; a fact has its episode as a parent."""
    place = Place(unpacked(name, tmp_path))
    assert formats.recognize(place) == "amplihack_graph"
    found = list(FORMAT.read(place, ReadContext()))
    facts = [one for one in found if isinstance(one, Semantic)]
    episodes = [one for one in found if isinstance(one, Episodic)]
    kinds = Counter(one.kind for one in found if isinstance(one, Edge))
    assert (len(facts), len(episodes)) == (4, 3)
    assert kinds == {"similar_to": 2, "derives_from": 3, "supersedes": 2, "transitioned_to": 2}
    assert sorted(one.scope.agent or "" for one in facts if one.scope) == [
        "builder",
        "builder",
        "builder",
        "reviewer",
    ]
    assert sum(len(one.parent_ids) for one in facts) == 3
    assert {one.text for one in facts} == {f"the queue has {n} workers 🐝" for n in (4, 8, 12, 16)}


def test_the_memory_of_one_agent_of_several_is_taken_alone(tmp_path: Path) -> None:
    """What is another's stays, counted; who is not there is refused, not read as nothing."""
    place = Place(unpacked("ladybug-41", tmp_path))
    reading = ReadContext(agent="reviewer")
    (fact,) = FORMAT.read(place, reading)
    assert isinstance(fact, Semantic)
    assert fact.origin is not None
    assert fact.origin.id == "f3"
    assert sum(loss.count for loss in reading.report.losses.values() if loss.name == "row") == 15
    with pytest.raises(MalformedError, match="none of them"):
        list(FORMAT.read(place, ReadContext(agent="nobody")))


def test_a_cut_graph_is_refused(tmp_path: Path) -> None:
    """With where it is."""
    path = unpacked("ladybug-41", tmp_path)
    path.write_bytes(path.read_bytes()[:100_000])
    with pytest.raises(InputError) as error:
        list(FORMAT.read(Place(path), ReadContext()))
    assert error.value.file == str(path)
    assert not isinstance(error.value, EmptyInputError)
