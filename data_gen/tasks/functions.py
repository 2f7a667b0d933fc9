"""Functions that compositions call, by family, as source text.

A function has no `def`; an expression after its head is its result. The first parameter is of the family, as is the result.
The others say how they are drawn: `1..4` a number, `word 1..3` a text of so many letters, or a name in `families.DRAWS`.
Sets hold small integers, whose order does not depend on hash randomisation.

Those of strings are from the literature. Those of sequences have the same frames for strings, lists and tuples.
"""

STRINGS = """
deterministic_shuffle(s):
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
repeat_str(s, n: 2..3): s * n
remove_vowels(s):
    result = ""
    for ch in s:
        if ch not in "aeiouAEIOU":
            result += ch
    return result
sort_chars(s): "".join(sorted(s))
reverse_words(s):
    words = s.split()
    return " ".join(words[::-1])
add_prefix(s, p: word 1..3): p + s
add_suffix(s, p: word 1..3): s + p
interlace_str(a, b: word 2..4):
    result = ""
    shorter = min(len(a), len(b))
    for i in range(shorter):
        result += a[i] + b[i]
    return result + a[shorter:] + b[shorter:]
rotate_str(s, n: 1..4):
    if not s:
        return s
    n = n % len(s)
    return s[n:] + s[:n]
mirror_str(s): s + s[::-1]
alternate_case(s):
    result = ""
    for i in range(len(s)):
        if i % 2 == 0:
            result += s[i].lower()
        else:
            result += s[i].upper()
    return result
shift_chars(s, k: 1..5):
    result = ""
    for ch in s:
        if "a" <= ch <= "z":
            result += chr((ord(ch) - ord("a") + k) % 26 + ord("a"))
        elif "A" <= ch <= "Z":
            result += chr((ord(ch) - ord("A") + k) % 26 + ord("A"))
        else:
            result += ch
    return result
vowel_to_number(s):
    numbers = {"a": "1", "e": "2", "i": "3", "o": "4", "u": "5"}
    result = ""
    for ch in s:
        result += numbers.get(ch.lower(), ch)
    return result
insert_separator(s, sep: separator): sep.join(s)
duplicate_every_char(s):
    result = ""
    for ch in s:
        result += ch + ch
    return result
fancy_brackets(s):
    result = ""
    for ch in s:
        result += "«" + ch + "»"
    return result
compress_repeats(s):
    result = ""
    for ch in s:
        if not result or result[-1] != ch:
            result += ch
    return result
recursive_reverse(s):
    if len(s) <= 1:
        return s
    return recursive_reverse(s[1:]) + s[0]
loop_concat(s, n: 2..3):
    result = ""
    for _ in range(n):
        result += s
    return result
while_rotate(s, n: 1..4):
    count = 0
    while count < n:
        s = s[1:] + s[:1]
        count += 1
    return s
recursive_interlace(a, b: word 2..4):
    if not a or not b:
        return a + b
    return a[0] + b[0] + recursive_interlace(a[1:], b[1:])
loop_filter_nonalpha(s):
    result = ""
    for ch in s:
        if ch.isalpha():
            result += ch
    return result
verify_even_length(s):
    if len(s) % 2 == 1:
        return s[:-1]
    return s
backchain_add_digit(s, d: 1..3):
    if any(ch.isdigit() for ch in s):
        return s
    if d == 0:
        return None
    for candidate in (s + "1", "2" + s, s.replace("a", "3"), s[::-1]):
        found = backchain_add_digit(candidate, d - 1)
        if found is not None:
            return found
    return None
backchain_palindrome(s, d: 1..2):
    if s == s[::-1] or d == 0:
        return s
    return backchain_palindrome(s + s[::-1], d - 1)
"""

STRING_OPERATIONS = """
reverse(s): s[::-1]
drop_first(s): s[1:]
drop_last(s): s[:-1]
concat(s, other: input): s + other
replace(s, old: input letter, new: alphabet letter): s.replace(old, new)
remove(s, old: input letter): s.replace(old, "")
upper(s): s.upper()
repeat(s): s * 2
"""

BOOLEANS = """
bool_not(p): not p
bool_and(p, q: boolean): p and q
bool_or(p, q: boolean): p or q
bool_xor(p, q: boolean): p != q
bool_implies(p, q: boolean): not p or q
bool_nand(p, q: boolean): not (p and q)
bool_nor(p, q: boolean): not (p or q)
bool_majority(p, q: boolean, r: boolean): p + q + r >= 2
"""

