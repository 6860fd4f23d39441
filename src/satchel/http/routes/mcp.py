"""MCP over streamable HTTP: each request stands for itself, and says on whose behalf it is made."""

from fastapi import Request, Response
from mcp.server.mcpserver import MCPServer
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Message, Receive, Scope, Send

from satchel.http.admission import AnyCaller, BodyKind, Served, body_of, routes, takes
from satchel.http.gateway import Caller, Gateway
from satchel.mcp.principal import ToolCaller, act_for
from satchel.mcp.server import server

PATH = "/mcp"

# It speaks JSON-RPC, which the OpenAPI document has no words for.
router = routes(include_in_schema=False)


@router.post(PATH)
@takes(BodyKind.TEXT)
async def speak(request: Request, caller: AnyCaller, gateway: Served) -> Response:
    """Answer one message of an agent host, as the owner or as the holder of a token."""
    app = request.app.state
    if not hasattr(app, "mcp"):
        app.mcp = server(None)  # without a store of its own: who says nothing gets nothing
    return _Spoken(app.mcp, asker_of(caller, gateway), body_of(request))


def asker_of(caller: Caller, gateway: Gateway) -> ToolCaller:
    """Return on whose behalf tools act in a request."""
    bank = gateway.bank if caller.is_owner else None
    return ToolCaller(
        satchel=caller.satchel, settings=caller.settings, bank=bank, signs=caller.is_owner
    )


class _Spoken(Response):
    """What the server answers to a message.

    Args:
        made: The server.
        asker: Who asks.
        said: The message, which was read when it was found out who asks.
    """

    def __init__(self, made: MCPServer, asker: ToolCaller, said: bytes) -> None:
        super().__init__()
        self._made = made
        self._asker = asker
        self._said = said

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer it."""
        parts: list[Message] = [{"type": "http.request", "body": self._said, "more_body": False}]

        async def again() -> Message:
            return parts.pop() if parts else await receive()

        # Nothing is kept from one request to the next, so any worker can answer any of them.
        manager = StreamableHTTPSessionManager(
            self._made._lowlevel_server,  # noqa: SLF001 - the only way to serve it at our own door
            json_response=True,
            stateless=True,
            max_request_body_size=max(1, len(self._said)),  # our own bounds were kept already
        )
        with act_for(self._asker):
            async with manager.run():
                await manager.handle_request(scope, again, send)
