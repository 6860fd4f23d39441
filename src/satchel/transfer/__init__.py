"""Moving memory between banks, files and stores."""
