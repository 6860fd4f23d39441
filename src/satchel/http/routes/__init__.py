"""Routes of the gateway, a module for each feature."""
