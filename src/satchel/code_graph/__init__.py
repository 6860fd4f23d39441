"""The code that memories speak of, as a graph of symbols."""
