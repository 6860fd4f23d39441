"""amplihack's layout: where each agent's memory is, who may read it, and what is refused."""

import stat
from pathlib import Path

import pytest
from bank_kit import owner

from satchel.amplihack.agents import hierarchical, opened_agent, reading_agent
from satchel.amplihack.hierarchy import NewFact, store_facts
from satchel.config.settings import Settings, load_settings
from satchel.errors import (
    MissingExtraError,
    PathRefusedError,
    ReadOnlyStoreError,
    SatchelError,
    UnknownBankError,
    UsageError,
)
from satchel.stores.sqlite import SqliteStore

BACKENDS = ["sqlite", "graph-db"]


def surroundings(backend: str | None = None) -> Settings:
    """Return the surroundings with a kind of store chosen."""
    return load_settings(backend=backend)


def fill(settings: Settings, agent: str = "ada", storage_path: Path | None = None) -> None:
    """Store a fact of an agent."""
    there = hierarchical(settings, agent, storage_path=storage_path, writes=True)
    with opened_agent(there, agent, owner) as bank:
        store_facts(bank, [NewFact(content="Ada likes tea")], agent=agent)


def count(settings: Settings, agent: str = "ada", storage_path: Path | None = None) -> int:
    """Count the facts of an agent."""
    there = hierarchical(settings, agent, storage_path=storage_path)
    with reading_agent(there, agent) as bank, bank.ledger.reading() as view:
        return view.head.counts["semantic"]


def modes(folder: Path) -> set[str]:
    """Return the modes of a folder and of all in it, folders and files apart."""
    return {
        f"{'folder' if path.is_dir() else 'file'} {stat.S_IMODE(path.stat().st_mode):04o}"
        for path in [folder, *folder.rglob("*")]
    }


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_agent_has_a_store_of_its_own_in_a_storage_path(tmp_path: Path, backend: str) -> None:
    """The same flag means the same folder for every backend."""
    place = tmp_path / "agents"
    for agent in ("ada", "bob"):
        fill(surroundings(backend), agent, place)
    expected = ["ada.db", "bob.db"] if backend == "sqlite" else ["ada", "bob"]
    assert sorted(each.name for each in place.iterdir() if each.suffix != ".lock") == expected
    assert count(surroundings(backend), "ada", place) == 1
    with pytest.raises(UnknownBankError):
        count(surroundings(backend), "carl", place)
    assert not (place / "carl").exists()
    assert not (place / "carl.db").exists()


def test_without_the_layout_an_agent_is_a_bank_of_the_one_store(own_home: Path) -> None:
    """``satchel.db`` stays the default, and no folder appears beside it."""
    fill(surroundings())
    assert (own_home / "satchel.db").exists()
    assert not (own_home / "hierarchical_memory").exists()
    assert count(surroundings()) == 1


def test_the_layout_is_used_if_it_exists(own_home: Path) -> None:
    """Once its folder exists, agents have files of their own in it."""
    (own_home / "hierarchical_memory").mkdir(parents=True)
    fill(surroundings())
    assert (own_home / "hierarchical_memory" / "ada.db").exists()


def test_a_graph_that_is_chosen_is_found_again_without_being_named(own_home: Path) -> None:
    """The next command takes it because it is there; for that agent only."""
    fill(surroundings("graph-db"))
    assert (own_home / "hierarchical_memory" / "ada" / "graph_db").is_dir()
    assert count(surroundings()) == 1
    assert "graph_db" in hierarchical(surroundings(), "ada").store
    assert "graph_db" not in hierarchical(surroundings(), "bob").store


@pytest.mark.parametrize("backend", BACKENDS)
def test_files_and_folders_are_the_owners_alone_at_every_open(tmp_path: Path, backend: str) -> None:
    """0600 and 0700 when they are made, and again when somebody has widened them."""
    place = tmp_path / "agents"
    for number in (1, 2):
        fill(surroundings(backend), storage_path=place)
        for path in [place, *place.rglob("*")]:
            path.chmod(0o777 if path.is_dir() else 0o666)
        assert count(surroundings(backend), storage_path=place) == number
        assert modes(place) <= {"folder 0700", "file 0600"}
    fill(surroundings(backend), storage_path=place)
    assert not any("folder" in mode and mode != "folder 0700" for mode in modes(place))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("writes", [True, False])
