"""Links between records: walked in a store, and between drafts that have no ids yet."""
