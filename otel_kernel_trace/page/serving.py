"""The page over HTTP, to those who call this server by its own name.

Nothing that a client sends is ever a path: tasks have numbers, texts have names that are
looked up among those of their task. Only GET and HEAD are answered, and nothing is changed.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Awaitable, Callable

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from otel_kernel_trace.page.document import BLOCKS, document
from otel_kernel_trace.page.following import Following, GoneError
from otel_kernel_trace.page.hosts import is_allowed

MAX_QUERY = 1000
_MOST_ERRORS = 200
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def application(
    following: Following, title: str, *, host: str, port: int, allowed: frozenset[str]
) -> ASGIApp:
    """The page of a tree.

    Args:
        following: the tree.
        title: its name.
        host, port: what the server is bound to.
        allowed: values of the Host header that are answered.
    """
    page = document(title, {"mode": "serve", "title": title}, is_served=True)
    html = page.html.replace(BLOCKS, "").encode("utf-8", "replace")

    def index(request: Request) -> Response:
        return Response(html, media_type="text/html")

    def overview(request: Request) -> Response:
        run, since = request.query_params.get("run", ""), _number(request.query_params.get("since", "0"))
        return _json(following.overview(run, since))

    def task(request: Request) -> Response:
        return _json(following.task(_number(request.path_params["task"])))

    def text(request: Request) -> Response:
        content, is_cut = following.text(_number(request.path_params["task"]), request.path_params["name"])
        # Not as text/plain: nobody is to look at a trace's text as a document of this origin.
        headers = {"X-Cut": "1"} if is_cut else {}
        return Response(content, media_type="application/octet-stream", headers=headers)

    def errors(request: Request) -> Response:
        numbers = request.query_params.get("tasks", "").split(",")[:_MOST_ERRORS]
        return _json(following.errors(_number(number) for number in numbers))

    def search(request: Request) -> Response:
        query = request.query_params.get("q", "")
        if not 0 < len(query) <= MAX_QUERY:
            raise HTTPException(400, f"q has to have 1 to {MAX_QUERY} characters")
        return _json(following.search(_number(request.path_params["task"]), query))

    async def gone(request: Request, error: Exception) -> Response:
        return PlainTextResponse(str(error), 404)

    app = Starlette(
        routes=[
            Route("/", index),
            Route("/api/overview", overview),
            Route("/api/errors", errors),
            Route("/api/task/{task}", task),
            Route("/api/text/{task}/{name}", text),
            Route("/api/search/{task}", search),
        ],
        exception_handlers={GoneError: gone},
    )
    app.router.redirect_slashes = False
    return _Guard(app, page.policy, lambda header: is_allowed(header, allowed, host, port))


class _Guard:
    """Refuses what does not come from the page itself, and tells browsers what they may do."""

    def __init__(self, app: ASGIApp, policy: str, is_ours: Callable[[str], bool]) -> None:
        self._app = app
        self._is_ours = is_ours
        headers = {**_HEADERS, "Content-Security-Policy": policy}
        self._headers = [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self._headers]
            await send(message)

        await self._answer(scope)(scope, receive, with_headers)

    def _answer(self, scope: Scope) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
        given = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(given) != 1 or not self._is_ours(given[0]):
            return PlainTextResponse("this server does not go by that name", 421)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("only GET and HEAD", 405, headers={"Allow": "GET, HEAD"})
        sites = {value for name, value in scope["headers"] if name == b"sec-fetch-site"}
        modes = {value for name, value in scope["headers"] if name == b"sec-fetch-mode"}
        if sites & {b"cross-site", b"same-site"} and modes != {b"navigate"}:
            return PlainTextResponse("only for the page itself", 403)
        return self._app


def listen(host: str, port: int) -> socket.socket:
    """A socket that a server can use.

    Raises:
        OSError: the address is taken, or is none of this machine's.
    """
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = found[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except BaseException:
        listening.close()
        raise
    return listening


def run(app: ASGIApp, listening: socket.socket) -> None:
    """Serve until a signal ends it; Ctrl-C raises KeyboardInterrupt once everything is closed."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        http="h11",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
    uvicorn.Server(config).run(sockets=[listening])


def _number(given: str) -> int:
    if not (given.isascii() and given.isdigit() and len(given) < 10):
        raise HTTPException(400, "a number was expected")
    return int(given)


def _json(value: object) -> Response:
    return Response(json.dumps(value, separators=(",", ":")), media_type="application/json")
