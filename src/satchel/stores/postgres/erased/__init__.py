"""What a server still has of what was erased: writing its files anew, and looking at them."""
