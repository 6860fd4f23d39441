"""Importing: what arrives is planned whole, then logged as one batch that is visible at once."""
