package shop.model;

public class Prices {
    public static Price priceOf(String name) {
        return name == null ? null : new Price(100);
    }
}
