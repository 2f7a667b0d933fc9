def initial(name):
    first, last = name.split(" ")
    return first[0] + ". " + last


def main():  # << START_OF_TRACE
    return initial("Ada Lovelace")
