"""A string encoding of your own: bytes in hexadecimal.

How to add: write a function from a string to the string or list that a trace shows in its place, another one for
every string. Register it, give this file by `--plugin`, and name it in `data.string_encoding`.
"""

from remedy.data_gen.traces.string_encodings import ENCODINGS


@ENCODINGS.register("hexadecimal")
def hexadecimal(text: str) -> str:
    """Write 'abc' as '616263'."""
    return text.encode("utf-8", "surrogatepass").hex()
