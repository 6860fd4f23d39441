"""Rollouts of Codex: cases outside of the shared suite."""

import json
from pathlib import Path
from typing import Any

import pytest

from satchel.errors import MalformedError
from satchel.ports.drafts import read_records
from satchel.ports.format import Location, ReadContext, formats

_THEN = "2026-03-01T09:00:00.125Z"


def _line(kind: str, /, **payload: Any) -> dict[str, Any]:
    return {"timestamp": _THEN, "type": kind, "payload": payload}


def _message_line(role: str, text: str) -> dict[str, Any]:
    content = [{"type": "output_text" if role == "assistant" else "input_text", "text": text}]
    return _line("response_item", type="message", role=role, content=content)


_META = _line("session_meta", id="s", cwd="shop", originator="codex_cli_rs")


def _read(path: Path, *lines: dict[str, Any]) -> tuple[list[Any], ReadContext]:
    path.write_text("".join(json.dumps(one) + "\n" for one in (_META, *lines)), "utf-8")
    reading = ReadContext()
    found = read_records(formats["codex"], Location(path), reading)
    return [one.value for one in found], reading


def test_displayed_messages_are_not_duplicated(tmp_path: Path) -> None:
    """Messages are those given to the model, displayed before or after."""
    found, reading = _read(
        tmp_path / "r.jsonl",
        _message_line("user", "Which day is it?"),
        _line("event_msg", type="user_message", message="Which day is it?"),
        _line("event_msg", type="agent_reasoning", text="**Looking**"),
        _line("response_item", type="reasoning", summary=[{"text": "**Looking**"}]),
        _line("event_msg", type="agent_message", message="Sunday."),
        _message_line("assistant", "Sunday."),
        _line("event_msg", type="agent_message", message="Nobody kept this."),
        _line("event_msg", type="token_count", info={"total": 812}),
    )

    assert [one.get("text") for one in found if one["event"] == "message"] == [
        "Which day is it?",
        None,
        "Sunday.",
    ]
    losses = {loss.name: (loss.count, loss.examples) for loss in reading.report.losses.values()}
    assert losses == {"event_msg": (1, ["Nobody kept this."])}


def test_the_settings_of_a_turn_are_stored_with_its_first_message(tmp_path: Path) -> None:
    """The model is known for each turn; unchanged settings are not repeated."""
    setting = {"cwd": "shop", "model": "gpt-5-codex"}
    found, reading = _read(
        tmp_path / "r.jsonl",
        _line("turn_context", **setting),
        _message_line("user", "one"),
        _line("turn_context", **setting),
        _message_line("user", "two"),
        _line("turn_context", **{**setting, "model": "other"}),
    )

    kept = [one["origin"]["as_written"].get("before") for one in found[1:]]
    assert [before and before["turn_context"]["payload"] for before in kept] == [setting, None]
    assert reading.report.ignored == {"turn_context": 1}


@pytest.mark.parametrize(("turns", "after"), [(1, "two"), (2, "one"), (9, None)])
def test_a_rollback_makes_a_fork_and_loses_no_message(
    tmp_path: Path, turns: int, after: str | None
) -> None:
    """It counts user messages only."""
    lines = [_message_line("user", "<environment_context>x</environment_context>")]
    lines += [_message_line(role, text) for text in ("one", "two", "three") for role in ("user",)]
    found, _ = _read(
        tmp_path / "r.jsonl",
        *lines,
        _line("event_msg", type="thread_rolled_back", num_turns=turns),
        _message_line("user", "instead"),
    )

    kinds = [(one["event"], one.get("role"), one.get("text")) for one in found]
    assert kinds[1][1] == "context"
    assert [text for event, _, text in kinds if event == "message"][1:] == [
        *("one", "two", "three"),
        "instead",
    ]
    fork = next(one for one in found if one["event"] == "fork")
    numbers = {"two": 3, "one": 2, None: 1}
    assert fork["state"]["number"] == numbers[after]


def test_a_rollout_that_has_grown_begins_with_the_same_events(tmp_path: Path) -> None:
    """So a second import adds only the new events."""
    sample = Path(__file__).parent.parent / "data" / "formats" / "codex" / "good-rollout.jsonl"
    lines = sample.read_bytes().splitlines(keepends=True)
    path, whole = tmp_path / "r.jsonl", list[Any]()
    for end in range(1, len(lines) + 1):
        path.write_bytes(b"".join(lines[:end]))
        found = list(formats["codex"].read(Location(path), ReadContext()))
        assert found[: len(whole)] == whole
        whole = found

    assert len(whole) > len(lines) // 2


def test_a_transcript_of_claude_code_is_not_a_rollout(tmp_path: Path) -> None:
    """A wrong ``--from`` is an error."""
    sample = Path(__file__).parent.parent / "data" / "formats" / "claude_code" / "good-talk.jsonl"

    with pytest.raises(MalformedError):
        list(read_records(formats["codex"], Location(sample), ReadContext()))
    rollout = tmp_path / "r.jsonl"
    _read(rollout, _message_line("user", "one"))
    with pytest.raises(MalformedError):
        list(read_records(formats["claude_code"], Location(rollout), ReadContext()))
