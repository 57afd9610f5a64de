"""Landing pages: the rule table, the extractor that applies it, the recognition of walls. The pipeline fetches them."""
