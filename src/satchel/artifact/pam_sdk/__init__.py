"""Profile ``pam-sdk-1.0``: files of the published SDK."""
