"""Files of amplihack's agents, out of banks and into them."""
