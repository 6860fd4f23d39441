// Package cart holds what a customer wants.
package cart

import "fmt"

// Counter counts.
type Counter interface {
	Count() int
}

// Cart is a basket that knows what it costs.
type Cart struct {
	Basket
	lines    []string
	rounding *Rounding
}

// Total adds everything up.
func (c *Cart) Total(vat bool) (int, error) {
	if !vat && c.Count() == 0 {
		return 0, fmt.Errorf("nothing")
	}
	return c.rounding.Apply(PriceOf("tea")), nil
}

// New opens a cart.
func New(names ...string) *Cart {
	cart := &Cart{}
	cart.Total(true)
	return cart
}
