"""Keys, signatures, and which keys count."""
