"""What requests to look after banks say, as the OpenAPI document shows it."""

from pydantic import Field

from satchel.surfaces.http.bodies import Body


class Undoing(Body):
    """Which import is to be taken back: the last one, when nothing is said."""

    source: str | None = Field(None, max_length=100)
    reason: str | None = Field(None, max_length=1000)
