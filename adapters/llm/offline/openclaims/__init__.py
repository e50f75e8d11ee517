"""Claims that cite no step: read as a question to the schema, asked, and judged."""
