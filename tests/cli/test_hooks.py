"""Event hooks: functions, commands and webhooks are notified of operations."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from receiver_kit import Receiver

from satchel.api.store import Satchel
from satchel.config.hook_delivery import signature
from satchel.config.hooks import MOST_WAITING, Hooks
from satchel.config.tables import EVENTS, HookSettings
from satchel.errors import UsageError
from satchel.ports.sinks import Event

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Run

UNSET, VARIABLE = "NOT_SET_HERE", "THE_SIGNING_SECRET"
RECORDER = "import sys; open(sys.argv[1], 'ab').write(sys.stdin.buffer.read())"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A web server that records requests."""
    found = Receiver()
    yield found
    found.close()


def deliver_event(hook: HookSettings | Any, event: str = "on_import", **more: Any) -> Hooks:
    """Deliver one event to one hook, and wait."""
    hooks = Hooks({event: [hook]})
    hooks.tell(event, bank=("blake3:aa", "ada"), ids=["x"], counts={"memories": 1}, **more)
    hooks.finish(30)
    return hooks


def test_each_event_of_the_command_line_is_delivered(
    satchel: Run, tmp_path: Path, mem0: Path
) -> None:
    """Every event, with IDs and counts and without content."""
    log = tmp_path / "log"
    command = json.dumps([sys.executable, "-c", RECORDER, str(log)])
    config = tmp_path / "satchel.toml"
    lines = [f"[[hooks.{event}]]\ncommand = {command}" for event in EVENTS]
    config.write_text("\n".join(lines))

    def run(*words: str | Path) -> str:
        ran = satchel("--config", config, *words)
        assert (ran.status, ran.err.count("hook")) == (0, 0), ran.err
        return ran.out.strip()

    first = run("remember", "the secret is tea")
    run("recall", "tea")
    second = run("update", first, "the secret is coffee").split()[-1]
    forgotten = run("list", "--json")
    run("forget", json.loads(forgotten)["memories"][0]["id"])
    run("restore", json.loads(forgotten)["memories"][0]["id"])
    run("import", mem0, "--bank", "default")
    run("undo")
    run("export", "--output", tmp_path / "a.pam")
    run("backup", "run", "--destination", tmp_path / "backups")
    (tmp_path / "no-folder").write_text("")
    failed = ("backup", "run", "--destination", tmp_path / "no-folder" / "backups")
    assert satchel("--config", config, *failed).status != 0
    new = tmp_path / "new.toml"
    new.write_text(f'store.address = "{tmp_path / "new.db"}"')
    run("migrate", "--from-config", config, "--to-config", new, "--no-switch")

    events = [json.loads(line) for line in log.read_bytes().splitlines()]
    assert {one["event"] for one in events} == set(EVENTS)
    assert b"secret is" not in log.read_bytes() + second.encode()
    of_banks = [one for one in events if not one["event"].startswith("on_backup")]
    assert all(one["bank"].startswith("blake3:") and one["name"] == "default" for one in of_banks)
    assert next(one for one in events if one["event"] == "on_remember")["ids"] == [first]
    assert next(one for one in events if one["event"] == "on_import")["counts"]["added"] == 2


