"""Which columns of two datasources identify the same things: declared, measured, and told."""
