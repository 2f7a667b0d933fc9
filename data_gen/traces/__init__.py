"""The writing of traces as text, and its reading."""
