def total(text):
    result = 0
    for letter in text:
        result += int(letter)
    return result


def main():  # << START_OF_TRACE
    text = "4x"
    try:
        return total(text)
    except ValueError:
        return -1
