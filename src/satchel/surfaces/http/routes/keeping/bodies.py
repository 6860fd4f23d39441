"""What requests to look after banks say, as the OpenAPI document shows it."""

from pydantic import Field

from satchel.surfaces.http.bodies import Body


class Erasing(Body):
    """What is to be erased for good."""

    ids: list[str] = Field([], max_length=10_000)
    where: dict[str, str | list[str]] = Field({}, max_length=20, examples=[{"user": "ada"}])
    """Conditions by name: all have to hold, one of the values each."""

    cascade: bool = False
    """Whether everything goes that was drawn from it, or is part of it."""

    reason: str | None = Field(None, max_length=1000)
    dry_run: bool = False


class Redacting(Body):
    """What is to be replaced in memories."""

    ids: list[str] = Field([], max_length=10_000)
    where: dict[str, str | list[str]] = Field({}, max_length=20, examples=[{"user": "ada"}])
    """Conditions by name: all have to hold, one of the values each."""

    kinds: list[str] = Field([], max_length=1000)
    texts: list[str] = Field([], max_length=1000)
    fields: list[str] = Field([], max_length=1000)
    detector: str | None = Field(None, max_length=40, examples=["presidio"])
    dry_run: bool = False


class Pruning(Body):
    """Which old versions are to be erased."""

    superseded_before: str = Field(max_length=64, examples=["90d"])
    deleted: bool = False
    """Also what was deleted, has expired or was rejected."""

    reason: str | None = Field(None, max_length=1000)
    dry_run: bool = False


class Undoing(Body):
    """Which import is to be taken back: the last one, when nothing is said."""

    source: str | None = Field(None, max_length=100)
    reason: str | None = Field(None, max_length=1000)
