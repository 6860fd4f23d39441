"""Delivery of events to listeners: a function by name, a command, or a webhook."""

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
"""Variables that a command gets: locations and the language."""

_GIVEN_KINDS = ("LC_", "XDG_")

_FIRST_PAUSE = 0.5

_AGAIN = frozenset({408, 425, 429})

_SERVER = 500

_SHOWN = 200


def run_function(name: str, event: Event) -> None:
    """Call the function ``module:name`` with the event.

    Raises:
        ConfigError: If it does not exist.
    """
    module, _, path = name.partition(":")
    target: Any = import_module(module)
    for part in path.split("."):
        target = getattr(target, part, None)
    if not callable(target):
        raise ConfigError(f"{name} is not a function")
    target(event)


def run_command(
    command: Sequence[str], event: Event, seconds: float, variables: Sequence[str] = ()
) -> None:
    """Run a program with the event as JSON on its input, without a shell.

    Its environment has the locations and the variables that are listed for it, and no passphrase,
    key or token of this program. If it takes too long, it is killed with its child processes.

    Raises:
        TargetError: If it cannot be started, fails, or does not end in time.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in _GIVEN or name in variables or name.startswith(_GIVEN_KINDS)
    }
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(  # noqa: S603 - the operator's own configuration
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
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
            errors.seek(0)
            words = errors.read(_SHOWN).decode("utf-8", "replace").strip()
            raise TargetError(f"status {process.returncode}{': ' if words else ''}{words}")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A handler that treats redirects as failures: the operator named one address."""

    def redirect_request(self, *_: Any) -> None:
        """Do not follow a redirect."""


def post(
    address: str, event: Event, *, timeout: float, retries: int, secret: str | None
) -> str | None:
    """Send an event as JSON, and retry after temporary failures.

    Args:
        address: The URL.
        event: The event.
        timeout: Seconds for each attempt.
        retries: Maximum number of retries.
        secret: The environment variable that holds the secret; with one, the header
            ``Satchel-Signature`` is ``t=TIME,v1=HEX``, HEX being HMAC-SHA256 over ``TIME.BODY``.

    Returns:
        The last problem; None if it was delivered.
    """
    if secret is not None and not os.environ.get(secret):
        return f"the environment has no {secret} to sign with"
    problem: str | None = None
    for turn in range(retries + 1):
        if turn:
            threading.Event().wait(_FIRST_PAUSE * 2 ** (turn - 1))
        status, problem = _attempt(address, event, timeout, secret)
        if problem is None or not (status is None or status >= _SERVER or status in _AGAIN):
            break
    return problem


def _attempt(
    address: str, event: Event, timeout: float, secret: str | None
) -> tuple[int | None, str | None]:
    """Send it once; return the response's status and the problem."""
    answers = list[int]()
    # A server that sends a byte a second never exceeds a socket's timeout.
    problem = call(
        lambda: answers.append(_post_once(address, event, timeout, secret)), timeout, lambda _: None
    )
    status = answers[0] if answers else None
    if status is not None and status >= 300:  # noqa: PLR2004 - not delivered
        problem = f"the response status was {status}"
    return status, problem


def _post_once(address: str, event: Event, timeout: float, secret: str | None) -> int:
    body = msgspec.json.encode(event)
    request = urllib.request.Request(address, data=body, method="POST")  # noqa: S310 - http or https
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
    """Return the header with which a receiver verifies the sender and the time."""
    mac = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256)
    return f"t={at},v1={mac.hexdigest()}"


StuckOrNot = Callable[[bool], None]
"""Called with True if a call did not end in time, and with False once it ended."""


def call(function: Callable[[], object], seconds: float, stuck: StuckOrNot) -> str | None:
    """Call a function and wait for it for a limited time.

    A thread cannot be ended from outside: a call that does not end continues beside the program.

    Returns:
        The problem, in a few words; None if there was none.
    """
    problems = list[str]()
    change, decided = threading.Lock(), False

    def run() -> None:
        nonlocal decided
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - code of others
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
