"""LangGraph's stores and checkpoints: cases outside of the shared suite."""

import json
import pickle
import sqlite3
import subprocess
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from import_kit import bring, texts

import satchel
from benchmarks import peers
from satchel.api.store import Satchel
from satchel.conformance.subject import sealed
from satchel.crypto.sealed_records import Sealed
from satchel.errors import LimitError, MalformedError
from satchel.formats._langgraph import as_they_were, joined, labels_of
from satchel.formats.langgraph_checkpoints import unpacked
from satchel.model.records import Entry, Episodic, Semantic
from satchel.model.values import Origin, Scope
from satchel.ports.drafts import read_records
from satchel.ports.format import Location, ReadContext, Target, WriteContext, formats
from satchel.ports.record_set import Report

_SAMPLES = Path(__file__).parent.parent / "data" / "formats"
_STORE = _SAMPLES / "langgraph" / "good-store.db"
_THREADS = _SAMPLES / "langgraph_checkpoints" / "good-threads.db"
_PEER = Path(__file__).parents[2] / "benchmarks" / "peers" / "langgraph_work.py"


def _read(name: str, path: Path, **how: Any) -> tuple[list[dict[str, Any]], Report]:
    reading = ReadContext(**how)
    return [
        one.value for one in read_records(formats[name], Location(path), reading)
    ], reading.report


def _losses(report: Report) -> dict[str, int]:
    return {loss.name: loss.count for loss in report.losses.values()}


def _written(path: Path, *entries: Entry | Sealed) -> tuple[list[Any], Report]:
    writing = WriteContext()
    with sealed(entries) as records:
        formats["langgraph"].write(records, Target(path), writing)
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT prefix, key, value, created_at FROM store").fetchall()
    return rows, writing.report


# -- items ---------------------------------------------------------------------------------


@pytest.mark.shared
def test_the_store_of_the_library_is_read_without_loss(shared_data: Path, tmp_path: Path) -> None:
    """Four items: one of LangMem with a time to live, a profile, a text."""
    path = shared_data / "langgraph" / "store.db"
    found, report = _read("langgraph", path)

    assert formats.recognize(Location(path)) == "langgraph"
    assert report.total == 0
    assert [one.get("text") for one in found] == [
        "Ada prefers metric units \u2713",
        "No Friday deploys",
        None,
        "not indexed",
    ]
    assert [one["scope"]["namespace"] for one in found] == [
        ["memories", "ada"],
        ["memories", "ada", "work"],
        ["memories", "bo"],
        ["memories", "ada"],
    ]
    assert found[1]["expires_at"] == "2026-11-22T21:02:43.770935Z"
    assert found[2]["data"]["content"] == {"name": "Bo", "age": 3, "tags": ["x"], "n": None}
    satchel.convert(path, tmp_path / "x.langgraph.db")
    for table in ("store", "store_migrations"):
        assert _table(tmp_path / "x.langgraph.db", table) == _table(path, table)


