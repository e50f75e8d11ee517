"""Templates of the report: page, style sheet and Markdown."""
