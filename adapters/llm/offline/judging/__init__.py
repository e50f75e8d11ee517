"""How claims are told apart, tied to rows, asked again, and judged."""
