"""MCP over streamable HTTP, stateless: each request identifies its caller."""

from fastapi import Request, Response
from mcp.server.mcpserver import MCPServer
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Message, Receive, Scope, Send

from satchel.http.admission import AnyCaller, BodyKind, Served, body_of, routes, takes
from satchel.http.gateway import Caller, Gateway
from satchel.mcp.principal import ToolCaller, act_for
from satchel.mcp.server import server

PATH = "/mcp"

# JSON-RPC, which OpenAPI cannot describe.
router = routes(include_in_schema=False)


@router.post(PATH)
@takes(BodyKind.TEXT)
async def speak(request: Request, caller: AnyCaller, gateway: Served) -> Response:
    """Respond to one message of an agent host, as the owner or as the holder of a token."""
    app = request.app.state
    if not hasattr(app, "mcp"):
        app.mcp = server(None)  # without a default caller: unidentified requests get nothing
    return _Spoken(app.mcp, asker_of(caller, gateway), body_of(request))


def asker_of(caller: Caller, gateway: Gateway) -> ToolCaller:
    """Return the caller of the tools in a request."""
    bank = gateway.bank if caller.is_owner else None
    return ToolCaller(
        satchel=caller.satchel, settings=caller.settings, bank=bank, signs=caller.is_owner
    )


class _Spoken(Response):
    """The response of the server to a message.

    Args:
        made: The server.
        asker: The caller.
        said: The message, which was read to identify the caller.
    """

    def __init__(self, made: MCPServer, asker: ToolCaller, said: bytes) -> None:
        super().__init__()
        self._made = made
        self._asker = asker
        self._said = said

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        parts: list[Message] = [{"type": "http.request", "body": self._said, "more_body": False}]

        async def again() -> Message:
            return parts.pop() if parts else await receive()

        # Requests share no state, so any worker can respond.
        manager = StreamableHTTPSessionManager(
            self._made._lowlevel_server,  # noqa: SLF001 - the only way to serve it at our own door
            json_response=True,
            stateless=True,
            max_request_body_size=max(1, len(self._said)),  # our own limits were checked before
        )
        with act_for(self._asker):
            async with manager.run():
                await manager.handle_request(scope, again, send)
