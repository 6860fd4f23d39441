mod cart;
mod prices;

use crate::cart::Cart;

fn main() {
    let found = Cart::new();
    found.total(true);
    prices::price_of("tea");
}
