"""Reports: Markdown and one HTML page from records and measurements."""
