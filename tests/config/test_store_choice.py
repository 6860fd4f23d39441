"""Choice of the store: one order of precedence, no guesses, no symbolic links."""

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
    """The home of the test, created."""
    own_home.mkdir()
    return own_home


def choose(**said: str | Path | None) -> StoreChoice:
    """Return the choice for some settings."""
    return load_settings(**said).selection.choice  # type: ignore[arg-type]  # by name


def write_graph(home: Path, agent: str | None = None) -> Path:
    """Create the folder of a graph that is not empty."""
    path = home / "memory_graph.db"
    if agent is not None:
        path = home / "hierarchical_memory" / agent / "graph_db"
    path.mkdir(parents=True)
    (path / "graph.lbug").write_bytes(b"LBUG")
    return path


def test_each_source_overrides_the_weaker_ones(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the weakest to the strongest; the choice has its reason."""
    config = tmp_path / "satchel.toml"
    config.write_text("")
    found = list[tuple[BackendChoice | None, str, str]]()

    def look(**said: str) -> None:
        there = choose(config=config, **said)
        found.append((there.backend, Path(there.address).name, there.why))

    look()
    flat = write_graph(home)
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
def test_an_unknown_backend_is_refused(text: str) -> None:
    """Other case and spaces included; the error lists the backends."""
    with pytest.raises(ConfigError) as found:
        backend_from(text, "SATCHEL_MEMORY_BACKEND")
    assert found.value.field == "SATCHEL_MEMORY_BACKEND"
    assert found.value.hint == "There are: sqlite, graph-db, postgres, kuzu."


def test_an_unknown_backend_is_refused_even_if_it_is_overridden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not ignored in silence."""
    monkeypatch.setenv("AMPLIHACK_MEMORY_BACKEND", "SQLite")
    with pytest.raises(ConfigError) as found:
        choose(store="flag.db")
    assert found.value.field == "AMPLIHACK_MEMORY_BACKEND"


def test_a_server_without_an_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the address is configured."""
    monkeypatch.setenv("SATCHEL_MEMORY_BACKEND", "postgres")
    with pytest.raises(ConfigError, match="no address is given"):
        choose()
    monkeypatch.setenv("SATCHEL_STORE", SERVER)
    assert choose(backend="postgres").address == SERVER


def test_a_backend_that_contradicts_the_address_is_refused(tmp_path: Path) -> None:
    """In the configuration file."""
    config = tmp_path / "satchel.toml"
    config.write_text('[store]\nbackend = "graph-db"\naddress = "mine.db"\n')
    with pytest.raises(ConfigError) as found:
        choose(config=config)
    assert found.value.field == "store.backend"


def test_the_graph_of_an_agent_is_used_for_that_agent_only(home: Path) -> None:
    """It does not change the choice for others."""
    write_graph(home, "ada")
    selection = load_settings().selection
    assert selection.choice.backend is BackendChoice.SQLITE
    assert selection.of(["bob"]).backend is BackendChoice.SQLITE
    assert selection.of(["ada"]).backend is BackendChoice.GRAPH_DB


def test_an_empty_graph_folder_is_ignored(home: Path) -> None:
    """The choice stays SQLite."""
    (home / "memory_graph.db").mkdir()
    assert choose().backend is BackendChoice.SQLITE


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
def test_attack_a_symbolic_link_in_the_probe_is_refused(
    home: Path, tmp_path: Path, link: str, *, dangling: bool
) -> None:
    """Dangling or not; its target is not touched."""
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


def test_attack_an_agent_name_with_a_path_is_refused(home: Path) -> None:
    """Before a path is built from it."""
    write_graph(home, "ada")
    for name in ("../ada", "a/b", "a\\b", "a\nb", "", "x" * 65, ".ada", "ada\n", "\u0430da"):
        with pytest.raises(SatchelError, match="not a valid agent name"):
            load_settings().selection.of([name])


def test_a_missing_home_directory_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the variable to set."""
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
    """Each name of the variable for the path of the flat graph."""
    return str(request.param)


def test_the_path_of_the_flat_graph_is_configurable(
    tmp_path: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By any of its variables."""
    path = tmp_path / "a graph%41.db"
    monkeypatch.setenv(variable, str(path))
    assert choose().backend is BackendChoice.SQLITE
    path.mkdir()
    (path / "graph.lbug").write_bytes(b"LBUG")
    assert choose().backend is BackendChoice.GRAPH_DB
    from satchel.bank.connections import local_path

    assert local_path(choose().address) == path


@pytest.mark.parametrize("path", ["graph.db", "/var/../etc/graph", "/proc/graph", "/sys/x"])
def test_an_invalid_path_of_the_flat_graph_is_refused(
    path: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path, one with .., and one of the system; the error names the variable."""
    monkeypatch.setenv(variable, path)
    with pytest.raises(ConfigError) as found:
        choose(backend="graph-db")
    assert found.value.field == variable


def test_memory_db_is_used_without_satchel_db(home: Path) -> None:
    """For homes that amplihack created."""
    SqliteStore(home / "memory.db").close()
    assert Path(choose().address).name == "memory.db"
    (home / "satchel.db").touch()
    assert Path(choose().address).name == "satchel.db"


def test_a_database_of_amplihack_is_not_used_as_the_store(home: Path) -> None:
    """It is neither written nor an error; it can be imported."""
    with closing(sqlite3.connect(home / "memory.db")) as database:
        database.execute("CREATE TABLE memory_entries (id TEXT)")
        database.commit()
    before = (home / "memory.db").read_bytes()
    assert Path(choose().address).name == "satchel.db"
    assert (home / "memory.db").read_bytes() == before


def test_doctor_reports_the_selected_store_and_the_reason(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And other stores with memory."""

    def backend_check() -> tuple[str, str, str | None]:
        check = next(one for one in diagnose(load_settings()) if one.name == "backend")
        return check.state, check.detail, check.hint

    state, detail, _ = backend_check()
    assert state == "ok"
    assert detail == f"sqlite (default): {home / 'satchel.db'}"
    (home / "satchel.db").touch()
    write_graph(home)
    state, detail, hint = backend_check()
    assert state == "note"
    assert detail.startswith("graph-db (")
    assert "satchel.db" in str(hint)
    monkeypatch.setenv("SATCHEL_MEMORY_BACKEND", "oracle")
    assert backend_check()[0] == "problem"
