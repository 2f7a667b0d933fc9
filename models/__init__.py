"""Tokenizers, and a decoder whose only varying part is its sequence mixer.

Importing this package registers the decoder with Transformers' Auto classes.
"""

import os

# Without it Transformers may download and run kernels of a hub.
os.environ.setdefault("USE_HUB_KERNELS", "0")
