"""The log of a bank: appends, proofs, heads, projection, witness, repair."""
