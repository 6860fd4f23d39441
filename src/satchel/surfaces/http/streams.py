"""A request's body, as a private file."""

from anyio import open_file
from fastapi import Request

from satchel.disk.spool import Private
from satchel.errors import EmptyInputError


async def received(request: Request, name: str) -> Private:
    """Return a request's body as a file.

    Raises:
        EmptyInputError: If there is none.
    """
    private, size = Private(name), 0
    try:
        async with await open_file(private.file, "wb") as file:
            async for part in request.stream():
                size += len(part)
                await file.write(part)
    except BaseException:
        private.close()
        raise
    if size == 0:
        private.close()
        raise EmptyInputError("the body is empty")
    return private
