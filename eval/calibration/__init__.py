"""Calibration: signals of doubt, the hazard of a first error, and the frame up to which a trace is believed."""
