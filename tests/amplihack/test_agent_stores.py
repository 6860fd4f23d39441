"""The store of an agent: amplihack's layout of folders, and one store for all interfaces."""

import json
import stat
from itertools import product
from pathlib import Path

import pytest
from bank_kit import owner
from whole_agents_kit import SAMPLES

from satchel.amplihack import (
    HierarchicalMemory,
    SessionLearning,
    open_runtime_backend,
    open_tree_backend,
)
from satchel.amplihack.agents import check_agents, hierarchical, opened_agent, reading_agent
from satchel.amplihack.hierarchy import NewFact, store_facts
from satchel.amplihack.hosts import parse_hook_request, start_session, stop_session
from satchel.bank.connections import has_store
from satchel.bank.machine_keys import signing_key
from satchel.bank.open_bank import open_bank
from satchel.cli.main import run
from satchel.config.settings import Settings, load_settings
from satchel.errors import (
    MissingExtraError,
    PathRefusedError,
    ReadOnlyStoreError,
    SatchelError,
    UnknownBankError,
    UsageError,
)
from satchel.model.records import Entry
from satchel.ports.rows import Filter
from satchel.stores.sqlite import SqliteStore

BACKENDS = ["sqlite", "graph-db"]


def settings_for(backend: str | None = None) -> Settings:
    """Return the settings with a backend."""
    return load_settings(backend=backend)


def store_fact(settings: Settings, agent: str = "ada", storage_path: Path | None = None) -> None:
    """Store a fact of an agent."""
    there = hierarchical(settings, agent, storage_path=storage_path, writes=True)
    with opened_agent(there, agent, owner) as bank:
        store_facts(bank, [NewFact(content="Ada likes tea")], agent=agent)


def count_facts(settings: Settings, agent: str = "ada", storage_path: Path | None = None) -> int:
    """Return the number of facts of an agent."""
    there = hierarchical(settings, agent, storage_path=storage_path)
    with reading_agent(there, agent) as bank, bank.ledger.reading() as view:
        return view.head.counts["semantic"]


def modes_in(folder: Path) -> set[str]:
    """Return the modes of a folder and everything below it."""
    return {
        f"{'folder' if path.is_dir() else 'file'} {stat.S_IMODE(path.stat().st_mode):04o}"
        for path in [folder, *folder.rglob("*")]
    }


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_agent_has_a_store_in_the_storage_path(tmp_path: Path, backend: str) -> None:
    """On each backend."""
    place = tmp_path / "agents"
    for agent in ("ada", "bob"):
        store_fact(settings_for(backend), agent, place)
    expected = ["ada.db", "bob.db"] if backend == "sqlite" else ["ada", "bob"]
    assert sorted(each.name for each in place.iterdir() if each.suffix != ".lock") == expected
    assert count_facts(settings_for(backend), "ada", place) == 1
    with pytest.raises(UnknownBankError):
        count_facts(settings_for(backend), "carl", place)
    assert not (place / "carl").exists()
    assert not (place / "carl.db").exists()


def test_without_the_layout_an_agent_is_a_bank_of_the_default_store(own_home: Path) -> None:
    """No folder is created."""
    store_fact(settings_for())
    assert (own_home / "satchel.db").exists()
    assert not (own_home / "hierarchical_memory").exists()
    assert count_facts(settings_for()) == 1


def test_the_layout_is_used_if_it_exists(own_home: Path) -> None:
    """Agents then have separate files."""
    (own_home / "hierarchical_memory").mkdir(parents=True)
    store_fact(settings_for())
    assert (own_home / "hierarchical_memory" / "ada.db").exists()


def test_an_existing_graph_of_an_agent_is_used_without_the_setting(own_home: Path) -> None:
    """For that agent only."""
    store_fact(settings_for("graph-db"))
    assert (own_home / "hierarchical_memory" / "ada" / "graph_db").is_dir()
    assert count_facts(settings_for()) == 1
    assert "graph_db" in hierarchical(settings_for(), "ada").store
    assert "graph_db" not in hierarchical(settings_for(), "bob").store


