"""The HTTP gateway: the Python API behind routes, one permission check, problems as RFC 9457."""

from importlib.util import find_spec

from satchel.errors import MissingExtraError


def require_extra() -> None:
    """Require the packages of the gateway.

    Raises:
        MissingExtraError: If one is not installed.
    """
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise MissingExtraError(
            "serving over HTTP needs FastAPI and uvicorn",
            hint="Install them: pip install 'satchel[server]'",
        )
