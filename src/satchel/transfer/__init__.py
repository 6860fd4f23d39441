"""Moving memory into and out of banks."""
