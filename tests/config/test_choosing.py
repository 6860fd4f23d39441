"""Which store is meant: one order, nothing guessed, no link followed."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.bank.checks import diagnose
from satchel.config.settings import load_settings
from satchel.config.store_selection import BackendChoice, StoreChoice, backend_from
from satchel.errors import ConfigError, PathRefusedError, SatchelError
from satchel.stores.sqlite import SqliteStore

SERVER = "postgresql://me@there/mine"


@pytest.fixture
def home(own_home: Path) -> Path:
    """The home of this test, which is there."""
    own_home.mkdir()
    return own_home


def chosen(**said: str | Path | None) -> StoreChoice:
    """Return what is chosen when something is said."""
    return load_settings(**said).selection.choice  # type: ignore[arg-type]  # by name


def graph(home: Path, agent: str | None = None) -> Path:
    """Lay the folder of a graph with something in it."""
    path = home / "memory_graph.db"
    if agent is not None:
        path = home / "hierarchical_memory" / agent / "graph_db"
    path.mkdir(parents=True)
    (path / "graph.lbug").write_bytes(b"LBUG")
    return path


def test_each_source_of_the_choice_overrides_all_later_ones(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Said one after another, the weakest first, each takes over; the reason is named."""
    config = tmp_path / "satchel.toml"
    config.write_text("")
    found = list[tuple[BackendChoice | None, str, str]]()

    def look(**said: str) -> None:
        there = chosen(config=config, **said)
        found.append((there.backend, Path(there.address).name, there.why))

    look()
    flat = graph(home)
    look()
    config.write_text('[store]\nbackend = "sqlite"\n')
    look()
    config.write_text(f'[store]\naddress = "{SERVER}"\n')
    look()
    monkeypatch.setenv("AMPLIHACK_MEMORY_BACKEND", "kuzu")
    look()
    monkeypatch.setenv("SATCHEL_MEMORY_BACKEND", "sqlite")
    look()
    monkeypatch.setenv("SATCHEL_STORE", "env.db")
    look()
    look(backend="graph-db")
    look(backend="graph-db", store="flag.db")
    sqlite, graphs = BackendChoice.SQLITE, BackendChoice.GRAPH_DB
    assert found == [
        (sqlite, "satchel.db", "default"),
        (graphs, "memory_graph.db", f"{flat} is there"),
        (sqlite, "satchel.db", "the configuration file"),
        (BackendChoice.POSTGRES, "mine", "the configuration file"),
        (graphs, "memory_graph.db", "AMPLIHACK_MEMORY_BACKEND"),
        (sqlite, "satchel.db", "SATCHEL_MEMORY_BACKEND"),
        (sqlite, "env.db", "SATCHEL_STORE"),
        (graphs, "memory_graph.db", "--backend"),
        (sqlite, "flag.db", "--store"),
    ]


@given(st.text(max_size=30).filter(lambda text: text not in {"kuzu", *BackendChoice}))
def test_any_other_word_is_refused_and_never_guessed(text: str) -> None:
    """For all texts: not in other case, not with spaces around; the error says what there is."""
    with pytest.raises(ConfigError) as found:
        backend_from(text, "SATCHEL_MEMORY_BACKEND")
    assert found.value.field == "SATCHEL_MEMORY_BACKEND"
    assert found.value.hint == "There are: sqlite, graph-db, postgres, kuzu."


def test_a_backend_that_is_none_is_refused_also_where_something_else_wins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No silent degradation: not even behind a flag."""
    monkeypatch.setenv("AMPLIHACK_MEMORY_BACKEND", "SQLite")
    with pytest.raises(ConfigError) as found:
        chosen(store="flag.db")
    assert found.value.field == "AMPLIHACK_MEMORY_BACKEND"


def test_a_server_without_an_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is cannot be guessed; where an address of it is configured, that is it."""
    monkeypatch.setenv("SATCHEL_MEMORY_BACKEND", "postgres")
    with pytest.raises(ConfigError, match="no address is given"):
        chosen()
    monkeypatch.setenv("SATCHEL_STORE", SERVER)
    assert chosen(backend="postgres").address == SERVER


def test_a_configuration_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    """An address of one kind and the name of another cannot both be meant."""
    config = tmp_path / "satchel.toml"
    config.write_text('[store]\nbackend = "graph-db"\naddress = "mine.db"\n')
    with pytest.raises(ConfigError) as found:
        chosen(config=config)
    assert found.value.field == "store.backend"


def test_the_graph_of_an_agent_counts_for_that_agent_only(home: Path) -> None:
    """Another's hierarchical graph does not move anybody's memory."""
    graph(home, "ada")
    selection = load_settings().selection
    assert selection.choice.backend is BackendChoice.SQLITE
    assert selection.of(["bob"]).backend is BackendChoice.SQLITE
    assert selection.of(["ada"]).backend is BackendChoice.GRAPH_DB


