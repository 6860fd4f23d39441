"""Settings: files, environment, flags and what they mean."""