def _table(path: Path, name: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        rows = database.execute(f"SELECT * FROM {name}").fetchall()  # noqa: S608 - names of this test
    return [[json.loads(v) if isinstance(v, bytes) else v for v in row] for row in rows]


@pytest.mark.shared
@pytest.mark.parametrize(("name", "count"), [("search_all.json", 4), ("get_item.json", 1)])
def test_items_as_the_library_prints_them_round_trip(
    name: str, count: int, shared_data: Path, tmp_path: Path
) -> None:
    """A list of items with scores, and one item."""
    path = shared_data / "langgraph" / name
    found, report = _read("langgraph_items", path)

    assert formats.recognize(Location(path)) == "langgraph_items"
    assert (len(found), report.total) == (count, 0)
    satchel.convert(path, tmp_path / "x.langgraph.json")
    assert json.loads((tmp_path / "x.langgraph.json").read_bytes()) == json.loads(path.read_bytes())


def test_memories_of_other_products_get_a_namespace_and_langmems_shape(tmp_path: Path) -> None:
    """Text, kind and members are preserved; other members are counted."""
    rows, report = _written(
        tmp_path / "x.db",
        Semantic(text="Drinks tea.", scope=Scope(user="ro.sa"), metadata={"n": 1, "kind": "x"}),
        Episodic(text="Asked for tea.", kind="event", tags=("tea",)),
        Semantic(subject="a", predicate="b", object="c"),
    )
    assert [row[:1] for row in rows] == [("memories",), ("memories.ro%2Esa",)]
    values = [json.loads(row[2]) for row in rows]
    assert values == [
        {"kind": "event", "content": {"content": "Asked for tea."}},
        {"n": 1, "kind": "Memory", "content": {"content": "Drinks tea."}},
    ]
    assert {row[3] for row in rows} == {"1970-01-01 00:00:00"}
    assert _losses(report) == {"type": 1, "tags": 1, "scope": 1, "metadata": 1, "semantic": 1}
    found, _ = _read("langgraph", tmp_path / "x.db")
    assert all("created_at" not in one for one in found)


def test_two_memories_with_one_key_become_two_items(tmp_path: Path) -> None:
    """For example of two products with the same numbering."""
    one = Semantic(text="a", origin=Origin(provider="mem0", id="1"))
    other = Semantic(text="b", origin=Origin(provider="letta", id="1"))
    rows, report = _written(tmp_path / "x.db", one, other)
    assert len({row[1] for row in rows}) == 2
    assert _losses(report)["origin/id"] == 1


_NAMES = st.sampled_from(["a", "b", "a.b", "", "user=a", "agent=a", "%", "a%2Eb", "langgraph", "="])
_SCOPES = st.builds(
    Scope,
    user=st.none() | _NAMES,
    agent=st.none() | _NAMES,
    run=st.none() | _NAMES,
)


@given(one=_SCOPES, other=_SCOPES)
def test_two_owners_never_share_a_namespace(one: Scope, other: Scope) -> None:
    """With any names, all of which the library accepts."""
    first, second = labels_of(one), labels_of(other)
    assert (joined(first) == joined(second)) is (one == other)
    assert as_they_were(first)


# -- checkpoints ---------------------------------------------------------------------------


@pytest.mark.shared
def test_checkpoints_of_the_library_are_sessions_points_and_forks(shared_data: Path) -> None:
    """Two threads, one with an abandoned branch; two items of its store."""
    path = shared_data / "langgraph" / "checkpoints.sqlite"
    found, report = _read("langgraph_checkpoints", path)
    events = Counter(one.get("event") for one in found)

    assert formats.recognize(Location(path)) == "langgraph_checkpoints"
    # Changes of the state other than messages are sessions with a parent.
    assert events == {None: 2, "session": 10, "message": 20, "checkpoint": 22, "fork": 1}
    assert sum(one.get("event") == "session" and "parent" not in one for one in found) == 2
    assert _losses(report) == {
        "channel_versions": 22,
        "versions_seen": 22,
        "updated_channels": 21,
        "writes": 34,
    }
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        counts = [
            database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - names of this test
            for table in ("checkpoints", "writes")
        ]
    assert counts == [22, 34]


def test_a_fork_has_the_earlier_messages_and_the_state_of_its_point() -> None:
    """It is imported, shown and continued like any session."""
    assert bring(_THREADS, accept_loss=_ENGINES).unaccepted == 0
    assert texts() == ["Drinks tea."]
    with Satchel.open() as here:
        sessions = here.bank("b").sessions
        by_name = {one.name: one for one in sessions.list()}
        (fork,) = (one for one in by_name.values() if one.origin is not None)
        said = [one.content for one in sessions.messages(fork.id)]
        assert said == [
            "I want a trip in May",
            "Noted: I want a trip in May",
            "In June, rather",
            "Noted: In June, rather",
        ]
        assert next(iter(sessions.messages("tea"))).content == "How long does green tea need?"
        assert len(list(sessions.messages("trip"))) == 8


_ENGINES = ("channel_versions", "versions_seen", "updated_channels", "writes")


def _changed(path: Path, *statements: tuple[str, tuple[Any, ...]]) -> Path:
    path.write_bytes(_THREADS.read_bytes())
    with closing(sqlite3.connect(path)) as database, database:
        for statement, values in statements:
            database.execute(statement, values)
    return path


class _Trap:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("was-run"),)


