"""Looking after stores, from Python."""
