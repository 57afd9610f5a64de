"""Landing pages: parsing, the rule table, scoring of other links, wall detection. Fetches nothing."""
