"""What a customer wants to buy."""

from . import prices
from .prices import Price, price_of as look_up


class Basket:
    """Holds things."""

    def count(self) -> int:
        return len(self.lines)


class Cart(Basket):
    """A basket that knows what it costs."""

    def __init__(self, currency: str = "EUR") -> None:
        self.currency = currency
        self.lines: list[str] = []
        self.rounding = prices.Rounding()

    def total(self, *, vat: bool = True) -> Price:
        """Add everything up.

        With tax, unless told otherwise.
        """
        if not self.count() and not vat:
            return Price(0)
        amount = sum(look_up(line).cents for line in self.lines)
        return self.rounding.apply(amount)

    def add(self, line: str) -> None:
        self.lines.append(line)


def open_cart(names: list[str]) -> Cart:
    """Open a cart with something in it."""
    cart = Cart()
    for name in names:
        cart.add(name)
    return cart
