import shop
from shop import open_cart
from shop.cart import Cart
import helpers


def main() -> None:
    cart = open_cart(["tea"])
    print(cart.total())
    direct: Cart = Cart()
    direct.total(vat=False)
    shop.open_cart([])
    helpers.show(cart)
    unknown.total()
