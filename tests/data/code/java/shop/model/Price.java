package shop.model;

public record Price(int cents) {}
