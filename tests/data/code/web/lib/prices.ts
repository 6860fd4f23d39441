export interface Price { cents: number }
export interface Line { name: string }

export class Rounding {
  apply(cents: number): Price {
    return { cents };
  }
}

export function priceOf(name: string): Price {
  return { cents: name ? 100 : 0 };
}
