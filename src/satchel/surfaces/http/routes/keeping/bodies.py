"""What requests to look after banks say, as the OpenAPI document shows it."""

from typing import Annotated, Any, Literal

from pydantic import Field

from satchel.surfaces.http.bodies import Body


class BankName(Body):
    """What a bank is to be called."""

    name: Annotated[str, Field(min_length=1, max_length=500, examples=["archive"])]


class BankCopy(BankName):
    """A bank with the memories of another."""

    retired: bool = False
    """Whether what is no longer current comes along."""


class Merge(Body):
    """Where the memories of a bank are to be carried."""

    into: Annotated[str, Field(min_length=1, max_length=500, examples=["assistant"])]
    on_conflict: Literal["skip", "overwrite", "rename", "error"] = "skip"
    dry_run: bool = False


class BankValues(Body):
    """Settings of a bank by name; null takes one away."""

    values: dict[str, Any] = Field(max_length=100, examples=[{"recall_limit": 5}])


class Embedding(Body):
    """Which vectors are to be made."""

    model: Literal["static", "static-idf", "minilm"] | None = None
    """One that asks a model elsewhere is not to be had from here: it would cost the operator."""

    rebuild: bool = False


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
