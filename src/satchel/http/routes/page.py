"""The web page: a few files of the package, which ask the routes beside them and nobody else.

Nothing of what a bank holds is in them, so they need no permission; whatever they show, they ask
for as whoever looks at them.
"""

from importlib.resources import files

from fastapi import Response
from starlette.exceptions import HTTPException

from satchel.http.admission import routes

router = routes(include_in_schema=False)

_KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_FOLDER = files("satchel.web")
_PAGES = {
    one.name: one.read_bytes() for one in _FOLDER.iterdir() if one.name.rpartition(".")[2] in _KINDS
}
_NOT_FOUND = 404

# What a memory says can never become a part of the page: no script, style or address but those of
# these files is let in, no text can be made markup, and no other page can put this one in a frame.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


@router.get("/")
async def page() -> Response:
    """Return the page."""
    return _told("index.html")


@router.get("/page/{name}")
async def part(name: str) -> Response:
    """Return a file that the page is made of."""
    return _told(name)


def _told(name: str) -> Response:
    found = _PAGES.get(name)
    if found is None:
        raise HTTPException(_NOT_FOUND)
    headers = {
        "Content-Security-Policy": POLICY,
        "Cross-Origin-Opener-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    }
    return Response(found, media_type=_KINDS[name.rpartition(".")[2]], headers=headers)
