"""A gateway in this process, and its clients."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import msgspec
from blake3 import blake3
from fastapi import FastAPI
from fastapi.testclient import TestClient

from satchel.api.store import Satchel
from satchel.api.store import open_store as open_settings
from satchel.bank.connections import writer_key
from satchel.config.settings import load_settings
from satchel.crypto.keys import SigningKey
from satchel.crypto.token_chain import http_proof_request, open_chain, prove
from satchel.http.app import application
from satchel.http.gateway import PROOF, TOKEN, Gateway
from satchel.http.guard import ServerLimits
from satchel.model.values import now

HERE, ELSEWHERE = "127.0.0.1", "203.0.113.7"


class ServedGateway:
    """A running gateway."""

    def __init__(self, app: FastAPI, gateway: Gateway, satchel: Satchel) -> None:
        self.app = app
        self.gateway = gateway
        self.satchel = satchel

    def client(self, address: str = HERE, **more: Any) -> TestClient:
        """Return a client with an IP address."""
        return TestClient(
            self.app,
            base_url="http://localhost",
            client=(address, 50_000),
            raise_server_exceptions=False,
            **more,
        )

    def holder(self, token: str, key: SigningKey | None, address: str = ELSEWHERE) -> TestClient:
        """Return a client of a token holder, which signs each request."""
        found = self.client(address)
        found.auth = TokenAuth(token, key, self.gateway.verifier)
        return found


class TokenAuth:
    """Authentication that sends a token, and signs each request."""

    def __init__(self, token: str, key: SigningKey | None, verifier: str) -> None:
        self._token = token
        self._key = key
        self._verifier = verifier

    def __call__(self, request: Any) -> Any:
        """Return a request with the two headers."""
        request.headers[TOKEN] = base64.b64encode(self._token.encode()).decode()
        if self._key is not None:
            action = proof_action(request.method, request.url.raw_path.decode(), request.content)
            chain = open_chain(self._token.encode())
            proof = prove(chain, self._key, self._verifier, now(), action)
            request.headers[PROOF] = base64.b64encode(msgspec.json.encode(proof)).decode()
        return request


def proof_action(method: str, target: str, body: bytes) -> tuple[str, dict[str, str]]:
    """Return the action and arguments that a proof of a request covers."""
    return http_proof_request(method, target, blake3(body).hexdigest())


@contextmanager
def running_gateway(
    admin: str | None = None, bounds: ServerLimits | None = None
) -> Iterator[ServedGateway]:
    """Yield a gateway over the default store."""
    settings = load_settings()
    satchel = open_settings(Satchel, settings)
    gateway = Gateway(satchel, settings, writer_key(settings).did, admin)
    app = application(gateway, bounds=bounds)
    try:
        yield ServedGateway(app, gateway, satchel)
    finally:
        gateway.close()


def example_of(operation: dict[str, Any]) -> dict[str, Any] | None:
    """Return the example request of an operation; None if a part has no example."""
    said: dict[str, Any] = {"path": {}, "params": {}}
    for one in operation.get("parameters", []):
        if one["required"] and "example" not in one:
            return None
        if one["required"]:
            said["path" if one["in"] == "path" else "params"][one["name"]] = one["example"]
    for media, body in operation.get("requestBody", {}).get("content", {}).items():
        if media == "application/octet-stream":
            said["content"] = b"a file"
        elif "example" not in body:
            return None
        else:
            said["json"] = body["example"]
    return said


def request_path(path: str, steps: dict[str, str]) -> str:
    """Return a path of the document with its parameters filled in."""
    for name, value in steps.items():
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    return path
