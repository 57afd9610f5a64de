"""Landing pages: a page read once, the rules for it, the judging of other links, the recognition of walls. The pipeline fetches them."""
