"""A member of an agent file that has another type is refused by its path, or is not lost."""

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
"""What stands in place of a member, one of each JSON type and more."""

ROOT = Path(__file__).parent.parent.parent
SCHEMA = json.loads((ROOT / "schemas" / "agent_file.json").read_bytes())
OURS = ("good-small.agent.json", "good-whole.agent.json")
THEIRS = ("other-rust.agent.json", "other-typescript.agent.json")


def places(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the way to each member, at any depth."""
    if at:
        yield at
    names: Any = value if isinstance(value, dict) else ()
    names = range(len(value)) if isinstance(value, list) else names
    for name, part in ((name, value[name]) for name in names):
        yield from places(part, (*at, name))


def changed(value: Any, way: tuple[str | int, ...], other: Any) -> Any:
    """Return a copy with another value at a place."""
    made = copy.deepcopy(value)
    inner = made
    for name in way[:-1]:
        inner = inner[name]
    inner[way[-1]] = other
    return made


def at(value: Any, way: tuple[str | int, ...]) -> Any:
    """Return what is at a place; None where there is nothing."""
    for name in way:
        try:
            value = value[name]
        except (LookupError, TypeError):
            return None
    return value


def plain(value: Any) -> Any:
    """Return a value without members that say nothing."""
    if isinstance(value, dict):
        return {k: kept for k, part in value.items() if (kept := plain(part)) or kept in (0, False)}
    return [plain(part) for part in value] if isinstance(value, list) else value


def cases(sample: str, *, every: bool) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield places, each with each value, or with one of them in turn."""
    value = json.loads((SAMPLES / sample).read_bytes())
    for number, way in enumerate(places(value)):
        some = VALUES if every else [VALUES[number * 3 % len(VALUES)]]
        was = at(value, way)
        yield from ((way, other) for other in some if type(other) is not type(was))


def held(home: Path, file: Path, way: tuple[str | int, ...], other: Any, *, ours: bool) -> bool:
    """Tell whether a changed file is refused by the member, or comes out again with it."""
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
        found, wanted = plain(at(written(out), way)), plain(other)
        return found == wanted or not (found or wanted) or not wanted
    marks = (MARK, str(VALUES[1]), str(VALUES[2]))
    # What a file says of its own export is not the agent's; the next export says its own.
    about = way[0] == "exportMetadata"
    return about or any(mark in text for mark in marks) or other in (True, None, [], {})


@pytest.mark.parametrize(
    "every", [False, pytest.param(True, marks=[pytest.mark.prove, pytest.mark.timeout(1200)])]
)
@pytest.mark.parametrize("sample", [*OURS, *THEIRS])
def test_each_member_of_another_type_is_refused_or_comes_out_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: str, *, every: bool
) -> None:
    """Nothing of an agent file is lost without a word, whatever type somebody gave it."""
    home = tmp_path / "home"
    monkeypatch.setenv("SATCHEL_HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    value = json.loads((SAMPLES / sample).read_bytes())
    file = tmp_path / "m.agent.json"
    lost = []
    for way, other in cases(sample, every=every):
        file.write_text(json.dumps(changed(value, way, other)))
        if not held(home, file, way, other, ours=sample in OURS):
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
def test_a_section_of_another_type_is_refused_by_its_path(
    tmp_path: Path, way: str, other: Any
) -> None:
    """The error names the member; nothing is imported."""
    value = json.loads((SAMPLES / "good-whole.agent.json").read_bytes())
    value["exportMetadata"] = {"lossless": True}
    file = tmp_path / "m.agent.json"
    file.write_text(json.dumps(changed(value, tuple(way.split("/")), other)))
    if way == "memory":  # which other software has as well
        value = {**json.loads(file.read_bytes()), "memory": 7}
        file.write_text(json.dumps(value))
    with pytest.raises(InputError) as refused:
        arrive(file, name="fz")

    assert str(refused.value.field).startswith(way)
    assert list(jsonschema.Draft202012Validator(SCHEMA).iter_errors(json.loads(file.read_bytes())))


def test_what_is_exported_is_as_the_schema_has_it(tmp_path: Path) -> None:
    """One schema for what is read and what is written, in the repository."""
    syn(tmp_path)
    leave("syn", tmp_path / "a.agent.json")
    for file in (tmp_path / "a.agent.json", *(SAMPLES / name for name in OURS)):
        jsonschema.validate(written(file), SCHEMA, jsonschema.Draft202012Validator)


def test_two_things_of_one_id_are_both_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Attack: an id twice, so that the second memory and the second node vanish."""
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


def test_conversations_that_a_file_only_names_are_in_a_full_export_however_old(
    tmp_path: Path,
) -> None:
    """Any other export says that they stay behind."""
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
def test_a_damaged_agent_file_is_refused_and_leaves_nothing(
    tmp_path: Path, old: bytes, new: bytes, status: int
) -> None:
    """Attack: members twice, text that is none, depth, wrong types and paths that lead out."""
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
def test_a_refused_record_of_an_agent_is_answered_with_what_can_be_done(
    text: object, advice: str, tmp_path: Path
) -> None:
    """There is no --skip-bad for an agent: half of one is none. A limit can be raised."""
    value = json.loads((SAMPLES / OURS[1]).read_bytes())
    value["memory"]["vectors"][0]["text"] = text
    file = tmp_path / "whole.agent.json"
    file.write_text(json.dumps(value))
    with pytest.raises(InputError) as refused:
        arrive(file)
    assert "Nothing was imported." in str(refused.value.hint)
    assert advice in str(refused.value.hint)
    assert "--skip-bad" not in str(refused.value.hint)
