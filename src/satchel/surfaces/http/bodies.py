"""What requests say, as the OpenAPI document shows it."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Component = Literal["episodic", "identity", "procedural", "semantic", "working"]
_MOST_TEXT = 1_000_000


class Body(BaseModel):
    """What is not known is refused."""

    model_config = ConfigDict(extra="forbid")

    def said(self, *but: str) -> dict[str, Any]:
        """Return what was said, without what was not."""
        return {
            name: value
            for name, value in self.model_dump(exclude_unset=True).items()
            if name not in but
        }


class Reason(Body):
    """Why."""

    reason: str | None = Field(None, max_length=1000, examples=["it was a joke"])
