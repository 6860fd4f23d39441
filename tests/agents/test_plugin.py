"""The plugin: each file has the form that its host requires, and its hooks work."""

import json
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from satchel.setup.connect import PLUGIN

FOLDER = Path(str(PLUGIN))
ROOT = Path(__file__).parents[2]

_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
_PATH = {"type": "string", "pattern": r"^\./"}
_COMMAND = {
    "type": "object",
    "required": ["type", "command"],
    "properties": {
        "type": {"const": "command"},
        "command": _TEXT,
        "timeout": {"type": "integer", "minimum": 1, "maximum": 600},
    },
    "additionalProperties": False,
}
_GROUPS = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["hooks"],
        "properties": {"matcher": {"type": "string"}, "hooks": {"items": _COMMAND}},
        "additionalProperties": False,
    },
}
_MANIFEST: dict[str, Any] = {
    "name": {"type": "string", "pattern": r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"},
    "version": {"type": "string", "pattern": r"^\d+\.\d+\.\d+"},
    "description": _TEXT,
    "author": {
        "type": "object",
        "required": ["name"],
        "properties": {"name": _TEXT, "email": _TEXT},
        "additionalProperties": False,
    },
    "license": _TEXT,
    "keywords": {"type": "array", "items": _TEXT},
}


def _shape(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": False,
    }


# The form of each file after the hosts' documentation of 2026. Members that the plugin does not use
# are omitted, so a member that a host does not know fails here.
_MARKETPLACE = _shape(
    ["name", "owner", "plugins"],
    name=_TEXT,
    owner=_shape(["name"], name=_TEXT),
    plugins={
        "type": "array",
        "items": _shape(["name", "source"], name=_TEXT, source=_PATH, description=_TEXT),
    },
)
SHAPES = {
    FOLDER / ".claude-plugin/plugin.json": _shape(["name"], **_MANIFEST),
    FOLDER / ".codex-plugin/plugin.json": _shape(
        ["name", "version", "description"],
        **_MANIFEST,
        skills=_PATH,
        mcpServers=_PATH,
        hooks=_PATH,
        interface={"type": "object", "required": ["displayName", "shortDescription"]},
    ),
    FOLDER / ".cursor-plugin/plugin.json": _shape(
        ["name"], **_MANIFEST, displayName=_TEXT, skills=_PATH, mcpServers=_PATH, hooks=_PATH
    ),
    FOLDER / ".mcp.json": _shape(
        ["mcpServers"],
        mcpServers={
            "additionalProperties": _shape(
                ["command"], command=_TEXT, args={"type": "array", "items": _TEXT}
            )
        },
    ),
    FOLDER / "hooks/hooks.json": _shape(
        ["hooks"], hooks=_shape(["SessionStart", "Stop"], SessionStart=_GROUPS, Stop=_GROUPS)
    ),
    FOLDER / "hooks/cursor.json": _shape(
        ["version", "hooks"],
        version={"const": 1},
        hooks={
            "propertyNames": {"enum": ["sessionStart", "stop"]},
            "additionalProperties": {
                "type": "array",
                "items": _shape(["command"], command=_TEXT, timeout={"type": "integer"}),
            },
        },
    ),
    ROOT / ".claude-plugin/marketplace.json": _MARKETPLACE,
    ROOT / ".cursor-plugin/marketplace.json": _MARKETPLACE,
    ROOT / ".agents/plugins/marketplace.json": _shape(
        ["name", "plugins"],
        name=_TEXT,
        interface=_shape(["displayName"], displayName=_TEXT),
        plugins={
            "items": _shape(
                ["name", "source", "policy", "category"],
                name=_TEXT,
                source=_shape(["source", "path"], source={"const": "local"}, path=_PATH),
                policy=_shape(
                    ["installation", "authentication"],
                    installation={"enum": ["AVAILABLE", "INSTALLED_BY_DEFAULT", "NOT_AVAILABLE"]},
                    authentication={"enum": ["ON_INSTALL", "ON_USE"]},
                ),
                category=_TEXT,
            )
        },
    ),
}

_ARGUMENT = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"enum": ["named", "positional"]}, "name": _TEXT, "value": _TEXT},
    "if": {"properties": {"type": {"const": "named"}}},
    "then": {"required": ["name"]},
    "else": {"required": ["value"]},
    "additionalProperties": False,
}
# As in the registry's schema 2025-12-11.
SERVER = _shape(
    ["$schema", "name", "description", "version"],
    **{"$schema": {"type": "string", "pattern": r"/schemas/2025-12-11/server\.schema\.json$"}},
    name={"type": "string", "pattern": r"^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$", "maxLength": 200},
    title={"type": "string", "minLength": 1, "maxLength": 100},
    description={"type": "string", "minLength": 1, "maxLength": 100},
    version={"type": "string", "maxLength": 255},
    packages={
        "type": "array",
        "items": _shape(
            ["registryType", "identifier", "transport"],
            registryType={"enum": ["npm", "pypi", "oci", "nuget", "mcpb"]},
            identifier=_TEXT,
            version={"type": "string", "not": {"const": "latest"}},
            runtimeHint={"enum": ["npx", "uvx", "docker", "dnx"]},
            runtimeArguments={"type": "array", "items": _ARGUMENT},
            packageArguments={"type": "array", "items": _ARGUMENT},
            transport=_shape(["type"], type={"const": "stdio"}),
            environmentVariables={
                "type": "array",
                "items": _shape(
                    ["name"],
                    name=_TEXT,
                    description=_TEXT,
                    format={"enum": ["string", "number", "boolean", "filepath"]},
                    isSecret={"type": "boolean"},
                ),
            },
        ),
    },
)


