"""A bank's log over a store: heads, witness, verified reads; the same for every store."""
