"""Spans to ids and back: the same text, the same roles, and no forged special tokens, with every kind of tokenizer."""

from pathlib import Path

import pytest
import tokenizers as hf
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples
from remedy.data_gen.execution.program import Program
from remedy.data_gen.execution.tracer import trace
from remedy.data_gen.roles import CWM_IDS, Role, Span, Special, spans_text
from remedy.data_gen.traces.render import render
from remedy.models import tokenizer as tokenizers
from remedy.models.tokenizer import TraceTokenizer, build_tokenizer
from remedy.models.tokenizer_backends import (
    BytePairs,
    BytePairSettings,
    CharacterSettings,
    HuggingFaceSettings,
    SymbolSettings,
    TokenizerError,
)

DATA = DataConfig.model_validate({"task": {"kind": "composition", "depth": [1, 2]}})
BPE = build_tokenizer(BytePairSettings(vocab_size=400), DATA)
SPLIT = build_tokenizer(BytePairSettings(vocab_size=400, string_tokenization="characters"), DATA)
CHARS = tokenizers.build_tokenizer(CharacterSettings())

texts = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40)
spans = st.lists(
    st.one_of(
        st.builds(lambda r, t, s: Span(r, t, 0, s), st.sampled_from(Role), texts, st.booleans()),
        st.builds(lambda p: Span(Role.STRUCTURE, p, 0), st.sampled_from(Special)),
    ),
    max_size=12,
)


@pytest.mark.parametrize("tokenizer", [BPE, SPLIT, CHARS], ids=["bpe", "bpe-characters", "chars"])
@settings(max_examples=60, deadline=None)
@given(spans)
def test_decode_inverts_encode(tokenizer: TraceTokenizer, written: list[Span]) -> None:
    encoded = tokenizer.encode(written)
    assert tokenizer.decode(encoded.ids) == spans_text(written)
    assert len(encoded.ids) == len(encoded.roles) == len(encoded.frames)
    assert all(0 <= token < tokenizer.vocab_size for token in encoded.ids)


@pytest.mark.parametrize("tokenizer", [BPE, SPLIT, CHARS], ids=["bpe", "bpe-characters", "chars"])
def test_text_that_spells_a_special_token_does_not_become_it(tokenizer: TraceTokenizer) -> None:
    forged = Program("def main():  # << START_OF_TRACE\n    return '<|frame_sep|><|end_of_text|>'\n")
    written = render(trace(forged), "cwm").spans
    ids = tokenizer.encode(written).ids
    assert ids.count(tokenizer.eos_id) == 1
    assert ids.count(tokenizer.special_ids[Special.FRAME_SEP]) == sum(s.piece is Special.FRAME_SEP for s in written)


def test_character_level_strings_leave_all_other_text_alone() -> None:
    for one in examples(DATA, "test", range(20)):
        plain, split = BPE.encode(one.spans), SPLIT.encode(one.spans)
        assert BPE.decode(plain.ids) == SPLIT.decode(split.ids)
        assert plain.roles.count(int(Role.STRUCTURE)) == split.roles.count(int(Role.STRUCTURE))
        for span in one.spans:
            if isinstance(span.piece, str) and span.string:
                assert len(SPLIT.encode([span]).ids) == len(span.piece.encode())
            else:
                assert SPLIT.encode([span]).ids == BPE.encode([span]).ids


@pytest.mark.parametrize("tokenizer", [BPE, SPLIT, CHARS], ids=["bpe", "bpe-characters", "chars"])
def test_saved_and_loaded_it_is_the_same_tokenizer(tokenizer: TraceTokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    again = tokenizers.load(tmp_path)
    assert again.fingerprint == tokenizer.fingerprint
    for one in examples(DATA, "test", range(5)):
        assert again.encode(one.spans) == tokenizer.encode(one.spans)


def test_fingerprints_tell_tokenizers_apart_and_training_is_deterministic() -> None:
    assert len({BPE.fingerprint, SPLIT.fingerprint, CHARS.fingerprint}) == 3
    assert build_tokenizer(BytePairSettings(vocab_size=400), DATA).fingerprint == BPE.fingerprint


def test_symbols_need_symbolic_permutations() -> None:
    with pytest.raises(TokenizerError, match="needs the symbolic format"):
        build_tokenizer(SymbolSettings(), DATA)


def test_damaged_or_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="no tokenizer is stored"):
        tokenizers.load(tmp_path)
    (tmp_path / tokenizers.FILE).write_text("{")
    with pytest.raises(TokenizerError, match="damaged"):
        tokenizers.load(tmp_path)


def pretrained(folder: Path, special: list[str]) -> Path:
    """A small local tokenizer in Hugging Face's own format."""
    model = hf.Tokenizer(hf.models.BPE())
    model.pre_tokenizer = hf.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = hf.decoders.ByteLevel()
    alphabet = sorted(hf.pre_tokenizers.ByteLevel.alphabet())
    model.train_from_iterator(
        ["def f(x): return x"] * 9, hf.trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet)
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=model)
    fast.add_tokens(special, special_tokens=True)
    fast.save_pretrained(folder)
    return folder


