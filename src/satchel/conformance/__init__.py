"""The promises every format keeps, as tests that anyone can run on their own."""
