"""What things cost."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Price:
    cents: int


class Rounding:
    def apply(self, cents: int) -> Price:
        """Round as cash registers do."""
        return Price(cents - cents % 5)


async def fetch_prices(address: str, retries: int = 3) -> dict[str, Price]:
    return {}


def price_of(name: str) -> Price:
    """Look a price up."""
    return Price(100)