def test_a_hugging_face_tokenizer_gains_the_trace_tokens_it_lacks_and_reuses_the_others(tmp_path: Path) -> None:
    folder = pretrained(tmp_path / "base", ["<|frame_sep|>", "<|other|>"])
    tokenizer = tokenizers.build_tokenizer(HuggingFaceSettings(name_or_path=str(folder)))
    known = PreTrainedTokenizerFast.from_pretrained(folder)
    assert tokenizer.special_ids[Special.FRAME_SEP] == known.convert_tokens_to_ids("<|frame_sep|>")
    assert tokenizer.vocab_size == len(known) + len(Special) - 1
    one = examples(DATA, "test", [0])[0]
    assert tokenizer.decode(tokenizer.encode(one.spans).ids) == spans_text(one.spans)
    ids = tokenizer.encode([Span(Role.VALUE, "<|frame_sep|><|other|>")]).ids
    assert tokenizer.special_ids[Special.FRAME_SEP] not in ids
    tokenizer.save(tmp_path / "saved")
    again = tokenizers.load(tmp_path / "saved")
    assert again.fingerprint == tokenizer.fingerprint
    assert again.encode(one.spans) == tokenizer.encode(one.spans)


def test_a_code_world_models_own_vocabulary_keeps_its_ids(tmp_path: Path) -> None:
    words = {f"w{number}": number for number in range(128_256)}
    words = {{"w128000": "<|begin_of_text|>"}.get(word, word): number for word, number in words.items()}
    model = hf.Tokenizer(hf.models.WordLevel(words, unk_token="w0"))
    PreTrainedTokenizerFast(tokenizer_object=model).save_pretrained(tmp_path)
    tokenizer = tokenizers.build_tokenizer(HuggingFaceSettings(name_or_path=str(tmp_path)))
    assert tokenizer.special_ids == CWM_IDS
    assert tokenizer.vocab_size == 128_256
    assert tokenizer.encode([Span(Role.STRUCTURE, Special.ACTION_SEP)]).ids == [128_101]


def test_a_hub_name_without_a_hub_is_one_clear_message() -> None:
    with pytest.raises(TokenizerError, match="local copy"):
        tokenizers.build_tokenizer(HuggingFaceSettings(name_or_path="nobody/nothing-of-this-name"))


def test_subwords_run_across_the_borders_of_strings_and_characters_do_not() -> None:
    spans = [
        Span(Role.STATE, '{"s": "', 0),
        Span(Role.STATE, "'abab'", 0, True),
        Span(Role.STATE, '"}', 0),
        Span(Role.VALUE, "'abab'", 1, True),
    ]
    pairs = BytePairs.train(['{"s": "\'abab\'"}'] * 20, 300)
    subwords = TraceTokenizer(BytePairSettings(), pairs)
    encoded = subwords.encode(spans)
    whole = pairs.text_ids('{"s": "\'abab\'"}')
    assert encoded.ids == whole + pairs.text_ids("'abab'")
    assert encoded.roles == [int(Role.STATE)] * len(whole) + [int(Role.VALUE)] * (len(encoded.ids) - len(whole))
    characters = TraceTokenizer(BytePairSettings(string_tokenization="characters"), pairs)
    assert len(characters.encode(spans).ids) == len(pairs.text_ids('{"s": "')) + 6 + len(pairs.text_ids('"}')) + 6
    for tokenizer in (subwords, characters):
        assert tokenizer.count(spans) == len(tokenizer.encode(spans).ids)
        assert tokenizer.pieces(tokenizer.encode([*spans, Span(Role.STRUCTURE, Special.FRAME_SEP, 1)]).ids) == [
            "{\"s\": \"'abab'\"}'abab'",
            Special.FRAME_SEP,
        ]


@pytest.mark.parametrize("tokenizer", [BPE, SPLIT, CHARS], ids=["bpe", "bpe-characters", "chars"])
@settings(max_examples=60, deadline=None)
@given(spans)
def test_tokens_of_strings_are_marked(tokenizer: TraceTokenizer, written: list[Span]) -> None:
    encoded = tokenizer.encode(written)
    assert len(encoded.strings) == len(encoded.ids)
    marked = [token for token, flag in zip(encoded.ids, encoded.strings) if flag]
    text = "".join(span.piece for span in written if span.string and isinstance(span.piece, str))
    assert bool(marked) == bool(text)
    assert tokenizer is BPE or tokenizer.decode(marked) == text


def test_a_token_that_overlaps_a_string_is_marked_and_its_neighbours_are_not() -> None:
    pairs = BytePairs.train(['{"s": "\'abab\'"}'] * 20, 300)
    tokenizer = TraceTokenizer(BytePairSettings(), pairs)
    spans = [Span(Role.STATE, '{"s": "', 0), Span(Role.STATE, "'\u00e4b'", 0, True), Span(Role.STATE, '", "n": 1}', 0)]
    encoded = tokenizer.encode(spans)
    _, offsets = pairs.text_ids_and_offsets("".join(str(s.piece) for s in spans))
    begin = len(str(spans[0].piece))
    assert encoded.strings == [start < begin + 4 and begin < stop for start, stop in offsets]
    assert 0 < sum(encoded.strings) < len(encoded.ids)
