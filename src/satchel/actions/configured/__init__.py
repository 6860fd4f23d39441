"""What a configuration file may hold besides plain settings, and how such a file is read."""
