"""Moving memory: between banks, and between banks and files."""