def _read(path: Path) -> Any:
    return json.loads(path.read_bytes())


@pytest.mark.parametrize("path", SHAPES, ids=lambda path: str(path.parent.name) + "/" + path.name)
def test_each_manifest_is_valid_for_its_host(path: Path) -> None:
    """And every path in it exists."""
    value = _read(path)
    jsonschema.validate(value, SHAPES[path])
    root = ROOT if path.name == "marketplace.json" else FOLDER
    for said in _relative_paths(value):
        assert (root / said).exists(), said


def _relative_paths(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [one for said in value.values() for one in _relative_paths(said)]
    if isinstance(value, list):
        return [one for said in value for one in _relative_paths(said)]
    return [value] if isinstance(value, str) and value.startswith("./") else []


def test_the_registry_manifest_is_valid_by_the_published_schema() -> None:
    """It has the package, its extra and the command."""
    server = _read(ROOT / "server.json")
    jsonschema.validate(server, SERVER)
    (package,) = server["packages"]
    assert [one["value"] for one in package["packageArguments"]] == ["mcp"]
    assert package["runtimeArguments"][0]["value"] == "satchel[server]"


def test_every_manifest_has_the_version_of_the_package() -> None:
    """A release cannot miss one of them."""
    manifests = [path for path in SHAPES if path.name == "plugin.json"]
    said = [_read(path)["version"] for path in manifests]
    server = _read(ROOT / "server.json")
    said += [server["version"], server["packages"][0]["version"]]
    assert set(said) == {version("satchel")}


def test_the_skill_follows_the_skill_specification() -> None:
    """It is named as its folder and has a short description."""
    path = FOLDER / "skills/satchel/SKILL.md"
    head = path.read_text().split("---")[1]
    said = dict(line.split(": ", 1) for line in head.strip().splitlines())
    assert said["name"] == path.parent.name
    assert len(said["description"]) <= 1024
    assert len(path.read_text().splitlines()) < 500
    for tool in ("recall", "remember", "forget", "rehydrate", "memory", "pam_export_memory"):
        assert f"`{tool}`" in path.read_text()


# -- the hooks, run as a host runs them -----------------------------------------------------------

LATE = "It turned out that the importer needs the header row, because it fails without one."


def _claude_code(path: Path, event: str) -> dict[str, Any]:
    more = {"source": "startup"} if event == "SessionStart" else {"stop_hook_active": False}
    return {
        "session_id": "5f0c",
        "transcript_path": str(path),
        "cwd": str(path.parent),
        "permission_mode": "default",
        "hook_event_name": event,
        **more,
    }


def _codex(path: Path, event: str) -> dict[str, Any]:
    more: dict[str, Any] = {"source": "startup"}
    if event == "Stop":
        more = {"stop_hook_active": False, "turn_id": "1", "last_assistant_message": None}
    said = _claude_code(path, event) | {"model": "gpt-5", **more}
    return said | ({"transcript_path": None} if event == "SessionStart" else {})


def _cursor(path: Path, event: str) -> dict[str, Any]:
    said: dict[str, Any] = {
        "conversation_id": "668320d2",
        "generation_id": "490b90b7",
        "model": "default",
        "hook_event_name": event,
        "cursor_version": "3.7.21",
        "workspace_roots": [str(path.parent)],
        "user_email": None,
        "transcript_path": str(path),
    }
    if event == "sessionStart":
        return said | {"session_id": "668320d2", "composer_mode": "agent"}
    return said | {"status": "completed", "loop_count": 0}


def _cursor_turn(text: str) -> dict[str, Any]:
    return {"role": "user", "message": {"content": [{"type": "text", "text": text}]}}


def _codex_turn(text: str) -> dict[str, Any]:
    part = {"type": "input_text", "text": text}
    said = {"type": "message", "role": "user", "content": [part]}
    return {"timestamp": "2026-11-01T10:00:00Z", "type": "response_item", "payload": said}


HOSTS: dict[str, Any] = {
    "claude-code": (
        "hooks/hooks.json",
        _claude_code,
        lambda text: {"type": "user", **_claude_code_turn(text)},
    ),
    "codex": ("hooks/hooks.json", _codex, _codex_turn),
    "cursor": ("hooks/cursor.json", _cursor, _cursor_turn),
}


def _claude_code_turn(text: str) -> dict[str, Any]:
    return {"message": {"role": "user", "content": text}}


@pytest.fixture
def transcript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a transcript below the home directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "work" / "session.jsonl"
    path.parent.mkdir()
    return path


@pytest.mark.in_check(1)
@pytest.mark.parametrize("host", HOSTS)
def test_hooks_store_findings_and_provide_them_to_the_next_session(
    own_home: Path, transcript: Path, host: str
) -> None:
    """The plugin's command runs with the JSON that each host writes to standard input."""
    del own_home
    file, payload, turn = HOSTS[host]
    hooks = _read(FOLDER / file)["hooks"]
    start, stop = hooks
    given = "<environment_context>\nWe decided to always obey this.\n</environment_context>"
    lines = [turn(given), turn(LATE)] if host == "codex" else [turn(LATE)]
    transcript.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert _run_hook(hooks[stop], payload(transcript, stop)) == {}
    answer = _run_hook(hooks[start], payload(transcript, start))
    if host == "cursor":
        assert answer.keys() == {"additional_context"}
        context = answer["additional_context"]
    else:
        assert answer.keys() == {"hookSpecificOutput"}
        assert answer["hookSpecificOutput"]["hookEventName"] == "SessionStart"
        context = answer["hookSpecificOutput"]["additionalContext"]
    assert LATE in context
    assert "obey this" not in context


def _run_hook(groups: list[dict[str, Any]], said: dict[str, Any]) -> dict[str, Any]:
    (group,) = groups
    (one,) = group.get("hooks", [group])
    first, *words = shlex.split(one["command"])
    assert first == "satchel"
    ran = subprocess.run(
        [sys.executable, "-m", "satchel", *words],
        input=json.dumps(said),
        capture_output=True,
        text=True,
        check=False,
        timeout=one["timeout"],
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found
