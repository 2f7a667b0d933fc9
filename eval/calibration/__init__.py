"""Where to stop believing a trace: signals of doubt, the hazard of a first error, and how far a trace is believed."""
