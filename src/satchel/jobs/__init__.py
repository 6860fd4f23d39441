"""Work that may be cut short: what is remembered of it, and how far it got, as values."""
