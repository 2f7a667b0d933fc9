def initials(name):
    words = [word for word in name.strip().split(" ") if word]
    return ".".join(word[0].upper() for word in words) + f" ({len(words)})"


def main():  # << START_OF_TRACE
    return initials(" ada king lovelace")
