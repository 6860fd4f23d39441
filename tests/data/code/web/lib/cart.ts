import { Price, priceOf as lookUp } from './prices';
import type { Line } from './prices';
import * as prices from './prices';

interface Countable extends Sized {
  count(): number;
}

interface Sized {
  size: number;
}

/**
 * A basket that knows what it costs.
 */
export class Cart extends Basket implements Countable {
  private rounding = new prices.Rounding();

  constructor(private readonly currency: string) {
    super();
  }

  /** Adds everything up. */
  total(vat: boolean = true): Price {
    if (!vat && this.count() === 0) {
      return lookUp('nothing');
    }
    return this.rounding.apply(0);
  }

  count(): number {
    return 0;
  }
}

class Basket {}

export const openCart = async (names: string[]): Promise<Cart> => {
  const cart = new Cart('EUR');
  cart.total();
  return cart;
};

export enum Kind { Plain }
export type Names = string[];
