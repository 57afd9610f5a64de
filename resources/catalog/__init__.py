"""The catalog of everything that is known and was done, with its queue of works."""
