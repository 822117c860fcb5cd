"""Responses and requests of the page's API: security headers, errors as one sentence, and checked JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airflow_sqlqueue import errors
from airflow_sqlqueue.plugin.addresses import Address, DatabaseNotShownError, address_of
from airflow_sqlqueue.plugin.servers import RequestedServer, Server

log = logging.getLogger(__name__)

MAX_REQUEST_BYTES = 1024 * 1024

_STATUS: dict[type[errors.SqlQueueError], int] = {
    DatabaseNotShownError: 403,
    errors.MessageNotFoundError: 404,
    errors.QueueNotFoundError: 404,
    errors.BatchNotFoundError: 404,
    errors.AddressError: 400,
    errors.ConfigurationError: 400,
    errors.MessageError: 400,
    errors.NotAQueueError: 400,
    errors.BatchError: 409,
    errors.StagingError: 409,
}
"""HTTP status by the first class that fits; any other error is 503, because the server may be down."""

_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'"
)
_HEADERS = [
    (b"content-security-policy", _CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
]

Body = TypeVar("Body", bound="RequestBody")


class RequestBody(BaseModel):
    """Base class of requests: only the declared fields are allowed."""

    model_config = ConfigDict(extra="forbid")


class AsciiResponse(JSONResponse):
    """JSON response in ASCII: message headers may have half a surrogate pair, which only ASCII escapes can express."""

    def render(self, content: Any) -> bytes:
        """Return the bytes of the response."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


class SecurityHeaders:
    """Middleware that adds security headers to every response, and hides the texts of unexpected errors from the log.

    Browsers may store only the package's static files, and must check for new versions of these.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        path = str(scope.get("path", "")).removeprefix(scope.get("root_path", ""))
        is_static = scope["type"] == "http" and path.startswith("/static/")
        cache = (b"cache-control", b"no-cache" if is_static else b"no-store")

        has_begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                message["headers"] = [*message["headers"], *_HEADERS, cache]
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except Exception as error:
            # Neither the text nor the traceback, because both may quote the content of a message.
            log.error("A request of the SQL Queues page ended with %s", type(error).__name__)
            if not has_begun:
                fault = _sentence(500, "The page failed unexpectedly: see the API server's log.")
                await fault(scope, receive, send_with_headers)


def read_as(kind: type[Body]) -> Callable[[Request, Server], Awaitable[Body]]:
    """Dependency that reads a request's JSON after the rights were checked; FastAPI itself would read it before.

    Each :class:`.Address` in it has to be in a database that the page shows.
    It demands a header and a content type that a form of another site cannot send.
    """

    async def read(request: Request, server: RequestedServer) -> Body:
        if request.headers.get("x-sqlqueue") != "1":
            raise HTTPException(400, "The request lacks the header X-SqlQueue, so it does not come from the page.")
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HTTPException(400, "The request is not of the content type application/json.")
        text = bytearray()
        async for piece in request.stream():
            text += piece
            if len(text) > MAX_REQUEST_BYTES:
                raise HTTPException(400, f"The request has more than {MAX_REQUEST_BYTES:,} bytes.")
        try:
            body = kind.model_validate_json(bytes(text))
        except ValidationError as error:
            # The texts of pydantic may quote the request.
            found = error.errors(include_input=False, include_url=False, include_context=False)[0]
            where = ".".join(str(part) for part in found["loc"] if str(part) in kind.model_fields) or "the JSON"
            raise HTTPException(400, f"The request cannot be read: {where} is not valid.") from None
        for address in vars(body).values():
            if isinstance(address, Address) and address:
                address_of(server.client, address)
        return body

    return read


def add_error_responses(app: FastAPI) -> None:
    """Answer every error as ``{"detail": "<a sentence>"}``, and add the security headers."""
    app.add_middleware(SecurityHeaders)
    app.add_exception_handler(errors.SqlQueueError, _package_error)
    app.add_exception_handler(StarletteHTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _path_error)


def status_of(error: errors.SqlQueueError) -> int:
    """HTTP status of the response to an error of this package."""
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 503)


def _package_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, errors.SqlQueueError)
    return _sentence(status_of(error), str(error))


def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, StarletteHTTPException)
    return _sentence(error.status_code, str(error.detail))


def _path_error(request: Request, error: Exception) -> JSONResponse:
    return _sentence(400, "The address of the request is not one of the page's.")


def _sentence(status: int, text: str) -> JSONResponse:
    return AsciiResponse({"detail": text}, status)
