from shop.cart import Cart, open_cart

__all__ = ["Cart", "open_cart"]
