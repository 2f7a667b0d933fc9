"""Functions of sequences that do the same, line by line, to strings, lists and tuples: their source is the data.

Slices stand for single items and `+` joins, so that one text means the same for every type and makes the same frames.
"""


def mirror(items):
    result = items
    for i in range(len(items)):
        at = len(items) - 1 - i
        result = result + items[at : at + 1]
    return result


def reverse(items):
    result = items[:0]
    for i in range(len(items)):
        at = len(items) - 1 - i
        result = result + items[at : at + 1]
    return result


def rotate(items, steps):
    for _ in range(steps):
        items = items[1:] + items[:1]
    return items


def repeat(items, times):
    result = items[:0]
    for _ in range(times):
        result = result + items
    return result


def interlace(items, others):
    result = items[:0]
    for i in range(max(len(items), len(others))):
        result = result + items[i : i + 1]
        result = result + others[i : i + 1]
    return result


def filter_out(items, unwanted):
    result = items[:0]
    for i in range(len(items)):
        if items[i : i + 1] != unwanted:
            result = result + items[i : i + 1]
    return result
