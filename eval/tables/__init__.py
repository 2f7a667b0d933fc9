"""Tables and figures that diagnostics and the report share."""