@pytest.mark.parametrize("backend", BACKENDS)
def test_files_and_folders_are_made_private_at_each_open(tmp_path: Path, backend: str) -> None:
    """0600 and 0700, also after somebody widened the permissions."""
    place = tmp_path / "agents"
    for number in (1, 2):
        store_fact(settings_for(backend), storage_path=place)
        for path in [place, *place.rglob("*")]:
            path.chmod(0o777 if path.is_dir() else 0o666)
        assert count_facts(settings_for(backend), storage_path=place) == number
        assert modes_in(place) <= {"folder 0700", "file 0600"}
    store_fact(settings_for(backend), storage_path=place)
    assert not any("folder" in mode and mode != "folder 0700" for mode in modes_in(place))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("writes", [True, False])
def test_attack_a_symbolic_link_is_refused_before_it_is_opened(
    tmp_path: Path, backend: str, *, writes: bool
) -> None:
    """The reference opens it first and creates its target."""
    place, victim = tmp_path / "agents", tmp_path / "victim"
    place.mkdir()
    name = "ada.db" if backend == "sqlite" else "ada"
    (place / name).symlink_to(victim)
    with pytest.raises(PathRefusedError):
        hierarchical(settings_for(backend), "ada", storage_path=place, writes=writes)
    assert not victim.exists()


@pytest.mark.parametrize("name", ["../ada", "a/b", "a\\b", "a\nb", "", ".", "x" * 65, "-ada"])
def test_attack_an_invalid_agent_name_builds_no_path(tmp_path: Path, name: str) -> None:
    """Nothing is created."""
    place = tmp_path / "agents"
    with pytest.raises(UsageError, match="not a valid agent name"):
        hierarchical(settings_for(), name, storage_path=place, writes=True)
    assert not place.exists()


def test_a_world_writable_folder_is_refused(tmp_path: Path) -> None:
    """It cannot be made private."""
    place = tmp_path / "everyone"
    place.mkdir()
    place.chmod(0o1777)
    with pytest.raises(PathRefusedError):
        hierarchical(settings_for(), "ada", storage_path=place, writes=True)


@pytest.mark.parametrize("older", ["ada/sqlite_hierarchical.db", "sqlite_hierarchical.db"])
def test_stores_of_older_versions_are_read_and_copied_on_write(tmp_path: Path, older: str) -> None:
    """To ``ada.db``; the old file does not change."""
    place = tmp_path / "agents"
    store_fact(settings_for(), storage_path=place)
    (place / older).parent.mkdir(exist_ok=True)
    for path in place.glob("ada.db*"):
        path.replace(place / (older + path.name.removeprefix("ada.db")))
    assert count_facts(settings_for(), storage_path=place) == 1
    assert not (place / "ada.db").exists()
    before = (place / older).read_bytes()
    store_fact(settings_for(), storage_path=place)
    assert count_facts(settings_for(), storage_path=place) == 2
    assert (place / older).read_bytes() == before
    SqliteStore(place / "ada.db", read_only=True).close()


@pytest.mark.parametrize("new", [None, "empty"])
def test_a_kuzu_graph_is_read_only_and_needs_the_extra(tmp_path: Path, new: str | None) -> None:
    """The error names the extra; an empty new folder makes no difference."""
    place = tmp_path / "agents"
    (place / "ada" / "kuzu_db").mkdir(parents=True)
    if new is not None:
        (place / "ada" / "graph_db").mkdir()
    with pytest.raises(MissingExtraError) as found:
        hierarchical(settings_for("graph-db"), "ada", storage_path=place)
    assert "satchel[graph]" in str(found.value.hint)
    with pytest.raises(ReadOnlyStoreError):
        hierarchical(settings_for("graph-db"), "ada", storage_path=place, writes=True)


def test_a_storage_path_is_refused_for_a_server(tmp_path: Path) -> None:
    """It is not ignored."""
    settings = load_settings(store="postgresql://me@there/mine")
    with pytest.raises(SatchelError, match="no storage path"):
        hierarchical(settings, "ada", storage_path=tmp_path)


