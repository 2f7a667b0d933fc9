"""Tables and figures of diagnostics and reports."""
