"""The code that memories mention, as a graph of symbols."""
