"""Models: what makes vectors of texts, and finds what they are about. All are optional."""
