"""A real S3 server in this process, which counts requests."""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any
from unittest.mock import patch
from uuid import uuid4

_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_REGION": "us-east-1",
    "AWS_ALLOW_HTTP": "true",
}


@dataclass
class S3Server:
    """A server with counts of its requests by method."""

    endpoint: str
    requests: Counter[str] = field(default_factory=Counter)

    def bucket(self) -> str:
        """Create a bucket and return its address."""
        import boto3

        name = f"bucket-{uuid4().hex[:12]}"
        boto3.client("s3", endpoint_url=self.endpoint, region_name="us-east-1").create_bucket(
            Bucket=name
        )
        return f"s3://{name}"


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Yield a server; the environment has its credentials."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    inner = DomainDispatcherApplication(create_backend_app)
    server = S3Server("")

    one_at_a_time = threading.Lock()

    def counted(environ: dict[str, Any], start: Any) -> list[bytes]:
        # moto checks a condition and writes in two steps; of S3 that is one.
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = BytesIO(body)
        with one_at_a_time:
            server.requests[environ["REQUEST_METHOD"]] += 1
            answer = inner(environ, start)
            try:
                return list(answer)
            finally:
                answer.close()

    http = make_server("127.0.0.1", 0, counted, threaded=True)
    server.endpoint = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    try:
        with patch.dict(os.environ, {**_CREDENTIALS, "AWS_ENDPOINT": server.endpoint}):
            yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


__all__ = ["S3Server", "s3_server"]
