"""From digests of query results to findings with exact figures."""
