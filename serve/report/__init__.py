"""The report of a discovery: a Markdown file and one self-contained HTML page."""

from serve.report.write import ReportPaths, write_report

__all__ = ["ReportPaths", "write_report"]
