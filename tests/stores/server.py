"""A server that speaks S3, in this process: moto's, behind a door that can refuse requests or keep them waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from s3fs import S3FileSystem
from werkzeug.serving import make_server

KEY, SECRET = "AKIDEXAMPLE0000000", "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"
PART_SIZE = 5 * 2**20
"""The least size of a part of an upload but for the last."""

Door = Callable[[str], tuple[str, str] | None]
"""Is given a request as ``PUT /bucket/key?query`` and gives the status and S3's code to refuse it with, or None."""

Exit = Callable[[str], None]
"""Is given a request that was done, before its sender hears of it."""


class S3Server:
    """A running server; ``requests`` are those that came to it."""

    def __init__(self) -> None:
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.requests: list[str] = []
        self.door: Door = lambda request: None
        self.exit: Exit = lambda request: None
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @contextmanager
    def behind(self, door: Door, leave: Exit = lambda request: None) -> Iterator[None]:
        self.door, self.exit = door, leave
        try:
            yield
        finally:
            self.door = self.exit = lambda request: None

    def filesystem(self, **options: Any) -> S3FileSystem:
        """A client of its own, which does not try again for long."""
        filesystem = S3FileSystem(
            key=KEY,
            secret=SECRET,
            endpoint_url=self.url,
            default_block_size=PART_SIZE,
            config_kwargs={"retries": {"max_attempts": 0}, "connect_timeout": 5, "read_timeout": 60},
            skip_instance_cache=True,
            **options,
        )
        filesystem.retries = 1
        return filesystem

    def client(self) -> Any:
        """Another client, of another library."""
        return boto3.client(
            "s3", endpoint_url=self.url, aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name="us-east-1"
        )

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}?{environ['QUERY_STRING']}"
        self.requests.append(request)
        refusal = self.door(request)
        if refusal is None:
            answer: Iterable[bytes] = self._moto(environ, start_response)
            self.exit(request)
            return answer
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        status, code = refusal
        body = f"<Error><Code>{code}</Code><Message>{code}, says the server</Message></Error>".encode()
        start_response(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]