def test_an_empty_flat_graph_is_none(home: Path) -> None:
    """A folder that something made and left empty moves nobody's memory."""
    (home / "memory_graph.db").mkdir()
    assert chosen().backend is BackendChoice.SQLITE


@pytest.mark.parametrize(
    "link",
    [
        "memory_graph.db",
        "hierarchical_memory",
        "hierarchical_memory/ada",
        "hierarchical_memory/ada/graph_db",
        "hierarchical_memory/ada/kuzu_db",
    ],
)
@pytest.mark.parametrize("dangling", [True, False])
def test_a_link_in_the_probe_is_refused_wherever_it_leads(
    home: Path, tmp_path: Path, link: str, *, dangling: bool
) -> None:
    """It is neither followed nor taken for nothing, and its target is not touched."""
    target = tmp_path / "victim"
    if not dangling:
        target.mkdir()
    path = home / link
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    with pytest.raises(PathRefusedError) as found:
        load_settings().selection.of(["ada"])
    assert found.value.file == str(path)
    assert target.exists() is not dangling
    assert dangling or not list(target.iterdir())


def test_a_name_with_a_path_in_it_reaches_no_file(home: Path) -> None:
    """The list of what a name may be comes before any path is built."""
    graph(home, "ada")
    for name in ("../ada", "a/b", "a\\b", "a\nb", "", "x" * 65, ".ada", "ada\n", "\u0430da"):
        with pytest.raises(SatchelError, match="not a valid agent name"):
            load_settings().selection.of([name])


def test_without_a_home_nothing_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error says so, and which variable helps; with that one no home is needed."""
    for name in ("HOME", "SATCHEL_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="no home directory") as found:
        load_settings()
    assert found.value.field == "SATCHEL_HOME"
    monkeypatch.setenv("SATCHEL_HOME", "here")
    assert load_settings().selection.choice.address == os.path.join("here", "satchel.db")  # noqa: PTH118


@pytest.fixture(
    params=["SATCHEL_GRAPH_DB_PATH", "AMPLIHACK_GRAPH_DB_PATH", "AMPLIHACK_KUZU_DB_PATH"]
)
def variable(request: pytest.FixtureRequest) -> str:
    """Each name of the variable that moves the flat graph."""
    return str(request.param)


def test_the_flat_graph_can_be_moved(
    tmp_path: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By any of its names; and it is looked for there."""
    path = tmp_path / "a graph%41.db"
    monkeypatch.setenv(variable, str(path))
    assert chosen().backend is BackendChoice.SQLITE
    path.mkdir()
    (path / "graph.lbug").write_bytes(b"LBUG")
    assert chosen().backend is BackendChoice.GRAPH_DB
    from satchel.bank.connections import local_path

    assert local_path(chosen().address) == path


@pytest.mark.parametrize("path", ["graph.db", "/var/../etc/graph", "/proc/graph", "/sys/x"])
def test_a_place_where_no_graph_can_be_is_refused(
    path: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative, with steps upwards, or the system's: refused by the name of the variable."""
    monkeypatch.setenv(variable, path)
    with pytest.raises(ConfigError) as found:
        chosen(backend="graph-db")
    assert found.value.field == variable


def test_the_layout_is_used_where_it_is_all_there_is(home: Path) -> None:
    """``memory.db`` is the store as long as there is no ``satchel.db``."""
    SqliteStore(home / "memory.db").close()
    assert Path(chosen().address).name == "memory.db"
    (home / "satchel.db").touch()
    assert Path(chosen().address).name == "satchel.db"


def test_a_database_of_amplihacks_own_is_left_to_be_imported(home: Path) -> None:
    """A home that amplihack fills is no reason to write into its files, or to fail."""
    with closing(sqlite3.connect(home / "memory.db")) as database:
        database.execute("CREATE TABLE memory_entries (id TEXT)")
        database.commit()
    before = (home / "memory.db").read_bytes()
    assert Path(chosen().address).name == "satchel.db"
    assert (home / "memory.db").read_bytes() == before


def test_doctor_reports_the_selected_store_and_the_reason(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where another has memory in it, and where there is a link."""

    def told() -> tuple[str, str, str | None]:
        check = next(one for one in diagnose(load_settings()) if one.name == "backend")
        return check.state, check.detail, check.hint

    state, detail, _ = told()
    assert state == "ok"
    assert detail == f"sqlite (default): {home / 'satchel.db'}"
    (home / "satchel.db").touch()
    graph(home)
    state, detail, hint = told()
    assert state == "note"
    assert detail.startswith("graph-db (")
    assert "satchel.db" in str(hint)
    monkeypatch.setenv("SATCHEL_MEMORY_BACKEND", "oracle")
    assert told()[0] == "problem"
