"""Does it still fail? Forced decoding, diagnostics, attribution, statistics, report. Never imports train."""
