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
async def respond(request: Request, caller: AnyCaller, gateway: Served) -> Response:
    """Respond to one message of an agent host, as the owner or as the holder of a token."""
    app = request.app.state
    if not hasattr(app, "mcp"):
        app.mcp = server(None)  # without a default caller: unidentified requests get nothing
    return _MessageResponse(app.mcp, tool_caller(caller, gateway), body_of(request))


def tool_caller(caller: Caller, gateway: Gateway) -> ToolCaller:
    """Return the caller of the tools in a request."""
    bank = gateway.bank if caller.is_owner else None
    return ToolCaller(
        satchel=caller.satchel, settings=caller.settings, bank=bank, signs=caller.is_owner
    )


class _MessageResponse(Response):
    """The response of the server to a message.

    Args:
        mcp: The server.
        caller: The caller.
        message: The message, which was read to identify the caller.
    """

    def __init__(self, mcp: MCPServer, caller: ToolCaller, message: bytes) -> None:
        super().__init__()
        self._mcp = mcp
        self._caller = caller
        self._message = message

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        parts: list[Message] = [{"type": "http.request", "body": self._message, "more_body": False}]

        async def again() -> Message:
            return parts.pop() if parts else await receive()

        # Requests share no state, so any worker can respond.
        manager = StreamableHTTPSessionManager(
            self._mcp._lowlevel_server,  # noqa: SLF001 - the only way to serve it on a route of ours
            json_response=True,
            stateless=True,
            max_request_body_size=max(1, len(self._message)),  # our own limits were checked before
        )
        with act_for(self._caller):
            async with manager.run():
                await manager.handle_request(scope, again, send)
