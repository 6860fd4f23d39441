"""What an operator does with whole stores: migrating, following, working with a provider."""
