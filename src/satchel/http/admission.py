"""Admission of requests: identify the caller, then read the body.

A body is read only after its caller is identified and may use the route. Each route declares how
large its body may be; the memory and the concurrent requests of one caller are limited as well.
Unidentified callers get no slot: the routes without permission answer from memory and need none.
"""

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from typing import Annotated, Any, TypeVar, get_origin

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Depends, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.datastructures import Headers, QueryParams
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from satchel.crypto.json_reader import plain_value
from satchel.errors import MalformedError, PermissionRefusedError, UsageError
from satchel.http.answers import PROBLEM, problem
from satchel.http.gateway import ADMIN, PROOF, TOKEN, Caller, Gateway, TokenHolder
from satchel.http.guard import ClientConnections, ServerLimits, announces_body
from satchel.http.rate_limits import OPERATOR, Principal, Quota, RequestSlots

_BEARER = "bearer "
_VERIFIERS = 2
_LARGE = 256 << 10
"""Bytes; larger bodies are parsed in a thread."""

_CALLER, _BODY, _VALUE = "satchel.caller", "satchel.body", "satchel.value"
_NO_BODY, _LONGEST_NAME = "this request takes no body", 80

_PROBLEM: dict[str, Any] = {
    "description": "Problem details (RFC 9457), with Satchel's error code.",
    "content": {PROBLEM: {"schema": {"type": "object"}}},
}


class Access(Enum):
    """The callers that may use a route."""

    ANYBODY = "anybody"
    CALLER = "caller"
    """The owner, or the holder of a token for the bank."""

    OWNER = "owner"


class BodyKind(Enum):
    """The kind of a route's body; its limit is the field of ``ServerLimits`` with the value."""

    NOTHING = ""
    SMALL = "small_bytes"
    TEXT = "body_bytes"
    """JSON with the text of memories, files or conversations."""

    FILE = "upload_bytes"
    """A file, which the route reads as a stream."""


_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])


def takes(kind: BodyKind) -> Callable[[_Endpoint], _Endpoint]:
    """Declare the kind of a route's body, if it is not small JSON."""

    def declared(endpoint: _Endpoint) -> _Endpoint:
        endpoint.takes = kind  # type: ignore[attr-defined]
        return endpoint

    return declared


def long_lived(endpoint: _Endpoint) -> _Endpoint:
    """Declare that a route streams an open-ended response."""
    endpoint.lasts = True  # type: ignore[attr-defined]
    return endpoint


def caller_of(request: Request) -> Caller:
    """Return the caller of an admitted request."""
    caller = request.scope[_CALLER]
    assert isinstance(caller, Caller)  # noqa: S101 - each route with it is a ``Route``
    return caller


def owner_of(request: Request) -> Caller:
    """Return the owner; other callers are refused before the route."""
    return caller_of(request)


def body_of(request: Request) -> bytes:
    """Return the body of an admitted request."""
    body: bytes = request.scope[_BODY]
    return body


class RefusedBodyError(Exception):
    """A body is too large, or does not arrive.

    Args:
        response: The response.
    """

    def __init__(self, response: Response) -> None:
        super().__init__(response.status_code)
        self.response = response


@dataclass(frozen=True, slots=True)
class _Admitted:
    """The caller of a request, and whose limits apply to it."""

    caller: Caller
    principal: Principal
    holder: TokenHolder | None = None


