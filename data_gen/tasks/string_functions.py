"""The 25 string functions of the composition diagnostic, as plain Python that is traced: their source is the data.

Meanings follow the literature on string composition; every one is deterministic and total on strings.
"""


def deterministic_shuffle(s):
    length = len(s)
    if length == 0:
        return s
    step = 3
    a, b = step, length
    while b:
        a, b = b, a % b
    while a != 1:
        step += 2
        a, b = step, length
        while b:
            a, b = b, a % b
    result = ""
    for i in range(length):
        result += s[(i * step) % length]
    return result


def repeat_str(s, n):
    return s * n


def remove_vowels(s):
    result = ""
    for ch in s:
        if ch not in "aeiouAEIOU":
            result += ch
    return result


def sort_chars(s):
    return "".join(sorted(s))


def reverse_words(s):
    words = s.split()
    return " ".join(words[::-1])


def add_prefix(s, p):
    return p + s


def add_suffix(s, p):
    return s + p


def interlace_str(a, b):
    result = ""
    shorter = min(len(a), len(b))
    for i in range(shorter):
        result += a[i] + b[i]
    return result + a[shorter:] + b[shorter:]


def rotate_str(s, n):
    if not s:
        return s
    n = n % len(s)
    return s[n:] + s[:n]


def mirror_str(s):
    return s + s[::-1]


def alternate_case(s):
    result = ""
    for i in range(len(s)):
        if i % 2 == 0:
            result += s[i].lower()
        else:
            result += s[i].upper()
    return result


def shift_chars(s, k):
    result = ""
    for ch in s:
        if "a" <= ch <= "z":
            result += chr((ord(ch) - ord("a") + k) % 26 + ord("a"))
        elif "A" <= ch <= "Z":
            result += chr((ord(ch) - ord("A") + k) % 26 + ord("A"))
        else:
            result += ch
    return result


def vowel_to_number(s):
    numbers = {"a": "1", "e": "2", "i": "3", "o": "4", "u": "5"}
    result = ""
    for ch in s:
        result += numbers.get(ch.lower(), ch)
    return result


def insert_separator(s, sep):
    return sep.join(s)


def duplicate_every_char(s):
    result = ""
    for ch in s:
        result += ch + ch
    return result


def fancy_brackets(s):
    result = ""
    for ch in s:
        result += "«" + ch + "»"
    return result


def compress_repeats(s):
    result = ""
    for ch in s:
        if not result or result[-1] != ch:
            result += ch
    return result


def recursive_reverse(s):
    if len(s) <= 1:
        return s
    return recursive_reverse(s[1:]) + s[0]


def loop_concat(s, n):
    result = ""
    for _ in range(n):
        result += s
    return result


def while_rotate(s, n):
    count = 0
    while count < n:
        s = s[1:] + s[:1]
        count += 1
    return s


def recursive_interlace(a, b):
    if not a or not b:
        return a + b
    return a[0] + b[0] + recursive_interlace(a[1:], b[1:])


def loop_filter_nonalpha(s):
    result = ""
    for ch in s:
        if ch.isalpha():
            result += ch
    return result


def verify_even_length(s):
    if len(s) % 2 == 1:
        return s[:-1]
    return s


def backchain_add_digit(s, d):
    if any(ch.isdigit() for ch in s):
        return s
    if d == 0:
        return None
    for candidate in (s + "1", "2" + s, s.replace("a", "3"), s[::-1]):
        found = backchain_add_digit(candidate, d - 1)
        if found is not None:
            return found
    return None


def backchain_palindrome(s, d):
    if s == s[::-1] or d == 0:
        return s
    return backchain_palindrome(s + s[::-1], d - 1)