def test_attack_a_pickle_in_a_checkpoint_is_refused_and_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library can be configured to load it; other checkpoints are read."""
    monkeypatch.chdir(tmp_path)
    change = "UPDATE checkpoints SET type = 'pickle', checkpoint = ? WHERE rowid = 5"
    path = _changed(tmp_path / "x.db", (change, (pickle.dumps(_Trap()),)))
    with pytest.raises(MalformedError, match="pickle"):
        _read("langgraph_checkpoints", path)
    found, report = _read("langgraph_checkpoints", path, skip_bad=True)
    assert len(report.refused) == 1
    assert sum(one.get("event") == "checkpoint" for one in found) == 14
    assert not Path("was-run").exists()


def _packed(code: int, value: Any) -> bytes:
    return msgspec.msgpack.encode(msgspec.msgpack.Ext(code, msgspec.msgpack.encode(value)))


@pytest.mark.parametrize("code", range(6))
def test_attack_a_class_in_a_checkpoint_is_never_called(code: int, tmp_path: Path) -> None:
    """``os.system`` with arguments is only a name and arguments."""
    made = _packed(code, ["os", "system", f"touch {tmp_path}/was-run", "__call__"])
    found = unpacked("msgpack", made)
    assert found.cls == "os.system"
    assert not (tmp_path / "was-run").exists()


def test_attack_nested_extensions_are_a_typed_error() -> None:
    """At any depth, in the packing or in what is packed."""
    inner = b"\xc0"
    for _ in range(40):
        inner = msgspec.msgpack.encode(msgspec.msgpack.Ext(7, inner))
    with pytest.raises(LimitError):
        unpacked("msgpack", inner)
    with pytest.raises(LimitError):
        unpacked("json", "[" * 60 + "]" * 60)
    with pytest.raises(LimitError):
        unpacked("json", "[" * 100_000 + "]" * 100_000)


def test_rolled_back_messages_become_a_fork(tmp_path: Path) -> None:
    """A checkpoint with other earlier messages continues from the common part."""

    def state(number: int, *said: str) -> tuple[Any, ...]:
        messages = [{"role": "user", "content": text} for text in said]
        values = {
            "channel_values": {"messages": messages, "mood": "calm"},
            "ts": f"2026-01-0{number}",
        }
        parent = str(number - 1) if number > 1 else None
        return ("t", "", str(number), parent, "json", json.dumps(values), "{}")

    path = _changed(tmp_path / "x.db", ("DELETE FROM checkpoints", ()), ("DELETE FROM store", ()))
    with closing(sqlite3.connect(path)) as database, database:
        rows = [state(1, "a"), state(2, "a", "b"), state(3, "a", "c"), state(4, "a", "c", "d")]
        database.executemany("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    found, _ = _read("langgraph_checkpoints", path)
    assert [one["event"] for one in found] == [
        *("session", "message", "session", "checkpoint", "message", "checkpoint"),
        *("fork", "message", "session", "checkpoint", "message", "checkpoint"),
    ]
    assert [one["text"] for one in found if one["event"] == "message"] == ["a", "b", "c", "d"]


# -- the library itself --------------------------------------------------------------------


def _library(*arguments: str | Path) -> None:
    python = peers.environment("langgraph") / "python"
    subprocess.run([python, _PEER, *arguments], check=True, timeout=200)


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_the_real_library_reads_our_output_and_continues_with_it(tmp_path: Path) -> None:
    """500 items through a bank: every item as the library shows it, with its times."""
    _library("make", tmp_path / "a", "500")
    _library("read", tmp_path / "a" / "store.db", tmp_path / "a.json")
    bring(tmp_path / "a" / "store.db")
    with Satchel.open() as here:
        done = here.bank("b").export(tmp_path / "b.langgraph.db")
    assert done.lost == 0
    _library("read", tmp_path / "b.langgraph.db", tmp_path / "b.json")
    said = json.loads((tmp_path / "a.json").read_bytes())
    assert len(said) > 450
    assert json.loads((tmp_path / "b.json").read_bytes()) == said

    _library("add", tmp_path / "b.langgraph.db")
    assert len(_read("langgraph", tmp_path / "b.langgraph.db")[0]) == len(said) + 1


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_every_state_of_the_real_library_is_a_point_with_its_messages(tmp_path: Path) -> None:
    """Each checkpoint of each thread has the messages of its parent, its own, and its summary."""
    _library("make", tmp_path / "a", "3")
    _library("threads", tmp_path / "a" / "checkpoints.sqlite", tmp_path / "said.json")
    said = json.loads((tmp_path / "said.json").read_bytes())
    found, _ = _read("langgraph_checkpoints", tmp_path / "a" / "checkpoints.sqlite")
    by_id = {one["id"]: one for one in found}

    def before(one: dict[str, Any]) -> list[str]:
        messages: list[str] = []
        while (parent := by_id.get(one.get("parent", ""))) is not None:
            messages += [parent.get("text", "")] if parent["event"] == "message" else []
            one = parent
        return messages[::-1]

    points = {one["name"]: one for one in found if one.get("event") == "checkpoint"}
    assert points.keys() == said.keys()
    assert {name: before(one) for name, one in points.items()} == {
        name: state["messages"] for name, state in said.items()
    }


def _javascript_message(cls: str, content: Any, **more: Any) -> dict[str, Any]:
    kwargs = {"content": content, "additional_kwargs": {}, "response_metadata": {}, **more}
    return {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain_core", "messages", cls],
        "kwargs": kwargs,
    }


@pytest.mark.parametrize("kind", ["json", None])
def test_messages_of_the_javascript_library_are_read(kind: str | None, tmp_path: Path) -> None:
    """Their class name is their role; a model that called a tool has no text."""
    messages = [
        _javascript_message("HumanMessage", "Which tea?"),
        _javascript_message("AIMessage", None, tool_calls=[{"name": "teas"}]),
        _javascript_message("ToolMessage", "sencha", name="teas"),
        _javascript_message("AIMessageChunk", "Sencha."),
        {"role": "assistant", "content": None, "tool_calls": []},
    ]
    state = {"v": 1, "ts": "2026-03-01T09:00:00.000Z", "channel_values": {"messages": messages}}
    path = tmp_path / "c.db"
    with closing(sqlite3.connect(path)) as made:
        columns = (
            "thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, parent_checkpoint_id TEXT"
        )
        made.execute(
            f"CREATE TABLE checkpoints ({columns}, type TEXT, checkpoint BLOB, metadata BLOB)"
        )
        made.execute("CREATE TABLE writes (thread_id TEXT)")
        row = ("t", "", "1", None, kind, json.dumps(state).encode(), b"{}")
        made.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        made.commit()
    assert formats.recognize(Location(path)) == "langgraph_checkpoints"
    found = [
        one.value
        for one in read_records(formats["langgraph_checkpoints"], Location(path), ReadContext())
    ]

    said = [(one["role"], one["text"]) for one in found if one["event"] == "message"]
    assert said == [
        ("user", "Which tea?"),
        ("assistant", ""),
        ("tool", "sencha"),
        ("assistant", "Sencha."),
        ("assistant", ""),
    ]


def test_items_of_the_javascript_library_have_their_times(tmp_path: Path) -> None:
    """In camel case; they are written back unchanged."""
    times = {"createdAt": "2026-03-01T09:00:00.000Z", "updatedAt": "2026-03-02T09:00:00.000Z"}
    row = {"namespace": ["memories"], "key": "k", "value": {"text": "Likes tea."}, **times}
    path, out = tmp_path / "items.json", tmp_path / "out.json"
    path.write_text(json.dumps([row]))
    (found,) = read_records(formats["langgraph_items"], Location(path), ReadContext())

    assert found.value["created_at"] == "2026-03-01T09:00:00.000000Z"
    assert found.value["updated_at"] == "2026-03-02T09:00:00.000000Z"
    with sealed([found]) as records:
        formats["langgraph_items"].write(records, Target(out), WriteContext())
    assert json.loads(out.read_text()) == [row]
