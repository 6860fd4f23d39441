"""Memory between banks, files and stores."""