class Admission:
    """Admits requests to the routes of one server.

    Args:
        gateway: Identifies callers.
        bounds: The limits.
        connections: Records which connections are identified.
    """

    def __init__(
        self, gateway: Gateway, bounds: ServerLimits, connections: ClientConnections
    ) -> None:
        self._gateway = gateway
        self._bounds = bounds
        self._connections = connections
        self._slots = RequestSlots(bounds.at_once, bounds.waiting, bounds.patience)
        self._long_slots = RequestSlots(bounds.at_once, bounds.waiting, bounds.patience)
        self._buffered = Quota(bounds.buffered_bytes)
        self._verifiers = CapacityLimiter(_VERIFIERS)
        self._verifying = 0

    def is_operator(self, scope: Scope) -> bool:
        """Return whether the caller is the operator, and presents no other token."""
        headers = Headers(scope=scope)
        client = scope.get("client")
        return TOKEN not in headers and self._gateway.is_operator(
            _operators_token(headers), client[0] if client else None
        )

    async def serve(
        self,
        route: "Route",
        scope: Scope,
        receive: Receive,
        send: Send,
        inner: Callable[[Scope, Receive, Send], Awaitable[None]],
    ) -> None:
        """Admit a request to a route, or refuse it.

        Raises:
            PermissionRefusedError: If the caller has no permission.
            TokenError: If a token is not valid, or its possession is not verified.
            UsageError: If the body is not JSON, or the query has unknown parameters.
            RefusedBodyError: If the body is too large, or does not arrive.
        """
        if route.access is Access.ANYBODY:
            self._require_announced(scope, 0)
            await inner(scope, receive, send)
            return
        admitted = await self._admitted(route, scope)
        if admitted is None:
            await _busy("too many tokens are being verified")(scope, receive, send)
            return
        scope[_CALLER], principal = admitted.caller, admitted.principal
        most = self._most_bytes(route, principal)
        self._require_announced(scope, most)
        buffered = 0
        try:
            if route.takes is not BodyKind.FILE:
                body = bytearray()
                async for part in (
                    self._read_parts(receive, most) if announces_body(scope) else _none()
                ):
                    if not self._buffered.take(principal, len(part)):
                        raise RefusedBodyError(_busy("too many concurrent uploads"))
                    buffered += len(part)
                    body += part
                receive = self._replayed(admitted, scope, bytes(body), receive)
            else:
                receive = self._bounded(receive, most)
            route.require_known(QueryParams(scope["query_string"]))
            await self._serve_in_slot(route, principal, scope, receive, send, inner)
        finally:
            self._buffered.release(principal, buffered)

    async def _serve_in_slot(
        self,
        route: "Route",
        principal: Principal,
        scope: Scope,
        receive: Receive,
        send: Send,
        inner: Callable[[Scope, Receive, Send], Awaitable[None]],
    ) -> None:
        slots = self._long_slots if route.lasts or route.takes is BodyKind.FILE else self._slots
        if not await slots.take(principal):
            await _busy("too many concurrent requests")(scope, receive, send)
            return
        try:
            if route.takes in (BodyKind.SMALL, BodyKind.TEXT):
                await _parse(scope)
            await inner(scope, receive, send)
        finally:
            slots.release(principal)

    async def _admitted(self, route: "Route", scope: Scope) -> _Admitted | None:
        """Identify the caller; None if too many tokens are being verified."""
        self._gateway.refresh_trust()
        headers = Headers(scope=scope)
        token, client = headers.get(TOKEN), scope.get("client")
        if token is not None:
            if self._verifying >= self._bounds.judged:
                return None
            self._verifying += 1
            try:
                # In a thread: used proofs are recorded on disk.
                verify = functools.partial(
                    self._gateway.holder, token, headers.get(PROOF), scope["method"], _target(scope)
                )
                holder = await to_thread.run_sync(verify, limiter=self._verifiers)
            finally:
                self._verifying -= 1
            if route.access is Access.OWNER:
                raise PermissionRefusedError("only the owner can do this, without a token")
            if not announces_body(scope):
                holder.require_body(b"")
            self._connections.mark_identified(client)
            return _Admitted(holder.caller, holder.principal, holder)
        if self.is_operator(scope):
            self._connections.mark_identified(client)
            return _Admitted(self._gateway.owner, OPERATOR)
        raise PermissionRefusedError(
            "authentication required: the operator's token, or a capability token with its proof",
            hint=f"Headers: Authorization: Bearer ..., or {TOKEN} and {PROOF}.",
        )

    def _most_bytes(self, route: "Route", principal: Principal) -> int:
        if route.takes is BodyKind.NOTHING:
            return 0
        most: int = getattr(self._bounds, route.takes.value)
        return most if principal.is_operator else min(most, self._bounds.holder_bytes)

    def _require_announced(self, scope: Scope, most: int) -> None:
        """Refuse a body by its headers."""
        length = Headers(scope=scope).get("content-length", "0")
        if (most == 0 and announces_body(scope)) or (length.isdigit() and int(length) > most):
            raise RefusedBodyError(_too_large(most))

    async def _read_parts(self, receive: Receive, most: int) -> Any:
        """Yield the parts of a body as they arrive, with a timeout."""
        began, size, more = time.monotonic(), 0, True
        while more:
            patience, rate = self._bounds.body_seconds, self._bounds.body_rate
            left = patience + size / rate - (time.monotonic() - began)
            try:
                message = await asyncio.wait_for(receive(), max(0.0, min(patience, left)))
            except TimeoutError:
                late = problem(408, "request.slow", "the body did not arrive in time")
                raise RefusedBodyError(late) from None
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            part, more = message.get("body", b""), message.get("more_body", False)
            size += len(part)
            if size > most:
                raise RefusedBodyError(_too_large(most))
            yield part

    def _bounded(self, receive: Receive, most: int) -> Receive:
        """Return the receive function for a route that reads the body itself."""
        parts = self._read_parts(receive, most)

        async def bounded() -> Message:
            async for part in parts:
                return {"type": "http.request", "body": part, "more_body": True}
            return {"type": "http.request", "body": b"", "more_body": False}

        return bounded

    def _replayed(
        self, admitted: _Admitted, scope: Scope, body: bytes, receive: Receive
    ) -> Receive:
        """Check a body, and return the receive function that passes it to the route."""
        if admitted.holder is not None:
            admitted.holder.require_body(body)
        scope[_BODY], is_sent = body, False

        async def again() -> Message:
            nonlocal is_sent
            if is_sent:
                return await receive()
            is_sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        return again


