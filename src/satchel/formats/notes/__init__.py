"""Formats of notes that agents keep for themselves in text files, one module each."""
