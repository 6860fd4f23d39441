"""What those who serve a store need of each other."""
