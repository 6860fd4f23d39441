"""Languages that the code graph reads."""
