"""The base of request bodies."""

from typing import Any

from pydantic import BaseModel, ConfigDict


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