def test_a_link_is_refused_before_anything_is_opened(
    tmp_path: Path, backend: str, *, writes: bool
) -> None:
    """The reference opens first and makes the link's target on the way."""
    place, victim = tmp_path / "agents", tmp_path / "victim"
    place.mkdir()
    name = "ada.db" if backend == "sqlite" else "ada"
    (place / name).symlink_to(victim)
    with pytest.raises(PathRefusedError):
        hierarchical(surroundings(backend), "ada", storage_path=place, writes=writes)
    assert not victim.exists()


@pytest.mark.parametrize("name", ["../ada", "a/b", "a\\b", "a\nb", "", ".", "x" * 65, "-ada"])
def test_a_name_that_is_no_agents_builds_no_path(tmp_path: Path, name: str) -> None:
    """Nothing is made, nothing is looked at."""
    place = tmp_path / "agents"
    with pytest.raises(UsageError, match="not a valid agent name"):
        hierarchical(surroundings(), name, storage_path=place, writes=True)
    assert not place.exists()


def test_a_folder_that_is_everyones_is_refused(tmp_path: Path) -> None:
    """Such as the one for temporary files: it cannot be made private."""
    place = tmp_path / "everyone"
    place.mkdir()
    place.chmod(0o1777)
    with pytest.raises(PathRefusedError):
        hierarchical(surroundings(), "ada", storage_path=place, writes=True)


@pytest.mark.parametrize("older", ["ada/sqlite_hierarchical.db", "sqlite_hierarchical.db"])
def test_what_older_versions_left_is_read_and_carried_over_when_written(
    tmp_path: Path, older: str
) -> None:
    """``ada.db`` is what is written; nothing that was there is lost or changed."""
    place = tmp_path / "agents"
    fill(surroundings(), storage_path=place)
    (place / older).parent.mkdir(exist_ok=True)
    for path in place.glob("ada.db*"):
        path.replace(place / (older + path.name.removeprefix("ada.db")))
    assert count(surroundings(), storage_path=place) == 1
    assert not (place / "ada.db").exists()
    before = (place / older).read_bytes()
    fill(surroundings(), storage_path=place)
    assert count(surroundings(), storage_path=place) == 2
    assert (place / older).read_bytes() == before
    SqliteStore(place / "ada.db", read_only=True).close()


@pytest.mark.parametrize("new", [None, "empty"])
def test_an_older_graph_of_kuzus_is_named_and_never_written(
    tmp_path: Path, new: str | None
) -> None:
    """Read through its extra, which the error names; also where the new folder is empty."""
    place = tmp_path / "agents"
    (place / "ada" / "kuzu_db").mkdir(parents=True)
    if new is not None:
        (place / "ada" / "graph_db").mkdir()
    with pytest.raises(MissingExtraError) as found:
        hierarchical(surroundings("graph-db"), "ada", storage_path=place)
    assert "satchel[graph]" in str(found.value.hint)
    with pytest.raises(ReadOnlyStoreError):
        hierarchical(surroundings("graph-db"), "ada", storage_path=place, writes=True)


def test_a_server_has_no_storage_path(tmp_path: Path) -> None:
    """What was asked for cannot be; it is not done somewhere else instead."""
    settings = load_settings(store="postgresql://me@there/mine")
    with pytest.raises(SatchelError, match="no storage path"):
        hierarchical(settings, "ada", storage_path=tmp_path)


def test_an_agent_with_a_name_like_an_id_gets_its_own_bank() -> None:
    """The first digits of another bank's id are no name."""
    settings = surroundings()
    with opened_agent(settings, "ada", owner) as bank:
        digits = bank.id.removeprefix("blake3:")[:12]
    with opened_agent(settings, digits, owner) as other:
        assert other.name == digits
