"""The embedder that is carried along: a vector for each piece of a word, and their mean."""
