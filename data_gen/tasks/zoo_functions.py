"""The zoo: the composition scaffold over seven other domains, as plain Python that is traced.

Every function maps its domain into itself, so that any composition is well typed; numbers stay small by construction.
"""

# --- booleans ---------------------------------------------------------------------------------------------------------


def bool_not(p):
    return not p


def bool_and(p, q):
    return p and q


def bool_or(p, q):
    return p or q


def bool_xor(p, q):
    return p != q


def bool_implies(p, q):
    return not p or q


def bool_nand(p, q):
    return not (p and q)


def bool_nor(p, q):
    return not (p or q)


def bool_majority(p, q, r):
    return p + q + r >= 2


# --- bitwise ----------------------------------------------------------------------------------------------------------


def bits_and(x, m):
    return x & m


def bits_or(x, m):
    return x | m


def bits_xor(x, m):
    return x ^ m


def bits_invert(x):
    return ~x & 255


def bits_shift_left(x, k):
    return (x << k) & 255


def bits_shift_right(x, k):
    return x >> k


def bits_rotate(x):
    return ((x << 1) | (x >> 7)) & 255


def bits_reverse(x):
    result = 0
    for _ in range(8):
        result = (result << 1) | (x & 1)
        x >>= 1
    return result


def bits_clear_lowest(x):
    return x & (x - 1) if x else 0


# --- math -------------------------------------------------------------------------------------------------------------


def math_add(x, k):
    return x + k


def math_subtract(x, k):
    return x - k


def math_double(x):
    return x * 2


def math_negate(x):
    return -x


def math_absolute(x):
    return abs(x)


def math_square_mod(x):
    return (x * x) % 97


def math_halve(x):
    return x // 2


def math_digit_sum(x):
    total = 0
    x = abs(x)
    while x:
        total += x % 10
        x //= 10
    return total


def math_clamp(x, k):
    if x > k:
        return k
    if x < -k:
        return -k
    return x


# --- characters -------------------------------------------------------------------------------------------------------


def char_upper(c):
    return c.upper()


def char_lower(c):
    return c.lower()


def char_swap_case(c):
    return c.swapcase()


def char_next(c):
    if c == "z":
        return "a"
    if c == "Z":
        return "A"
    return chr(ord(c) + 1)


def char_previous(c):
    if c == "a":
        return "z"
    if c == "A":
        return "Z"
    return chr(ord(c) - 1)


def char_mirror(c):
    if c.islower():
        return chr(ord("a") + ord("z") - ord(c))
    return chr(ord("A") + ord("Z") - ord(c))


def char_rot13(c):
    base = ord("a") if c.islower() else ord("A")
    return chr((ord(c) - base + 13) % 26 + base)


def char_maximum(c, d):
    return c if c > d else d


# --- lists ------------------------------------------------------------------------------------------------------------


def list_reverse(xs):
    return xs[::-1]


def list_sort(xs):
    return sorted(xs)


def list_append(xs, k):
    return xs + [k]


def list_rotate(xs):
    return xs[1:] + xs[:1]


def list_increment(xs):
    return [x + 1 for x in xs]


def list_drop_first(xs):
    return xs[1:]


def list_running_sum(xs):
    total = 0
    result = []
    for x in xs:
        total += x
        result.append(total)
    return result


def list_unique(xs):
    result = []
    for x in xs:
        if x not in result:
            result.append(x)
    return result


def list_swap_ends(xs):
    if len(xs) < 2:
        return xs
    return [xs[-1]] + xs[1:-1] + [xs[0]]


# --- sets (of small integers: their repr order does not depend on hash randomisation) ---------------------------------


def set_add(s, k):
    return s | {k}


def set_discard(s, k):
    return s - {k}


def set_toggle(s, k):
    return s ^ {k}


def set_keep_even(s):
    return {x for x in s if x % 2 == 0}


def set_union(s, t):
    return s | t


def set_intersection(s, t):
    return s & t


def set_difference(s, t):
    return s - t


def set_shift(s):
    return {(x + 1) % 10 for x in s}


# --- dicts ------------------------------------------------------------------------------------------------------------


def dict_put(d, k, v):
    result = dict(d)
    result[k] = v
    return result


def dict_remove(d, k):
    return {key: value for key, value in d.items() if key != k}


def dict_increment(d):
    return {key: value + 1 for key, value in d.items()}


def dict_sort(d):
    return dict(sorted(d.items()))


def dict_reverse(d):
    return dict(reversed(list(d.items())))


def dict_keep_large(d, v):
    return {key: value for key, value in d.items() if value > v}


def dict_double(d):
    result = {}
    for key in d:
        result[key] = d[key] * 2
    return result


def dict_merge(d, k):
    result = {k: 0}
    result.update(d)
    return result


def dict_rotate_values(d):
    values = list(d.values())
    return dict(zip(d, values[1:] + values[:1]))
