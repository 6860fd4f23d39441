"""Screening of texts: secrets, personal data, injected instructions."""
