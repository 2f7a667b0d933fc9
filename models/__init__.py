"""Tokenizers, and a decoder whose only varying part is its sequence mixer.

Importing this package registers the decoder with Transformers' Auto classes.
"""

import os

# Transformers may ask a hub for compute kernels while it is imported; nothing here may depend on that answer.
os.environ.setdefault("USE_HUB_KERNELS", "0")
