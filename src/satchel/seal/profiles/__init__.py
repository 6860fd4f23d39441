"""Other people's sealed files, judged by what their signatures really cover."""
