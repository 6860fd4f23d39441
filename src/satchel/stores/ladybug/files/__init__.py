"""The files of a store: who has them, how they are opened, how they are written anew."""
