"""The tools of a run behind the protocol: on standard input and output, or over HTTP."""

from __future__ import annotations

import functools
import hmac
from collections.abc import Callable
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tuckerkg import __version__
from tuckerkg.errors import TuckerkgError
from tuckerkg.mcp.tools import RunTools

PATH = "/mcp"
INSTRUCTIONS = (
    "A knowledge graph and a model that predicts its missing facts. Names are found with search and relations. A "
    "probability is the share of such facts that were true among facts hidden from the model. What the graph holds is "
    "told by facts, not by predict. Explain a fact before relying on it."
)


def build_server(tools: RunTools) -> MCPServer[Any]:
    """Make a server with the tools of a run."""
    server: MCPServer[Any] = MCPServer(
        "tuckerkg", title="tuckerkg", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    for action in tools.readers():
        hints = ToolAnnotations(read_only_hint=True, open_world_hint=False)
        server.tool(annotations=hints)(in_words(action))
    for action in tools.writers():
        hints = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
        server.tool(annotations=hints)(in_words(action))
    return server


def in_words(action: Callable[..., Any]) -> Callable[..., Any]:
    """The same tool, whose errors reach the program that called it as words."""

    @functools.wraps(action)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return action(*args, **kwargs)
        except ValidationError as error:
            raise ToolError("; ".join(str(each["msg"]) for each in error.errors())) from None
        except TuckerkgError as error:
            raise ToolError(str(error)) from None

    return called


class TokenGuard:
    """Refuse requests without the token, before anything else is read of them."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.token = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it with 401."""
        if scope["type"] == "http" and not self._knows(Headers(scope=scope).get("authorization", "")):
            refusal = {"type": "about:blank", "title": "Unauthorized", "status": 401, "detail": "a token is needed"}
            kind = "application/problem+json"
            await JSONResponse(refusal, 401, {"www-authenticate": "Bearer"}, kind)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _knows(self, header: str) -> bool:
        scheme, _, given = header.partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self.token)


def http_app(server: MCPServer[Any], host: str, token: str | None) -> ASGIApp:
    """The server as a web application; on loopback it answers requests that name this machine as their host alone."""
    app: ASGIApp = server.streamable_http_app(streamable_http_path=PATH, host=host)
    return app if token is None else TokenGuard(app, token)
