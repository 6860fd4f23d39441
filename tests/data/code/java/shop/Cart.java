package shop;

import shop.model.Price;
import static shop.model.Prices.priceOf;

/** A basket that knows what it costs. */
public class Cart extends Basket implements Countable {
    private final Rounding rounding = new Rounding();

    public Cart(String currency) {
        super();
    }

    /** Adds everything up. */
    public Price total(boolean vat) throws IllegalStateException {
        if (!vat && count() == 0) {
            return priceOf("nothing");
        }
        return this.rounding.apply(0);
    }

    @Override
    public int count() { return 0; }

    static Cart open(String... names) {
        Cart cart = new Cart("EUR");
        cart.total(true);
        return cart;
    }
}

interface Countable { int count(); }
