"""Whether memory stays where it is put: attacks, and a judge that does not know the encoder."""
