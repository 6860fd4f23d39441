"""An agent has one memory: every command and Python find it by one rule."""

import json
from itertools import product
from pathlib import Path

import pytest
from whole_agents_kit import SAMPLES

from satchel.amplihack import (
    HierarchicalMemory,
    SessionLearning,
    open_runtime_backend,
    open_tree_backend,
)
from satchel.amplihack.agents import check_agents, hierarchical
from satchel.amplihack.hosts import parse_hook_request, start_session, stop_session
from satchel.bank.connections import has_store
from satchel.bank.machine_keys import signing_key
from satchel.bank.open_bank import open_bank
from satchel.cli.main import run
from satchel.config.settings import load_settings
from satchel.errors import PathRefusedError, UnknownBankError
from satchel.model.records import Entry
from satchel.ports.rows import Filter

_PLACES = ("graph", "file", "common", "layout")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which nothing is chosen."""
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


def _texts(address: str) -> set[str]:
    settings = load_settings(store=address)
    if not has_store(settings):
        return set()
    try:
        with open_bank(settings, "zed") as bank, bank.ledger.reading() as view:
            found = [one.model for one in view.scan(Filter())]
    except UnknownBankError:
        return set()
    return {one.text or "" for one in found if isinstance(one, Entry)}


def _fill(home: Path, place: str) -> None:
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


def _expected(there: tuple[str, ...]) -> str:
    if "graph" in there:
        return "graph"
    if "file" in there:
        return "file"
    if "common" in there:
        return "common"
    return "file" if "layout" in there else "common"


_COMBINATIONS = [
    tuple(place for place, is_there in zip(_PLACES, wanted, strict=True) if is_there)
    for wanted in product((False, True), repeat=4)
]


def _write_by_every_way(tmp_path: Path) -> None:
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
    (tmp_path / "new.json").write_text(json.dumps(_file("Commands write here")))
    arguments = ["--agent", "zed", "--input", str(tmp_path / "new.json"), "--merge"]
    assert run(["amplihack", "import", *arguments]) == 0


def _doctor_says(place: str, there: tuple[str, ...]) -> None:
    checks = {check.name: check for check in check_agents(load_settings())}
    if place == "common":
        assert "agent zed" not in checks
    else:
        places = [one for one in ("graph", "file", "common") if one in there]
        assert checks["agent zed"].state == ("note" if len(places) > 1 else "ok")
        assert "hierarchical_memory/zed" in checks["agent zed"].detail


@pytest.mark.parametrize("there", _COMBINATIONS, ids="-".join)
def test_every_way_in_finds_the_same_memory(
    home: Path, tmp_path: Path, there: tuple[str, ...]
) -> None:
    """Whatever of an agent's own graph, its own file and its bank exists, all ways use one."""
    for place in there:
        _fill(home, place)
    place = _expected(there)
    filled = place in there
    address = _address(home, place)
    before = {one: _texts(_address(home, one)) for one in ("graph", "file", "common")}

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
    assert {one: _texts(_address(home, one)) for one in before} == before, "reading wrote"

    _write_by_every_way(tmp_path)
    with open_tree_backend() as tree:  # type: ignore[attr-defined]
        shown = {one.content for _, rows in tree.load_session_rows("s9") for one in rows}
    assert {"Hooks end up here", "The runtime backend writes here, too"} <= shown
    for one, known in before.items():
        if one != place:
            assert _texts(_address(home, one)) == known
    new = _texts(address)
    assert {"Hooks end up here", "Python writes here", "Commands write here"} <= new

    _doctor_says(place, there)


def _file(text: str) -> dict[str, object]:
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


def test_a_backend_that_is_named_limits_where_an_agent_is_looked_for(home: Path) -> None:
    """`--backend sqlite` passes over a graph, as amplihack's page has it."""
    for place in ("graph", "file", "common"):
        _fill(home, place)
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
def test_a_link_in_the_probe_is_refused_by_every_command(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], link: str, command: str
) -> None:
    """It is neither followed nor taken for no store."""
    place = home / "hierarchical_memory" / link
    place.parent.mkdir(parents=True, mode=0o700)
    place.symlink_to(tmp_path / "nowhere")
    (tmp_path / "new.json").write_text(json.dumps(_file("x")))
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
    """The two functions of the transfer layer that were missing."""
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


def test_the_backend_stands_behind_the_verb_too(home: Path, tmp_path: Path) -> None:
    """`--backend` of any memory command, before or behind it."""
    for place in ("graph", "file"):
        _fill(home, place)
    output = tmp_path / "o.json"
    words = ["amplihack", "export", "--agent", "zed", "--backend", "sqlite", "-o", str(output)]
    assert run(words) in (0, 1)
    assert "kept in file" in output.read_text()


@pytest.mark.parametrize("place", ["graph", "file"])
def test_no_way_of_making_a_bank_makes_an_agent_a_second_memory(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    """Attack: an import, a copy, a new name and an agent file, not only `remember`."""
    _fill(home, place)
    assert run(["bank", "create", "other"]) == 0
    (tmp_path / "new.json").write_text(json.dumps(_file("from a file")))
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

    assert _texts(_address(home, "common")) == set()
    assert run(["--store", _address(home, place), "list", "--bank", "zed"]) == 0
    assert f"kept in {place}" in capsys.readouterr().out


def test_an_agent_that_is_new_to_the_layout_gets_a_file_by_an_import(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its file is made private before the store is in it; an emptied one is refused."""
    _fill(home, "layout")
    (tmp_path / "new.json").write_text(json.dumps(_file("the first one")))
    arguments = ["amplihack", "import", "--agent", "zed", "--input", str(tmp_path / "new.json")]
    assert run(arguments) == 0
    assert _texts(_address(home, "file")) == {"the first one"}

    (home / "hierarchical_memory" / "zed.db").write_bytes(b"")
    capsys.readouterr()
    assert run(arguments) == 3
    assert run(["amplihack", "export", "--agent", "zed", "--output", str(tmp_path / "o.json")]) == 3
    assert "this machine saw the bank 'zed'" in capsys.readouterr().err
