"""Which memories are screened for instructions when they are provided as context."""

from typing import Literal

Enforce = Literal["outside", "all", "shapes", "nothing"]
