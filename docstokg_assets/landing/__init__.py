"""Landing pages: a page read once, rules for it, the judging of other links, walls. The pipeline fetches."""