BITWISE = """
bits_and(x, m: 0..255): x & m
bits_or(x, m: 0..255): x | m
bits_xor(x, m: 0..255): x ^ m
bits_invert(x): ~x & 255
bits_shift_left(x, k: 1..3): (x << k) & 255
bits_shift_right(x, k: 1..3): x >> k
bits_rotate(x): ((x << 1) | (x >> 7)) & 255
bits_reverse(x):
    result = 0
    for _ in range(8):
        result = (result << 1) | (x & 1)
        x >>= 1
    return result
bits_clear_lowest(x): x & (x - 1) if x else 0
"""

MATH = """
math_add(x, k: 1..20): x + k
math_subtract(x, k: 1..20): x - k
math_double(x): x * 2
math_negate(x): -x
math_absolute(x): abs(x)
math_square_mod(x): (x * x) % 97
math_halve(x): x // 2
math_digit_sum(x):
    total = 0
    x = abs(x)
    while x:
        total += x % 10
        x //= 10
    return total
math_clamp(x, k: 10..60):
    if x > k:
        return k
    if x < -k:
        return -k
    return x
"""

CHARACTERS = """
char_upper(c): c.upper()
char_lower(c): c.lower()
char_swap_case(c): c.swapcase()
char_next(c):
    if c == "z":
        return "a"
    if c == "Z":
        return "A"
    return chr(ord(c) + 1)
char_previous(c):
    if c == "a":
        return "z"
    if c == "A":
        return "Z"
    return chr(ord(c) - 1)
char_mirror(c):
    if c.islower():
        return chr(ord("a") + ord("z") - ord(c))
    return chr(ord("A") + ord("Z") - ord(c))
char_rot13(c):
    base = ord("a") if c.islower() else ord("A")
    return chr((ord(c) - base + 13) % 26 + base)
char_maximum(c, d: either_case): c if c > d else d
"""

LISTS = """
list_reverse(xs): xs[::-1]
list_sort(xs): sorted(xs)
list_append(xs, k: 0..9): xs + [k]
list_rotate(xs): xs[1:] + xs[:1]
list_increment(xs): [x + 1 for x in xs]
list_drop_first(xs): xs[1:]
list_running_sum(xs):
    total = 0
    result = []
    for x in xs:
        total += x
        result.append(total)
    return result
list_unique(xs):
    result = []
    for x in xs:
        if x not in result:
            result.append(x)
    return result
list_swap_ends(xs):
    if len(xs) < 2:
        return xs
    return [xs[-1]] + xs[1:-1] + [xs[0]]
"""

SETS = """
set_add(s, k: 0..9): s | {k}
set_discard(s, k: 0..9): s - {k}
set_toggle(s, k: 0..9): s ^ {k}
set_keep_even(s): {x for x in s if x % 2 == 0}
set_union(s, t: small_set): s | t
set_intersection(s, t: small_set): s & t
set_difference(s, t: small_set): s - t
set_shift(s): {(x + 1) % 10 for x in s}
"""

DICTS = """
dict_put(d, k: letter, v: 0..9):
    result = dict(d)
    result[k] = v
    return result
dict_remove(d, k: letter): {key: value for key, value in d.items() if key != k}
dict_increment(d): {key: value + 1 for key, value in d.items()}
dict_sort(d): dict(sorted(d.items()))
dict_reverse(d): dict(reversed(list(d.items())))
dict_keep_large(d, v: 0..9): {key: value for key, value in d.items() if value > v}
dict_double(d):
    result = {}
    for key in d:
        result[key] = d[key] * 2
    return result
dict_merge(d, k: letter):
    result = {k: 0}
    result.update(d)
    return result
dict_rotate_values(d):
    values = list(d.values())
    return dict(zip(d, values[1:] + values[:1]))
"""

SEQUENCES = """
mirror(items):
    result = items
    for i in range(len(items)):
        at = len(items) - 1 - i
        result = result + items[at : at + 1]
    return result
reverse(items):
    result = items[:0]
    for i in range(len(items)):
        at = len(items) - 1 - i
        result = result + items[at : at + 1]
    return result
rotate(items, steps: 1..4):
    for _ in range(steps):
        items = items[1:] + items[:1]
    return items
repeat(items, times: 2..3):
    result = items[:0]
    for _ in range(times):
        result = result + items
    return result
interlace(items, others: word 2..4):
    result = items[:0]
    for i in range(max(len(items), len(others))):
        result = result + items[i : i + 1]
        result = result + others[i : i + 1]
    return result
filter_out(items, unwanted: word 1..1):
    result = items[:0]
    for i in range(len(items)):
        if items[i : i + 1] != unwanted:
            result = result + items[i : i + 1]
    return result
"""