def test_content_is_included_only_on_request(tmp_path: Path) -> None:
    """``include_content`` is set per hook."""
    with_it, without = tmp_path / "with", tmp_path / "without"
    hooks = [
        HookSettings(command=(sys.executable, "-c", RECORDER, str(path)), include_content=include)
        for path, include in ((with_it, True), (without, False))
    ]
    found = Hooks({"on_remember": hooks})

    found.tell("on_remember", content=lambda: [{"text": "tea"}])
    found.finish(30)

    assert json.loads(with_it.read_bytes())["content"] == [{"text": "tea"}]
    assert "content" not in json.loads(without.read_bytes())


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        (HookSettings(command=("/nowhere/at/all",)), "cannot be started"),
        (HookSettings(command=(sys.executable, "-c", "import sys; sys.exit('no\\x1b[2J')")), "no"),
        (HookSettings(command=("sleep", "60"), timeout=0.05), "did not finish"),
        (HookSettings(function="no_such_module_at_all:run"), "No module"),
        (HookSettings(function="os:nothing"), "not a function"),
        (HookSettings(function="sys:exit"), "SystemExit"),
        (HookSettings(webhook="http://127.0.0.1:9/", retries=0), "refused"),
        (HookSettings(webhook="http://127.0.0.1:9/", secret_env=UNSET), UNSET),
    ],
    ids=str,
)
def test_a_failing_hook_is_logged_and_counted(
    hook: HookSettings, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """For every kind of failure; its output does not control the terminal."""
    with caplog.at_level(logging.WARNING):
        hooks = deliver_event(hook)

    assert hooks.counts == (0, 1, 0)
    assert words in caplog.text
    assert "\x1b" not in caplog.text


def test_a_write_succeeds_while_its_hook_fails(satchel: Run, tmp_path: Path) -> None:
    """The memory is stored, with status 0."""
    config = tmp_path / "satchel.toml"
    config.write_text('[[hooks.on_remember]]\ncommand = ["/nowhere/at/all"]')

    ran = satchel("--config", config, "remember", "likes tea")

    assert ran.status == 0
    assert "likes tea" in satchel("list").out


def test_a_hook_that_never_returns_is_abandoned() -> None:
    """``finish`` returns after its timeout, and counts the event as dropped."""
    go, calls = threading.Event(), list[str]()

    def slow(event: Event) -> None:
        calls.append(event.event)
        go.wait(30)

    hooks = Hooks({"on_import": [slow]})
    hooks.tell("on_import")
    hooks.finish(0.05)

    assert hooks.counts.dropped == 1
    go.set()


def test_events_over_the_queue_limit_are_dropped_and_counted() -> None:
    """Attack: a hanging hook while a million events occur does not exhaust memory."""
    go = threading.Event()
    hooks = Hooks({"on_import": [lambda _: go.wait(30)]})

    for _ in range(MOST_WAITING + 10):
        hooks.tell("on_import")

    assert hooks.counts.dropped >= 9
    go.set()


def test_a_webhook_signature_covers_time_and_body(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receiver with the secret can verify sender and time."""
    monkeypatch.setenv(VARIABLE, "s3cret")

    hooks = deliver_event(HookSettings(webhook=receiver.address, secret_env=VARIABLE))

    (headers, body), *rest = receiver.got
    at = headers["Satchel-Signature"].partition(",")[0].removeprefix("t=")
    mac = hmac.new(b"s3cret", f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    assert headers["Satchel-Signature"] == f"t={at},v1={mac}" == signature(body, "s3cret", at)
    assert json.loads(body)["delivery"] == headers["Satchel-Delivery"]
    assert (hooks.counts, rest) == ((1, 0, 0), [])


@pytest.mark.parametrize(
    ("answers", "retries", "tries", "delivered"),
    [
        ([500, 503], 2, 3, 1),
        ([429], 1, 2, 1),
        ([500, 500], 1, 2, 0),
        ([400], 3, 1, 0),
        ([302], 3, 1, 0),
    ],
)
def test_a_webhook_is_retried_after_temporary_failures_only(
    receiver: Receiver, answers: list[int], retries: int, tries: int, delivered: int
) -> None:
    """No retry after 4xx, and no redirect is followed. Retries have the same delivery ID."""
    receiver.answers = answers

    hooks = deliver_event(HookSettings(webhook=receiver.address, retries=retries))

    assert len(receiver.got) == tries
    assert hooks.counts == (delivered, 1 - delivered, 0)
    assert len({headers["Satchel-Delivery"] for headers, _ in receiver.got}) == 1


def test_attack_a_hook_command_reads_secrets_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passphrases, keys, tokens and addresses with passwords are removed, under any name.

    The command gets locations, and variables that the configuration names.
    """
    secrets = (
        *("SATCHEL_PASSPHRASE", "SATCHEL_SIGNING_KEY", "SATCHEL_ADMIN_TOKEN", "SATCHEL_TOKEN"),
        *(
            "SATCHEL_STORE",
            "OPENAI_API_KEY",
            "MY_MODELS_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "PGPASSWORD",
        ),
        *("WEBHOOK_SECRET", "DATABASE_URL", "WHATEVER"),
    )
    for name in secrets:
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("NAMED_FOR_IT", "said")
    seen = tmp_path / "seen"
    text = f"import os, json; json.dump(dict(os.environ), open({str(seen)!r}, 'w'))"

    deliver_event(HookSettings(command=(sys.executable, "-c", text), environment=("NAMED_FOR_IT",)))

    found = json.loads(seen.read_text())
    assert "hunter2" not in found.values()
    assert found["NAMED_FOR_IT"] == "said"
    assert found["PATH"] == os.environ["PATH"]
    assert found["SATCHEL_HOME"] == os.environ["SATCHEL_HOME"]


def test_python_hooks_are_called_and_their_errors_counted(tmp_path: Path) -> None:
    """``Satchel.open(hooks=...)``; the write succeeds."""
    log = list[Event]()

    def fail(_: Event) -> None:
        raise ValueError("no")

    with Satchel.open(tmp_path / "a.db", hooks={"on_remember": [log.append, fail]}) as satchel:
        done = satchel.bank().remember("likes tea")
    assert [event.ids for event in log] == [[done.id]]
    assert satchel.hook_counts == (1, 1, 0)
    with pytest.raises(UsageError, match="no event"):
        Satchel.open(tmp_path / "a.db", hooks={"on_rember": log.append})
