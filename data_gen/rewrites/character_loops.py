"""String methods as loops over characters: the functions that programs rewritten by `characters` call.

Each returns what the method returns for every argument, the method's own errors included, which is why what is not the plain
case is handed to the method. They are read as source and put into programs: they use builtins only.
"""


def replace_by_character(text, old, new):
    if not (type(text) is type(old) is type(new) is str and old):
        return text.replace(old, new)
    result = ""
    position = 0
    while position < len(text):
        if text[position : position + len(old)] == old:
            result += new
            position += len(old)
        else:
            result += text[position]
            position += 1
    return result


def split_by_character(text, separator):
    if not (type(text) is type(separator) is str and separator):
        return text.split(separator)
    parts = []
    part = ""
    position = 0
    while position < len(text):
        if text[position : position + len(separator)] == separator:
            parts.append(part)
            part = ""
            position += len(separator)
        else:
            part += text[position]
            position += 1
    parts.append(part)
    return parts


def join_by_character(separator, parts):
    if type(separator) is not str:
        return separator.join(parts)
    parts = list(parts)
    result = ""
    for number, part in enumerate(parts):
        if type(part) is not str:
            return separator.join(parts)
        if number > 0:
            result += separator
        for character in part:
            result += character
    return result


def upper_by_character(text):
    if type(text) is not str:
        return text.upper()
    result = ""
    for character in text:
        result += character.upper()
    return result


def lower_by_character(text):
    if not (type(text) is str and text.isascii()):
        return text.lower()
    result = ""
    for character in text:
        result += character.lower()
    return result


def swapcase_by_character(text):
    if not (type(text) is str and text.isascii()):
        return text.swapcase()
    result = ""
    for character in text:
        result += character.swapcase()
    return result


def lstrip_by_character(text, characters):
    if not (type(text) is type(characters) is str):
        return text.lstrip(characters)
    start = 0
    while start < len(text) and text[start] in characters:
        start += 1
    return text[start:]


def rstrip_by_character(text, characters):
    if not (type(text) is type(characters) is str):
        return text.rstrip(characters)
    end = len(text)
    while end > 0 and text[end - 1] in characters:
        end -= 1
    return text[:end]


def strip_by_character(text, characters):
    if not (type(text) is type(characters) is str):
        return text.strip(characters)
    start = 0
    end = len(text)
    while start < end and text[start] in characters:
        start += 1
    while end > start and text[end - 1] in characters:
        end -= 1
    return text[start:end]


def lstrip_spaces_by_character(text):
    if type(text) is not str:
        return text.lstrip()
    start = 0
    while start < len(text) and text[start].isspace():
        start += 1
    return text[start:]


def rstrip_spaces_by_character(text):
    if type(text) is not str:
        return text.rstrip()
    end = len(text)
    while end > 0 and text[end - 1].isspace():
        end -= 1
    return text[:end]


def strip_spaces_by_character(text):
    if type(text) is not str:
        return text.strip()
    start = 0
    end = len(text)
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return text[start:end]


def count_by_character(text, part):
    if not (type(text) is type(part) is str and part):
        return text.count(part)
    count = 0
    position = 0
    while position < len(text):
        if text[position : position + len(part)] == part:
            count += 1
            position += len(part)
        else:
            position += 1
    return count


def find_by_character(text, part):
    if not (type(text) is type(part) is str):
        return text.find(part)
    for position in range(len(text) - len(part) + 1):
        if text[position : position + len(part)] == part:
            return position
    return -1


def startswith_by_character(text, prefix):
    if not (type(text) is type(prefix) is str):
        return text.startswith(prefix)
    if len(prefix) > len(text):
        return False
    for position in range(len(prefix)):
        if text[position] != prefix[position]:
            return False
    return True


def endswith_by_character(text, suffix):
    if not (type(text) is type(suffix) is str):
        return text.endswith(suffix)
    if len(suffix) > len(text):
        return False
    for position in range(1, len(suffix) + 1):
        if text[-position] != suffix[-position]:
            return False
    return True


def isdigit_by_character(text):
    if type(text) is not str:
        return text.isdigit()
    for character in text:
        if not character.isdigit():
            return False
    return len(text) > 0


def isalpha_by_character(text):
    if type(text) is not str:
        return text.isalpha()
    for character in text:
        if not character.isalpha():
            return False
    return len(text) > 0
