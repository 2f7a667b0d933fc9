"""Reports on records and measurements, as Markdown and HTML."""
