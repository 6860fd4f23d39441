"""The files of a witness, one bank each: lines of signed heads, and what was removed."""
