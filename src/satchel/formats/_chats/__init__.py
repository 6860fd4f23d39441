"""What the readers of conversations share: archives, and conversations with branches."""