def test_an_agent_with_a_name_like_an_id_gets_its_own_bank() -> None:
    """A prefix of another bank's ID is a valid name."""
    settings = settings_for()
    with opened_agent(settings, "ada", owner) as bank:
        digits = bank.id.removeprefix("blake3:")[:12]
    with opened_agent(settings, digits, owner) as other:
        assert other.name == digits


# -- one store for all interfaces --------------------------------------------------------


_LOCATIONS = ("graph", "file", "common", "layout")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without a choice of a store."""
    for name in ("SATCHEL_STORE", "SATCHEL_MEMORY_BACKEND", "AMPLIHACK_MEMORY_BACKEND"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SATCHEL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def _address(home: Path, place: str) -> str:
    return {
        "graph": f"ladybug:///{home}/hierarchical_memory/zed/graph_db",
        "file": f"{home}/hierarchical_memory/zed.db",
        "common": f"{home}/satchel.db",
    }[place]


def _texts_at(address: str) -> set[str]:
    settings = load_settings(store=address)
    if not has_store(settings):
        return set()
    try:
        with open_bank(settings, "zed") as bank, bank.ledger.reading() as view:
            found = [one.model for one in view.scan(Filter())]
    except UnknownBankError:
        return set()
    return {one.text or "" for one in found if isinstance(one, Entry)}


def _store_at(home: Path, place: str) -> None:
    if place == "layout":
        (home / "hierarchical_memory").mkdir(parents=True, mode=0o700, exist_ok=True)
        return
    if place == "common":
        assert run(["--store", _address(home, place), "init", "zed"]) == 0
        said = ["remember", f"kept in {place}", "--bank", "zed", "--run", f"s-{place}"]
        assert run(["--store", _address(home, place), *said]) == 0
        return
    backend = "graph-db" if place == "graph" else "sqlite"
    folder = home / "hierarchical_memory"
    with HierarchicalMemory("zed", storage_path=folder, backend=backend) as memory:
        memory.store_knowledge(f"kept in {place}", concept="place")


def _expected_location(there: tuple[str, ...]) -> str:
    if "graph" in there:
        return "graph"
    if "file" in there:
        return "file"
    if "common" in there:
        return "common"
    return "file" if "layout" in there else "common"


_COMBINATIONS = [
    tuple(place for place, is_there in zip(_LOCATIONS, wanted, strict=True) if is_there)
    for wanted in product((False, True), repeat=4)
]


def _write_by_all_interfaces(tmp_path: Path) -> None:
    asked = parse_hook_request(
        json.dumps({"session_id": "s9", "output": "Hooks end up here"}).encode()
    )
    stop_session(load_settings(), asked, "zed", lambda: signing_key(load_settings())[0])
    with open_runtime_backend(agent="zed") as backend:  # type: ignore[attr-defined]
        learned = SessionLearning(
            session_id="s9", agent_id="zed", content="The runtime backend writes here, too"
        )
        assert backend.store_session_learning(learned) is not None
    with HierarchicalMemory("zed") as memory:
        memory.store_knowledge("Python writes here", concept="python")
    (tmp_path / "new.json").write_text(json.dumps(_amplihack_document("Commands write here")))
    arguments = ["--agent", "zed", "--input", str(tmp_path / "new.json"), "--merge"]
    assert run(["amplihack", "import", *arguments]) == 0


def _require_doctor_reports(place: str, there: tuple[str, ...]) -> None:
    checks = {check.name: check for check in check_agents(load_settings())}
    if place == "common":
        assert "agent zed" not in checks
    else:
        places = [one for one in ("graph", "file", "common") if one in there]
        assert checks["agent zed"].state == ("note" if len(places) > 1 else "ok")
        assert "hierarchical_memory/zed" in checks["agent zed"].detail


@pytest.mark.in_check(5)
@pytest.mark.parametrize("there", _COMBINATIONS, ids="-".join)
def test_all_interfaces_use_the_same_store_of_an_agent(
    home: Path, tmp_path: Path, there: tuple[str, ...]
) -> None:
    """For any combination of a graph, a file and a bank."""
    for place in there:
        _store_at(home, place)
    place = _expected_location(there)
    filled = place in there
    address = _address(home, place)
    before = {one: _texts_at(_address(home, one)) for one in ("graph", "file", "common")}

    assert hierarchical(load_settings(), "zed").store == address
    output = str(tmp_path / "zed.json")
    status = run(["amplihack", "export", "--agent", "zed", "--output", output])
    assert (status in (0, 1)) == filled
    if filled:
        assert f"kept in {place}" in (tmp_path / "zed.json").read_text()
    asked = parse_hook_request(
        json.dumps({"session_id": "s9", "output": "Hooks end up here"}).encode()
    )
    start = start_session(load_settings(), asked, "zed")
    assert (f"kept in {place}" in start.context) == filled
    assert {one: _texts_at(_address(home, one)) for one in before} == before, "reading wrote"

    _write_by_all_interfaces(tmp_path)
    with open_tree_backend() as tree:  # type: ignore[attr-defined]
        shown = {one.content for _, rows in tree.load_session_rows("s9") for one in rows}
    assert {"Hooks end up here", "The runtime backend writes here, too"} <= shown
    for one, known in before.items():
        if one != place:
            assert _texts_at(_address(home, one)) == known
    new = _texts_at(address)
    assert {"Hooks end up here", "Python writes here", "Commands write here"} <= new

    _require_doctor_reports(place, there)


def _amplihack_document(text: str) -> dict[str, object]:
    node = {
        "memory_id": "m-new",
        "concept": "c",
        "content": text,
        "confidence": 0.5,
        "source_id": "",
        "tags": [],
        "metadata": {},
        "created_at": "2026-01-01T00:00:00",
        "entity_name": "",
    }
    edges = ("similar_to", "derives_from", "supersedes", "transitioned_to")
    return {
        "agent_name": "zed",
        "exported_at": "2026-01-01T00:00:00",
        "format_version": "1.1",
        "semantic_nodes": [node],
        "episodic_nodes": [],
        **{f"{name}_edges": [] for name in edges},
    }


def test_a_given_backend_limits_the_search_for_an_agent(home: Path) -> None:
    """``--backend sqlite`` ignores a graph, as on amplihack's page."""
    for place in ("graph", "file", "common"):
        _store_at(home, place)
    named = {
        kind: hierarchical(load_settings(backend=kind), "zed").store
        for kind in ("sqlite", "graph-db")
    }
    assert named == {"sqlite": _address(home, "file"), "graph-db": _address(home, "graph")}
    stated = load_settings(store=_address(home, "common"))
    assert hierarchical(stated, "zed").store == _address(home, "common")


