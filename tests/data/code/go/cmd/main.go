package main

import (
	shop "example.com/shop/cart"
)

func main() {
	found := shop.New("tea")
	found.Total(true)
	shop.PriceOf("tea")
}
