def reverse(word):
    result = ""
    for letter in word:
        result = letter + result
    return result


def main():  # << START_OF_TRACE
    return reverse("abc")
