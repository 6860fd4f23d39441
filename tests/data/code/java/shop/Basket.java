package shop;

class Basket {
    enum Kind { PLAIN }
}

class Rounding {
    shop.model.Price apply(int cents) { return null; }
}