@pytest.mark.parametrize("link", ["zed", "zed/graph_db", "zed.db", ""])
@pytest.mark.parametrize(
    "command", ["tree", "clean", "export", "import", "stop", "start", "doctor"]
)
def test_attack_a_symbolic_link_in_the_probe_is_refused_by_every_command(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], link: str, command: str
) -> None:
    """It is neither followed nor ignored."""
    place = home / "hierarchical_memory" / link
    place.parent.mkdir(parents=True, mode=0o700)
    place.symlink_to(tmp_path / "nowhere")
    (tmp_path / "new.json").write_text(json.dumps(_amplihack_document("x")))
    settings = load_settings()
    asked = parse_hook_request(
        json.dumps({"session_id": "s9", "output": "Never stored anywhere"}).encode()
    )
    words = {
        "tree": ["amplihack", "tree"],
        "clean": ["amplihack", "clean"],
        "export": ["amplihack", "export", "--agent", "zed", "--output", str(tmp_path / "o.json")],
        "import": ["amplihack", "import", "--agent", "zed", "--input", str(tmp_path / "new.json")],
    }
    if command == "doctor":
        (check,) = [one for one in check_agents(settings) if one.name == "agents"]
        assert check.state == "problem"
        assert "link" in check.detail
    elif command in words:
        assert run(words[command]) not in (0, 1)
        assert "link" in capsys.readouterr().err
    elif command == "start":
        with pytest.raises(PathRefusedError):
            start_session(settings, asked, "zed")
    else:
        with pytest.raises(PathRefusedError):
            stop_session(settings, asked, "zed", lambda: signing_key(settings)[0])
    assert not (home / "satchel.db").exists()
    assert not (tmp_path / "nowhere").exists()


