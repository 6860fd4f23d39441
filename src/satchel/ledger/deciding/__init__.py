"""What several owners decide about the keys of their bank."""
