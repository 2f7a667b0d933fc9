"""Programs that people wrote: modules of the standard library that are written in Python, each with an entry that calls it."""

from __future__ import annotations

import importlib
import inspect

from remedy.data_gen.execution.program import MARKER, Program

CALLS = {
    "_pydecimal": ["Decimal('1.10') / 3", "Decimal('nan') > 1", "Decimal(2).sqrt()"],
    "base64": ["b32encode(b'abc')", "a85encode(b'hello', wrapcol=4)", "b85decode(b'Xk~0{Zv')"],
    "bisect": ["bisect_right([1, 2, 2, 3], 2, key=lambda x: x)", "insort_left([1, 3, 5], 4)"],
    "calendar": ["TextCalendar().formatweek([(1, 0), (2, 1)], 3)", "leapdays(1990, 2020)", "monthrange(2024, 2)"],
    "collections.abc": ["Sequence.index.__get__(range(3))(2)"],
    "colorsys": ["hsv_to_rgb(0.5, 0.5, 0.4)", "rgb_to_hls(0.2, 0.4, 0.4)"],
    "contextlib": ["ExitStack().__enter__().close()", "suppress(ValueError).__exit__(ValueError, ValueError(), None)"],
    "copy": ["copy([1, 2])", "deepcopy({'a': [1, (2, {3})]})"],
    "dataclasses": ["asdict(make_dataclass('D', [('x', int, 1)])(2))", "fields(make_dataclass('D', ['x']))[0].name"],
    "datetime": ["date(2024, 2, 29).isocalendar()", "datetime.fromisoformat('2024-01-02T03:04').weekday()", "timedelta(1)"],
    "difflib": ["get_close_matches('appel', ['ape', 'apple', 'peach'])", "list(ndiff(['a', 'b'], ['a', 'c']))"],
    # Not enum, which walks a set of classes: its order is that of their addresses.
    "fnmatch": ["filter(['a.py', 'b.txt', 'c.py'], '*.py')", "translate('[!a-c]?*.x')"],
    "fractions": ["Fraction('3/6') + Fraction(1, 3)", "Fraction(0.25).limit_denominator(10)", "Fraction(1, 0)"],
    "functools": ["cmp_to_key(lambda a, b: a - b)(1) < cmp_to_key(lambda a, b: b)(2)", "lru_cache(2)(len)('a')"],
    "graphlib": ["TopologicalSorter({'a': {'b'}, 'b': {'a'}}).prepare()", "list(TopologicalSorter({2: {1}, 3: {2}}).static_order())"],
    "heapq": ["list(merge([1, 4], [2, 3], key=lambda x: x))", "nsmallest(3, [5, 1, 4, 2, 3], key=lambda x: -x)"],
    "html.parser": ["HTMLParser(convert_charrefs=False).feed('<a href=\"x\">t&amp;<br/></a>')"],
    "json.decoder": ["JSONDecoder().decode('[1, {\"a\": null}]')", "JSONDecoder().decode('{')", "py_scanstring('abc\"', 0)"],
    "json.encoder": ["JSONEncoder(indent=1).encode([1, {'a': None}])", "py_encode_basestring('é')"],
    "keyword": ["iskeyword('if')"],
    "numbers": ["isinstance(1, Integral)"],
    "operator": ["attrgetter('real')(3)", "concat('a', 'b')", "itemgetter(1, 2)('abc')", "methodcaller('upper')('a')"],
    "posixpath": ["commonpath(['/a/b', '/a/c'])", "normpath('/a/./b/../c')", "relpath('/a/b', '/a/c')", "splitext('x.tar.gz')"],
    "pprint": ["pformat({'a': [1, 2, {'b': (3,)}]}, width=12)"],
    "quopri": ["decodestring(b'a=3Db')", "encodestring(b'a=b c')"],
    "random": ["Random(1).gauss(0, 1)", "Random(3).sample(range(9), 3)"],
    "reprlib": ["Repr().repr({'a': 'x' * 50})", "repr(list(range(20)))"],
    "sched": ["scheduler(lambda: 0, lambda s: None).run()"],
    "shlex": ["list(shlex('a=1;b'))", "quote('it is')", "split('a \"b c\" d # e', comments=True)", "split('\"')"],
    "statistics": ["mean([])", "mean([1, 2, 4])", "median([3, 1, 2])", "stdev([1.5, 2.5, 4.0])"],
    "string": ["Formatter().format('{0:>{w}} {x!r}', 1, w=4, x='y')", "Template('$a ${b} $$').substitute(a=1, b=2)", "capwords('a')"],
    "textwrap": ["dedent('  a\\n    b\\n')", "fill('the quick fox ' * 6, 30)", "shorten('a b c d e f', 8)"],
    "urllib.parse": ["unquote('%41%zz')", "urlencode({'a': 'b c'})", "urlsplit('http://u@h:8/p?q#f')"],
}  # fmt: skip


def library_programs() -> list[Program]:
    """A program for each call: the module's own source, and a `main` that calls it."""
    return [
        Program(f"{source(name)}\n\ndef main():  {MARKER}\n    result = {call}\n    return result\n", f"{name}: {call}")
        for name, calls in CALLS.items()
        for call in calls
    ]


def source(name: str) -> str:
    """The module's text; what it imports from its own package is named in full."""
    module = importlib.import_module(name)
    return inspect.getsource(module).replace("from . import", f"from {module.__package__} import")
