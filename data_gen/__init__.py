"""What happened when a program ran, and how it is written down. Knows nothing of models; imports no torch."""