def test_the_documented_names_exist(home: Path) -> None:
    """Of the transfer layer."""
    from satchel import amplihack

    backend = amplihack.open_hierarchical_transfer_backend_for("sqlite", home=home)
    assert isinstance(backend, amplihack.HierarchicalTransferBackend)
    folder = home / "hierarchical_memory" / "zed"
    assert amplihack.resolve_hierarchical_db_path("zed", home=home) == folder / "graph_db"
    (folder / "kuzu_db").mkdir(parents=True, mode=0o700)
    assert amplihack.resolve_hierarchical_db_path("zed", home=home) == folder / "kuzu_db"
    (folder / "graph_db").mkdir(mode=0o700)
    (folder / "graph_db" / "graph.lbug").touch()
    assert amplihack.resolve_hierarchical_db_path("zed", home=home) == folder / "graph_db"


def test_the_backend_flag_is_accepted_after_the_command(home: Path, tmp_path: Path) -> None:
    """And before it."""
    for place in ("graph", "file"):
        _store_at(home, place)
    output = tmp_path / "o.json"
    words = ["amplihack", "export", "--agent", "zed", "--backend", "sqlite", "-o", str(output)]
    assert run(words) in (0, 1)
    assert "kept in file" in output.read_text()


@pytest.mark.parametrize("place", ["graph", "file"])
def test_attack_no_command_creates_a_second_memory_of_an_agent(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    """An import, a copy, a rename and an agent file included."""
    _store_at(home, place)
    assert run(["bank", "create", "other"]) == 0
    (tmp_path / "new.json").write_text(json.dumps(_amplihack_document("from a file")))
    agent = str(SAMPLES / "good-small.agent.json")
    capsys.readouterr()
    for arguments in (
        ["remember", "second", "--bank", "zed"],
        ["init", "zed"],
        ["bank", "create", "zed"],
        ["bank", "copy", "other", "zed"],
        ["bank", "rename", "other", "zed"],
        ["import", str(tmp_path / "new.json"), "--bank", "zed"],
        ["import", str(tmp_path / "new.json"), "--from", "amplihack"],
        ["agent", "import", agent, "--name", "zed", "--no-embed"],
        ["list", "--bank", "zed"],
        ["recall", "kept", "--bank", "zed"],
        ["stats", "--bank", "zed"],
    ):
        assert run(arguments) == 2, arguments
        said = capsys.readouterr().err
        assert "has its memory in its own store" in said, arguments
        assert _address(home, place) in said.replace("\n", ""), arguments

    assert _texts_at(_address(home, "common")) == set()
    assert run(["--store", _address(home, place), "list", "--bank", "zed"]) == 0
    assert f"kept in {place}" in capsys.readouterr().out


def test_import_of_a_new_agent_creates_a_file_in_the_layout(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is private before it has data; an emptied file is refused."""
    _store_at(home, "layout")
    (tmp_path / "new.json").write_text(json.dumps(_amplihack_document("the first one")))
    arguments = ["amplihack", "import", "--agent", "zed", "--input", str(tmp_path / "new.json")]
    assert run(arguments) == 0
    assert _texts_at(_address(home, "file")) == {"the first one"}

    (home / "hierarchical_memory" / "zed.db").write_bytes(b"")
    capsys.readouterr()
    assert run(arguments) == 3
    assert run(["amplihack", "export", "--agent", "zed", "--output", str(tmp_path / "o.json")]) == 3
    assert "this machine saw the bank 'zed'" in capsys.readouterr().err
