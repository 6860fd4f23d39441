"""Records of one input that speak of each other before they have ids."""
