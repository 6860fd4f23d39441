"""Ways to tell a listener what happened."""
