"""Records: entries, events, edges, and the values that they are made of."""
