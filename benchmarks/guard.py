"""What the read-only guard and the tenant filter cost a query.

    python -m benchmarks.guard [--tables 5000] [--repeats 15]

Queries are the kinds that exploration writes: rankings, trends, shares, windows, joins, unions.
Each is taken as the quickest of its repeats, and the figure is the median over queries. The filter
knows the columns of ``--tables`` tables. Prints one JSON document.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from pipeline.sql.guard import DIALECTS, check_read_only
from pipeline.sql.tenant import apply_filter

AT_MOST_MS = 4.0
FIELD, VALUE = "tenant_id", "7"
QUERIES = (
    "SELECT COUNT(*) AS n FROM shop.orders",
    "SELECT channel, COUNT(*) AS n, AVG(amount) AS mean_amount FROM shop.orders "
    "WHERE amount > 0 GROUP BY channel ORDER BY n DESC",
    "SELECT EXTRACT(YEAR FROM ordered_at) AS y, EXTRACT(MONTH FROM ordered_at) AS m, "
    "SUM(amount) AS revenue FROM shop.orders GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT c.country, COUNT(DISTINCT o.customer_id) AS buyers, SUM(o.amount) AS revenue "
    "FROM shop.orders o JOIN shop.customers c ON c.id = o.customer_id "
    "GROUP BY c.country HAVING COUNT(*) >= 30 ORDER BY revenue DESC",
    "SELECT COUNT(*) AS n, SUM(CASE WHEN amount IS NULL THEN 1 ELSE 0 END) AS missing, "
    "100.0 * SUM(CASE WHEN amount IS NULL THEN 1 ELSE 0 END) / COUNT(*) AS share "
    "FROM shop.orders",
    "WITH monthly AS (SELECT channel, EXTRACT(MONTH FROM ordered_at) AS m, SUM(amount) AS revenue "
    "FROM shop.orders GROUP BY 1, 2) SELECT channel, m, revenue, "
    "revenue - LAG(revenue) OVER (PARTITION BY channel ORDER BY m) AS change FROM monthly "
    "ORDER BY channel, m",
    "SELECT * FROM (SELECT customer_id, SUM(amount) AS spent, "
    "ROW_NUMBER() OVER (ORDER BY SUM(amount) DESC) AS place FROM shop.orders "
    "GROUP BY customer_id) ranked WHERE place <= 10",
    "SELECT 'orders' AS source, COUNT(*) AS n FROM shop.orders UNION ALL "
    "SELECT 'customers', COUNT(*) FROM shop.customers UNION ALL "
    "SELECT 'returns', COUNT(*) FROM shop.returned",
    "SELECT COUNT(*) AS orphans FROM shop.orders o LEFT JOIN shop.customers c "
    "ON c.id = o.customer_id WHERE c.id IS NULL",
    "SELECT channel, COUNT(*) AS n FROM shop.orders WHERE customer_id IN "
    "(SELECT id FROM shop.customers WHERE country = 'DE') AND NOT EXISTS "
    "(SELECT 1 FROM shop.returned r WHERE r.order_id = orders.id) GROUP BY channel",
    "SELECT AVG(amount) AS mean, STDDEV(amount) AS spread, MIN(amount) AS low, "
    "MAX(amount) AS high FROM shop.orders WHERE ordered_at >= CAST('2024-01-01' AS DATE)",
    "WITH firsts AS (SELECT customer_id, MIN(ordered_at) AS first_at FROM shop.orders "
    "GROUP BY customer_id), cohorts AS (SELECT EXTRACT(MONTH FROM first_at) AS cohort, "
    "customer_id FROM firsts) SELECT c.cohort, COUNT(DISTINCT c.customer_id) AS customers, "
    "SUM(o.amount) AS revenue FROM cohorts c JOIN shop.orders o ON o.customer_id = c.customer_id "
    "GROUP BY c.cohort ORDER BY c.cohort",
)


def known_columns(tables: int) -> dict[str, list[str]]:
    """Column names of so many tables, among them those of the queries."""
    names = ["shop.orders", "shop.customers", "shop.returned"]
    names += [f"other.table_{n}" for n in range(tables - len(names))]
    columns = [FIELD, "id", "customer_id", "order_id", "amount", "channel", "country", "ordered_at"]
    return dict.fromkeys(names, columns)


def quickest_ms(work: Callable[[], object], repeats: int) -> float:
    """The shortest of several runs: what is left when nothing else wants the processor."""
    best = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best * 1000


def measure(
    dialect: str, columns: Mapping[str, Sequence[str]], repeats: int
) -> dict[str, dict[str, float]]:
    """Milliseconds for the guard alone, and for guard and filter together."""
    guard = [quickest_ms(lambda q=q: check_read_only(q, dialect), repeats) for q in QUERIES]
    both = [
        quickest_ms(lambda q=q: apply_filter(q, dialect, FIELD, VALUE, columns=columns), repeats)
        for q in QUERIES
    ]
    return {"guard": _told(guard), "guard_and_filter": _told(both)}


def _told(times: Sequence[float]) -> dict[str, float]:
    return {"median_ms": round(statistics.median(times), 3), "most_ms": round(max(times), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=5_000)
    parser.add_argument("--repeats", type=int, default=15)
    asked = parser.parse_args()
    columns = known_columns(asked.tables)
    by_dialect = {dialect: measure(dialect, columns, asked.repeats) for dialect in DIALECTS}
    medians = [found["guard_and_filter"]["median_ms"] for found in by_dialect.values()]
    document = {
        "queries": len(QUERIES),
        "tables": asked.tables,
        "guard_and_filter_median_ms": {"worst_dialect": max(medians), "at_most": AT_MOST_MS},
        "dialects": by_dialect,
    }
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
