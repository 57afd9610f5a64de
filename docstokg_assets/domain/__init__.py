"""Rules about scholarly works. Pure: no network, no files, no databases."""
