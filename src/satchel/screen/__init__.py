"""What is in a text that should not travel: secrets, recognised and replaced."""
