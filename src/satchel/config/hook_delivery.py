"""Telling a listener: a function by name, a command, or an address on the web."""

import hashlib
import hmac
import os
import signal
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import msgspec

from satchel.errors import ConfigError, TargetError
from satchel.model.values import now
from satchel.ports.sinks import Event

_GIVEN = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "TERM", "TZ", "TMPDIR", "TMP", "TEMP"),
        *("LANG", "LANGUAGE", "SATCHEL_HOME", "SATCHEL_CONFIG", "SATCHEL_WITNESS"),
        *("VIRTUAL_ENV", "PYTHONPATH", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    }
)
"""Variables that a command gets: where things are, and in which language it speaks."""

_GIVEN_KINDS = ("LC_", "XDG_")

_FIRST_PAUSE = 0.5

_AGAIN = frozenset({408, 425, 429})

_SERVER = 500

_SHOWN = 200


def run_function(name: str, event: Event) -> None:
    """Call the function that ``module:name`` names, with the event.

    Raises:
        ConfigError: If there is none.
    """
    module, _, path = name.partition(":")
    found: Any = import_module(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise ConfigError(f"{name} is not a function")
    found(event)


def run_command(
    command: Sequence[str], event: Event, seconds: float, variables: Sequence[str] = ()
) -> None:
    """Run a program with the event as JSON on its input; no shell reads the arguments.

    Of the environment it gets what says where things are, and what it was given by name: no
    passphrase, key or token that this program was started with. What it started goes with it when
    it takes too long.

    Raises:
        TargetError: If it cannot be started, fails, or does not end in time.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in _GIVEN or name in variables or name.startswith(_GIVEN_KINDS)
    }
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(  # noqa: S603 - the operator's own configuration
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env=environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise TargetError(f"cannot be started: {error}") from None
        try:
            process.communicate(msgspec.json.encode(event) + b"\n", timeout=seconds)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise TargetError(f"it did not finish within {seconds:g} seconds") from None
        if process.returncode:
            said.seek(0)
            words = said.read(_SHOWN).decode("utf-8", "replace").strip()
            raise TargetError(f"status {process.returncode}{': ' if words else ''}{words}")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """An answer that sends elsewhere is a failure: the operator named one place."""

    def redirect_request(self, *_: Any) -> None:
        """Follow nothing."""


def post(
    address: str, event: Event, *, timeout: float, retries: int, secret: str | None
) -> str | None:
    """Send an event as JSON; what failed for a moment is tried again.

    Args:
        address: Where to.
        event: What happened.
        timeout: Seconds for each try.
        retries: How often it is tried again.
        secret: The environment variable that holds the secret; with one, the header
            ``Satchel-Signature`` is ``t=TIME,v1=HEX``, HEX being HMAC-SHA256 over
            ``TIME.BODY``.

    Returns:
        What went wrong in the end; None when it was taken.
    """
    if secret is not None and not os.environ.get(secret):
        return f"the environment has no {secret} to sign with"
    problem: str | None = None
    for turn in range(retries + 1):
        if turn:
            threading.Event().wait(_FIRST_PAUSE * 2 ** (turn - 1))
        status, problem = _tried(address, event, timeout, secret)
        if problem is None or not (status is None or status >= _SERVER or status in _AGAIN):
            break
    return problem


def _tried(
    address: str, event: Event, timeout: float, secret: str | None
) -> tuple[int | None, str | None]:
    """Send it once; return the status of the answer, and what went wrong."""
    answers = list[int]()
    # A server that sends a byte a second never exceeds the timeout of a socket.
    problem = call(
        lambda: answers.append(_posted(address, event, timeout, secret)), timeout, lambda _: None
    )
    status = answers[0] if answers else None
    if status is not None and status >= 300:  # noqa: PLR2004 - it was not taken
        problem = f"the response status was {status}"
    return status, problem


def _posted(address: str, event: Event, timeout: float, secret: str | None) -> int:
    body = msgspec.json.encode(event)
    request = urllib.request.Request(address, data=body, method="POST")  # noqa: S310 - http, https
    request.add_header("Content-Type", "application/json")
    request.add_header("User-Agent", "satchel")
    request.add_header("Satchel-Event", event.event)
    request.add_header("Satchel-Delivery", event.delivery)
    if secret is not None:
        request.add_header("Satchel-Signature", signature(body, os.environ[secret], now()))
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=timeout) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def signature(body: bytes, secret: str, at: str) -> str:
    """Return the header by which a receiver knows who sent a body, and when."""
    mac = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256)
    return f"t={at},v1={mac.hexdigest()}"


StuckOrNot = Callable[[bool], None]
"""Is told True when a call did not end in time, and False when it ended after all."""


def call(what: Callable[[], object], seconds: float, stuck: StuckOrNot) -> str | None:
    """Call something and wait for it no longer than so many seconds.

    A thread cannot be ended from outside: what does not end goes on beside the program.

    Returns:
        What went wrong, in a few words; None when it ended well.
    """
    problems = list[str]()
    change, decided = threading.Lock(), False

    def run() -> None:
        nonlocal decided
        try:
            what()
        except BaseException as error:  # noqa: BLE001 - it is somebody else's code
            problems.append(f"{type(error).__name__}: {error}")
        with change:
            if decided:
                stuck(False)  # noqa: FBT003
            decided = True

    thread = threading.Thread(target=run, name="satchel-hook", daemon=True)
    thread.start()
    thread.join(seconds)
    with change:
        if not decided:
            decided = True
            stuck(True)  # noqa: FBT003
            return f"it did not finish within {seconds:g} seconds"
    return problems[0] if problems else None
