"""Facts that speak of each other: what is alike, what contradicts, what took another's place."""
