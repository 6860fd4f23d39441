const { priceOf } = require('./lib/prices');
const cart = require('./lib/cart');

// Starts the old shop.
function start() {
  return cart.openCart(['tea']).then((found) => found.total());
}

class Shop {
  #open() { return start(); }
  run() { return this.#open(); }
}

module.exports = { start, Shop };
