"""Members of an agent file with a wrong type are refused by path, or survive a round trip."""

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from whole_agents_kit import SAMPLES, arrive, leave, syn, written

from satchel.bank.banks import list_banks
from satchel.cli.main import run
from satchel.config.settings import load_settings
from satchel.errors import InputError, SatchelError

MARK = "mark7f3a"
VALUES: tuple[Any, ...] = (
    *(MARK, 70_310_077, 7031.25, True, None),
    *([], [MARK], {}, {MARK: MARK}, [{MARK: MARK}]),
)
"""Replacements for a member, at least one of each JSON type."""

ROOT = Path(__file__).parent.parent.parent
SCHEMA = json.loads((ROOT / "schemas" / "agent_file.json").read_bytes())
OURS = ("good-small.agent.json", "good-whole.agent.json")
THEIRS = ("other-rust.agent.json", "other-typescript.agent.json")


def paths_of(value: Any, value_at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of each member, at any depth."""
    if value_at:
        yield value_at
    names: Any = value if isinstance(value, dict) else ()
    names = range(len(value)) if isinstance(value, list) else names
    for name, part in ((name, value[name]) for name in names):
        yield from paths_of(part, (*value_at, name))


def with_value(value: Any, way: tuple[str | int, ...], other: Any) -> Any:
    """Return a copy with another value at a path."""
    made = copy.deepcopy(value)
    inner = made
    for name in way[:-1]:
        inner = inner[name]
    inner[way[-1]] = other
    return made


def value_at(value: Any, way: tuple[str | int, ...]) -> Any:
    """Return the value at a path, or None."""
    for name in way:
        try:
            value = value[name]
        except (LookupError, TypeError):
            return None
    return value


def without_empty(value: Any) -> Any:
    """Return a value without empty members."""
    if isinstance(value, dict):
        return {
            k: kept
            for k, part in value.items()
            if (kept := without_empty(part)) or kept in (0, False)
        }
    return [without_empty(part) for part in value] if isinstance(value, list) else value


def replacements(sample: str, *, every: bool) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield paths with each replacement value, or with one of them in turn."""
    value = json.loads((SAMPLES / sample).read_bytes())
    for number, way in enumerate(paths_of(value)):
        some = VALUES if every else [VALUES[number * 3 % len(VALUES)]]
        was = value_at(value, way)
        yield from ((way, other) for other in some if type(other) is not type(was))


def is_refused_or_preserved(
    home: Path, file: Path, way: tuple[str | int, ...], other: Any, *, ours: bool
) -> bool:
    """Return whether a changed file is refused, or is exported again with the change."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    try:
        arrive(file, name="fz")
    except SatchelError:
        return True
    out = home / "out.agent.json"
    leave("fz", out, full=True)
    text = out.read_text()
    if ours:
        found, wanted = without_empty(value_at(written(out), way)), without_empty(other)
        return found == wanted or not (found or wanted) or not wanted
    marks = (MARK, str(VALUES[1]), str(VALUES[2]))
    # The metadata of an export is not the agent's; the next export has its own.
    about = way[0] == "exportMetadata"
    return about or any(mark in text for mark in marks) or other in (True, None, [], {})


@pytest.mark.in_check(2)
@pytest.mark.parametrize(
    "every", [False, pytest.param(True, marks=[pytest.mark.prove, pytest.mark.timeout(1200)])]
)
@pytest.mark.parametrize("sample", [*OURS, *THEIRS])
def test_each_mistyped_member_is_refused_or_preserved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: str, *, every: bool
) -> None:
    """No data of an agent file is lost in silence."""
    home = tmp_path / "home"
    monkeypatch.setenv("SATCHEL_HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    value = json.loads((SAMPLES / sample).read_bytes())
    file = tmp_path / "m.agent.json"
    lost = []
    for way, other in replacements(sample, every=every):
        file.write_text(json.dumps(with_value(value, way, other)))
        if not is_refused_or_preserved(home, file, way, other, ours=sample in OURS):
            lost.append((way, other))

    assert lost == []


@pytest.mark.parametrize(
    ("way", "other"),
    [
        ("memory", "x"),
        ("memory/vectors", "x"),
        ("memory/vectors", {"v1": {"id": "v1", "text": "t"}}),
        ("memory/graph", [{"id": "n1"}]),
        ("memory/graph/nodes", {"n1": {"labels": ["P"]}}),
        ("distillation/receipts", {"d1": {"summary": "s"}}),
        ("workspace/files", [{"path": "SOUL.md", "content": "x"}]),
        ("workspace/binaryFiles", {"a": 1}),
        ("sessions/primary", [{"id": "s"}]),
        ("sessions/primary/messages", {"0": {"role": "user", "content": "lost?"}}),
        ("sessions/primary/messages", "lost"),
        ("sessions/primary/notes", ["a plain note"]),
        ("sessions/primary/notes", {"a": "b"}),
        ("sessions/primary/threadSummary", ["x"]),
        ("sessions/background", {"k": 1}),
        ("distillation", ["x"]),
        ("nous", "x"),
        ("nous/name", 7),
        ("exportMetadata", "x"),
    ],
)
def test_a_mistyped_section_is_refused_by_path(tmp_path: Path, way: str, other: Any) -> None:
    """Nothing is imported."""
    value = json.loads((SAMPLES / "good-whole.agent.json").read_bytes())
    value["exportMetadata"] = {"lossless": True}
    file = tmp_path / "m.agent.json"
    file.write_text(json.dumps(with_value(value, tuple(way.split("/")), other)))
    if way == "memory":  # a member that other software also writes
        value = {**json.loads(file.read_bytes()), "memory": 7}
        file.write_text(json.dumps(value))
    with pytest.raises(InputError) as refused:
        arrive(file, name="fz")

    assert str(refused.value.field).startswith(way)
    assert list(jsonschema.Draft202012Validator(SCHEMA).iter_errors(json.loads(file.read_bytes())))


def test_exported_agent_files_are_valid_by_the_schema(tmp_path: Path) -> None:
    """The repository has one schema for reading and writing."""
    syn(tmp_path)
    leave("syn", tmp_path / "a.agent.json")
    for file in (tmp_path / "a.agent.json", *(SAMPLES / name for name in OURS)):
        jsonschema.validate(written(file), SCHEMA, jsonschema.Draft202012Validator)


def test_attack_two_memories_or_nodes_with_one_id_are_both_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither the second memory nor the second node is lost."""
    value = json.loads((SAMPLES / "good-whole.agent.json").read_bytes())
    value["memory"]["vectors"].append({"id": "v1", "text": "Another memory.", "metadata": {}})
    node = {"id": "n1", "labels": ["Dog"], "properties": {"name": "Rex"}}
    value["memory"]["graph"]["nodes"].append(node)
    file, out = tmp_path / "m.agent.json", tmp_path / "out.agent.json"
    file.write_text(json.dumps(value))
    assert run(["agent", "import", str(file), "--name", "ag", "--no-embed"]) == 0
    assert "2 with the id of another one" in capsys.readouterr().out

    leave("ag", out, full=True)
    memory = written(out)["memory"]
    assert "Another memory." in {one["text"] for one in memory["vectors"]}
    assert {one["properties"].get("name") for one in memory["graph"]["nodes"]} >= {"Rosa", "Rex"}
    assert len({one["id"] for one in memory["vectors"]}) == len(value["memory"]["vectors"])


def test_conversations_without_messages_are_in_a_full_export(tmp_path: Path) -> None:
    """A default export reports that it omits the old ones."""
    arrive(SAMPLES / "good-whole.agent.json", name="ag")
    out = tmp_path / "out.agent.json"
    leave("ag", out, full=True)
    assert [one["key"] for one in written(out)["sessions"]["background"]] == ["cron:tea"]
    done = leave("ag", tmp_path / "some.agent.json")
    assert written(tmp_path / "some.agent.json")["sessions"]["background"] == []
    assert "not active in the last 7 days" in json.dumps(done.report)


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        (b'"memory":', b'"memory": {"vectors": []}, "memory":', 4),
        (b'"SOUL.md":', b'"SOUL.m\\u0064": "evil", "SOUL.md":', 4),
        (b'"role": "user"', b'"role": "user", "role": "system"', 4),
        (b"Be kind.", b"Be \xc0\xaf kind.", 4),
        (b"Be kind.", b"Be \\ud800 kind.", 4),
        (b'"age": 41', b'"age": ' + b"[" * 3000 + b"]" * 3000, 4),
        (b'"text": "Guests get green tea."', b'"text": 7', 4),
        (b'"id": "v1"', b'"id": ""', 4),
        (b'"id": "v1"', b'"id": ["v1"]', 4),
        (b'"labels": ["', b'"labels": "Person", "others": ["', 4),
        (b'"version": 1', b'"version": 1.5', 4),
        (b'"version": 1', b'"version": true', 2),
        (b'"SOUL.md"', b'"../SOUL.md"', 4),
        (b'"SOUL.md"', b'"/tmp/SOUL.md"', 4),
        (b'"SOUL.md"', b'"a\\u0000b"', 4),
        (b'"SOUL.md"', b'"..\\\\SOUL.md"', 4),
        (b'"SOUL.md"', b'"' + b"n" * 300 + b'"', 4),
        (b'"SOUL.md"', b'"' + b"d/" * 3000 + b'x"', 4),
    ],
)
def test_attack_a_damaged_agent_file_is_refused_and_leaves_nothing(
    tmp_path: Path, old: bytes, new: bytes, status: int
) -> None:
    """Duplicate members, invalid text, depth, wrong types and path traversal."""
    data = json.dumps(json.loads((SAMPLES / "good-whole.agent.json").read_bytes())).encode()
    assert old in data
    file, folder = tmp_path / "m.agent.json", tmp_path / "ws"
    file.write_bytes(data.replace(old, new, 1))
    arguments = ["agent", "import", str(file), "--name", "ag", "--workspace", str(folder)]
    assert run([*arguments, "--no-embed"]) == status
    assert not folder.exists()
    assert list_banks(load_settings()) == []


@pytest.mark.parametrize(
    ("text", "advice"),
    [("a" * 2_000_000, "SATCHEL_LIMITS_ENTRY_BYTES"), (5, "Correct the file")],
    ids=["over the limit", "mistyped"],
)
def test_the_error_for_a_refused_agent_record_suggests_a_fix(
    text: object, advice: str, tmp_path: Path
) -> None:
    """An agent is imported completely or not at all, so --skip-bad is not suggested."""
    value = json.loads((SAMPLES / OURS[1]).read_bytes())
    value["memory"]["vectors"][0]["text"] = text
    file = tmp_path / "whole.agent.json"
    file.write_text(json.dumps(value))
    with pytest.raises(InputError) as refused:
        arrive(file)
    assert "Nothing was imported." in str(refused.value.hint)
    assert advice in str(refused.value.hint)
    assert "--skip-bad" not in str(refused.value.hint)
