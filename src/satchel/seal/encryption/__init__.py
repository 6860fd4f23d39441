"""Files that only those can read whom they were encrypted to: age, in streaming."""
