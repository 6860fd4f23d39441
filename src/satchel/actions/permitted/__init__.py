"""Who may do what: the one place where every action asks."""
