"""Memory files, as a person asks for them."""
