"""What requests to look after banks say, as the OpenAPI document shows it."""

from typing import Literal

from pydantic import Field

from satchel.surfaces.http.bodies import Body


class Embedding(Body):
    """Which vectors are to be made."""

    model: Literal["static", "static-idf", "minilm"] | None = None
    """One that asks a model elsewhere is not to be had from here: it would cost the operator."""

    rebuild: bool = False


class Undoing(Body):
    """Which import is to be taken back: the last one, when nothing is said."""

    source: str | None = Field(None, max_length=100)
    reason: str | None = Field(None, max_length=1000)
