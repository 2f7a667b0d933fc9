"""Holds when a string operation's pattern counts as cut by tokens, and which uses of patterns a trace shows."""

from remedy.data_gen.execution.program import Program
from remedy.data_gen.execution.tracer import trace
from remedy.eval.costs.split_patterns import Use, discontinuous, uses
from remedy.models.tokenizer import TraceTokenizer
from remedy.models.tokenizer_backends import BytePairs, BytePairSettings
from tests.eval.costs.test_measure import llama3


def test_a_pattern_is_cut_where_a_token_runs_over_its_border() -> None:
    pairs = TraceTokenizer(BytePairSettings(), BytePairs.train(["banana an"] * 9, 300))
    characters = TraceTokenizer(BytePairSettings(string_tokenization="characters"), pairs.backend)
    use = Use("count", "banana", "an")
    assert discontinuous(use, pairs)
    assert not discontinuous(use, characters)
    assert not discontinuous(Use("split", "x,y", ","), pairs)
    assert not discontinuous(Use("count", "x an", "an"), characters)


def test_uses_are_found_where_variables_hold_subject_and_pattern() -> None:
    code = """def f(s, sep, xs):
    parts = s.split(sep)
    if 'a' in s:
        t = s.replace('a', 'b').count('b')
    return sep.join(xs), xs.index('q')
"""
    found = set(uses(trace(Program.from_call(code, "'a-b', '-', ['p', 'q']"))))
    assert found == {
        Use("split", "a-b", "-"),
        Use("in", "a-b", "a"),
        Use("replace", "a-b", "a"),
        Use("join", "p-q", "-"),
    }


def test_llama3_cuts_strings_and_never_makes_text_a_special_token() -> None:
    counter = llama3()
    assert counter.vocab_size == 128256
    ids = counter.string_ids("héllo <|frame_sep|> wörld")
    assert max(ids) < 128000
    assert counter.decode(ids) == "héllo <|frame_sep|> wörld"
    assert discontinuous(Use("count", "banana", "an"), counter)
