def mirror_str(s):
    return s + s[::-1]


def main():  # << START_OF_TRACE
    return mirror_str("bead")
