def steps(n):
    count = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        count += 1
    return count


def longest(limit):
    best = 1
    most = 0
    for start in range(1, limit):
        count = steps(start)
        if count > most:
            best = start
            most = count
    return best, most


def main():  # << START_OF_TRACE
    best, most = longest(60)
    return f"{best} takes {most} steps"