class Route(APIRoute):
    """A route behind an ``Admission``; all routes of the gateway are."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **more: Any) -> None:
        super().__init__(path, endpoint, **more)
        calls = {dependency.call for dependency in _with_dependencies(self.dependant)}
        usual = BodyKind.NOTHING if self.body_field is None else BodyKind.SMALL
        self.takes: BodyKind = getattr(endpoint, "takes", usual)
        self.lasts: bool = getattr(endpoint, "lasts", False)
        self.access = Access.ANYBODY
        if owner_of in calls:
            self.access = Access.OWNER
        elif caller_of in calls:
            self.access = Access.CALLER
        if self.takes is BodyKind.FILE and self.access is not Access.OWNER:
            # A proof covers the body, which must be read first.
            raise TypeError(f"{path}: only the owner may upload a file")
        self._query = {
            field.alias: get_origin(field.field_info.annotation) is list
            for dependency in _with_dependencies(self.dependant)
            for field in dependency.query_params
        }

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit a request, or refuse it."""
        if self.methods and scope["method"] not in self.methods:
            await super().handle(scope, receive, send)
            return
        admission: Admission = scope["app"].state.admission
        await admission.serve(self, scope, receive, send, super().handle)

    def get_route_handler(self) -> Callable[[Request], Any]:
        """Return the handler of a request whose body was read and parsed."""
        usual = super().get_route_handler()

        async def handler(request: Request) -> Response:
            return await usual(_Parsed(request.scope, request.receive))

        return handler

    def require_known(self, query: QueryParams) -> None:
        """Require that a query has only known parameters, and repeats only lists.

        Raises:
            UsageError: If it does not: an ignored filter would return everything.
        """
        for name in query:
            is_list = self._query.get(name)
            if is_list is None:
                near = get_close_matches(name, self._query, n=1)
                raise UsageError(
                    f"unknown query parameter {name[:_LONGEST_NAME]!r}"
                    + (f"; did you mean {near[0]!r}?" if near else ""),
                    field=name[:_LONGEST_NAME],
                    hint=f"Choose from: {', '.join(sorted(self._query)) or 'none'}.",
                )
            if not is_list and len(query.getlist(name)) > 1:
                raise UsageError("the query parameter is repeated", field=name)


class _Parsed(Request):
    """A request with a strictly parsed body."""

    async def json(self) -> Any:
        """Return the parsed body."""
        return self.scope[_VALUE]


def routes(**more: Any) -> APIRouter:
    """Return a router for admitted routes."""
    return APIRouter(route_class=Route, responses={"4XX": _PROBLEM, "5XX": _PROBLEM}, **more)


def _with_dependencies(dependant: Dependant) -> list[Dependant]:
    return [
        dependant,
        *(dependency for each in dependant.dependencies for dependency in _with_dependencies(each)),
    ]


async def _parse(scope: Scope) -> None:
    body: bytes = scope[_BODY]
    if not body:
        return
    try:
        if len(body) > _LARGE:
            scope[_VALUE] = await to_thread.run_sync(plain_value, body)
        else:
            scope[_VALUE] = plain_value(body)
    except MalformedError as error:
        raise UsageError(f"the body: {error.message}", field=error.field or "body") from None


async def _none() -> Any:
    """Yield nothing, for an absent body."""
    for part in tuple[bytes, ...]():
        yield part


def _target(scope: Scope) -> str:
    """Return the raw path and query of a request."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return (path + (b"?" + query if query else b"")).decode("latin-1")


def _operators_token(headers: Headers) -> str | None:
    authorization = headers.get("authorization", "")
    if authorization[: len(_BEARER)].lower() == _BEARER:
        return authorization[len(_BEARER) :].strip()
    return headers.get(ADMIN)


def _too_large(most: int) -> Response:
    return problem(413, "limit", f"at most {most:,} bytes" if most else _NO_BODY)


def _busy(reason: str) -> Response:
    return problem(503, "busy", reason, {"Retry-After": "1"})


def gateway_of(request: Request) -> Gateway:
    """Return the gateway of the server."""
    gateway = request.app.state.gateway
    assert isinstance(gateway, Gateway)  # noqa: S101 - ``application`` sets it
    return gateway


AnyCaller = Annotated[Caller, Depends(caller_of)]
Owner = Annotated[Caller, Depends(owner_of)]
Served = Annotated[Gateway, Depends(gateway_of)]
