"""Spans to ids and back: the same text, the same roles, and no forged special tokens, with every kind of tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers as hf
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

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
    TokenizerError,
)
from tests.tiny_models import bpe

DATA = DataConfig.model_validate({"task": {"kind": "composition", "depth": [1, 2]}})
BPE, SPLIT, FILLED = bpe(), bpe(string_tokenization="characters"), bpe(string_tokenization="filled")
CHARS = tokenizers.build_tokenizer(CharacterSettings())
KINDS = pytest.mark.parametrize("tokenizer", [BPE, SPLIT, FILLED, CHARS], ids=["bpe", "characters", "filled", "chars"])

texts = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40)
ascii_texts = st.text(alphabet=st.characters(max_codepoint=127), max_size=30)
spans = st.lists(
    st.one_of(
        st.builds(lambda r, t, s: Span(r, t, 0, s), st.sampled_from(Role), texts, st.booleans()),
        st.builds(lambda p: Span(Role.STRUCTURE, p, 0), st.sampled_from(Special)),
    ),
    max_size=12,
)


@KINDS
@settings(max_examples=60, deadline=None)
@given(spans)
def test_decode_inverts_encode(tokenizer: TraceTokenizer, written: list[Span]) -> None:
    encoded = tokenizer.encode(written)
    assert tokenizer.decode(encoded.ids) == spans_text(written)
    assert len(encoded.ids) == len(encoded.roles) == len(encoded.frames)
    assert all(0 <= token < tokenizer.vocab_size for token in encoded.ids)


@KINDS
def test_an_id_that_there_is_not_is_refused(tokenizer: TraceTokenizer) -> None:
    for token in (-1, tokenizer.vocab_size, 10**30):
        with pytest.raises(TokenizerError, match="are not all of a vocabulary"):
            tokenizer.decode([tokenizer.bos_id, token])


@KINDS
def test_text_that_spells_a_special_token_does_not_become_it(tokenizer: TraceTokenizer) -> None:
    forged = Program("def main():  # << START_OF_TRACE\n    return '<|frame_sep|><|end_of_text|>'\n")
    written = render(trace(forged), "cwm").spans
    ids = tokenizer.encode(written).ids
    assert ids.count(tokenizer.eos_id) == 1
    assert ids.count(tokenizer.special_ids[Special.FRAME_SEP]) == sum(s.piece is Special.FRAME_SEP for s in written)


@KINDS
def test_saved_and_loaded_it_is_the_same_tokenizer(tokenizer: TraceTokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    again = tokenizers.load(tmp_path)
    assert again.fingerprint == tokenizer.fingerprint
    for one in examples(DATA, "test", range(5)):
        assert again.encode(one.spans) == tokenizer.encode(one.spans)


def pretrained(
    folder: Path, special: list[str], change: Callable[[hf.Tokenizer], None] | None = None, **roles: str
) -> Path:
    """A small local tokenizer in Hugging Face's own format; `roles`: its tokens that begin, end and pad."""
    model = hf.Tokenizer(hf.models.BPE())
    model.pre_tokenizer = hf.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = hf.decoders.ByteLevel()
    alphabet = sorted(hf.pre_tokenizers.ByteLevel.alphabet())
    model.train_from_iterator(
        ["def f(x): return x"] * 9, hf.trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet)
    )
    if change is not None:
        change(model)
    fast = PreTrainedTokenizerFast(tokenizer_object=model, **roles)
    fast.add_tokens(special, special_tokens=True)
    fast.save_pretrained(folder)
    return folder


def write_llama(tied: bool, folder: Path, hidden_size: int = 16, **roles: str) -> int:
    """A small model with such a tokenizer, which never saw a trace; returns its tokens."""
    words = len(AutoTokenizer.from_pretrained(pretrained(folder, [], **roles)))
    torch.manual_seed(0)
    sizes = {"hidden_size": hidden_size, "intermediate_size": 2 * hidden_size, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=words, tie_word_embeddings=tied, num_hidden_layers=1, **sizes)  # type: ignore[arg-type]
    LlamaForCausalLM(config).save_pretrained(folder)
    return words


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


def with_normalizer(normalizer: Any) -> Callable[[hf.Tokenizer], None]:
    return lambda model: setattr(model, "normalizer", normalizer)


def prefixed(model: hf.Tokenizer) -> None:
    model.pre_tokenizer = hf.pre_tokenizers.ByteLevel(add_prefix_space=True)


CODE = "def f(x):\n    return (x, 1)\n"
ODD = "def f(x):\n    return 'e\u0301 \ufb01', X\n"
LOSSY: dict[str, tuple[Callable[[hf.Tokenizer], None], list[str], str]] = {
    "NFKC": (with_normalizer(hf.normalizers.NFKC()), [CODE, ODD], r".*\ufb01.* comes back as .*\u00e9 fi"),
    "a space in front": (prefixed, [CODE], r"'def f\(x\).* comes back as ' def f\(x\)"),
}


@pytest.mark.parametrize("kind", LOSSY)
def test_a_tokenizer_that_does_not_give_text_back_is_refused_with_what_is_lost(kind: str, tmp_path: Path) -> None:
    change, pieces, says = LOSSY[kind]
    tokenizer = build_tokenizer(HuggingFaceSettings(name_or_path=str(pretrained(tmp_path, ["?"], change))))
    written = [Span(Role.ACTION, piece, 0) for piece in pieces]
    if kind == "NFKC":
        assert tokenizer.decode(tokenizer.encode(written[:1]).ids) == pieces[0], "what it keeps it may read"
    with pytest.raises(TokenizerError, match=f"^tokenizer {tmp_path} does not give text back as it is: {says}"):
        tokenizer.encode(written)


@pytest.mark.parametrize(
    ("roles", "begins"),
    [
        ({"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}, "<|endoftext|>"),
        ({"bos_token": "<|end_of_text|>", "eos_token": "<|end_of_text|>"}, "<|begin_of_text|>"),
    ],
)
def test_a_trace_begins_with_the_tokenizers_own_token_and_what_is_saved_ends_as_traces_do(
    roles: dict[str, str], begins: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = pretrained(tmp_path / "base", [], **roles)
    caplog.set_level("INFO")
    tokenizer = build_tokenizer(HuggingFaceSettings(name_or_path=str(folder)))
    own = [f"tokenizer {folder}: traces begin with its own {begins}"] if begins in roles.values() else []
    assert caplog.messages == own
    tokenizer.save(tmp_path / "saved")
    assert tokenizers.load(tmp_path / "saved").special_ids == tokenizer.special_ids
    saved = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert (saved.bos_token, saved.eos_token, saved.pad_token) == (begins, "<|end_of_text|>", "<|pad|>")
    assert (saved.bos_token_id, saved.eos_token_id) == (tokenizer.bos_id, tokenizer.eos_id)
    assert len(set(tokenizer.special_ids.values())) == len(Special)
    assert (tokenizer.bos_id in tokenizer.new_ids) == (not own)


@pytest.mark.parametrize("tokenizer", [BPE, CHARS], ids=["bpe", "chars"])
def test_a_vocabulary_made_here_is_read_by_transformers_as_the_same(tokenizer: TraceTokenizer, tmp_path: Path) -> None:
    tokenizer.publish(tmp_path)
    published = AutoTokenizer.from_pretrained(tmp_path)
    assert (published.bos_token_id, published.eos_token_id, published.pad_token_id) == (
        tokenizer.bos_id,
        tokenizer.eos_id,
        tokenizer.pad_id,
    )
    texts = [spans_text(one.spans) for one in examples(DATA, "test", range(5))]
    for text, one in zip(texts, examples(DATA, "test", range(5))):
        assert published(text)["input_ids"] == tokenizer.encode(one.spans).ids
        assert published.decode(tokenizer.encode(one.spans).ids) == text
    odd = "\u00e9\u4e2d\U0001f600 \t<0x41>\x7f e\u0301"
    assert published(odd)["input_ids"] == tokenizer.encode([Span(Role.VALUE, odd)]).ids
    assert published.decode(published(odd)["input_ids"]) == odd


def test_a_code_world_models_own_vocabulary_keeps_its_ids(tmp_path: Path) -> None:
    words = {f"w{number}": number for number in range(128_256)}
    words = {{"w128000": "<|begin_of_text|>"}.get(word, word): number for word, number in words.items()}
    model = hf.Tokenizer(hf.models.WordLevel(words, unk_token="w0"))
    PreTrainedTokenizerFast(tokenizer_object=model).save_pretrained(tmp_path)
    tokenizer = tokenizers.build_tokenizer(HuggingFaceSettings(name_or_path=str(tmp_path)))
    assert tokenizer.special_ids == CWM_IDS
    assert tokenizer.vocab_size == 128_256
    assert tokenizer.encode([Span(Role.STRUCTURE, Special.ACTION_SEP)]).ids == [128_101]


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


@KINDS
@settings(max_examples=60, deadline=None)
@given(spans)
def test_tokens_of_strings_are_marked(tokenizer: TraceTokenizer, written: list[Span]) -> None:
    encoded = tokenizer.encode(written)
    assert len(encoded.strings) == len(encoded.ids)
    marked = [token for token, flag in zip(encoded.ids, encoded.strings) if flag]
    text = "".join(span.piece for span in written if span.string and isinstance(span.piece, str))
    assert bool(marked) == bool(text)
    assert tokenizer is BPE or tokenizer.decode(marked) == text


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.builds(lambda text, string: Span(Role.STATE, text, 0, string), ascii_texts, st.booleans()), max_size=8)
)
def test_subwords_with_fillers_have_the_length_and_places_of_characters(written: list[Span]) -> None:
    filled, characters, filler = FILLED.encode(written), SPLIT.encode(written), FILLED.filler_id
    assert filler == FILLED.vocab_size - 1 == SPLIT.vocab_size
    assert filled[1:] == characters[1:]
    outside, inside = (
        [token for token, string in zip(filled.ids, filled.strings) if string is flag] for flag in (False, True)
    )
    assert outside == [token for token, string in zip(characters.ids, characters.strings) if not string]
    texts = [span.piece for span in written if span.string and isinstance(span.piece, str)]
    assert [token for token in inside if token != filler] == [
        token for text in texts for token in SPLIT.backend.text_ids(text)
    ]


def test_the_filler_is_new_to_a_pretrained_tokenizer_and_stands_for_no_text(tmp_path: Path) -> None:
    folder = pretrained(tmp_path, [])
    tokenizer = build_tokenizer(HuggingFaceSettings(name_or_path=str(folder), string_tokenization="filled"))
    filler = tokenizer.filler_id
    ids = tokenizer.encode([Span(Role.STATE, '{"', 0), Span(Role.STATE, "'return é'", 0, True)]).ids
    assert tokenizer.new_ids[-1] == filler == tokenizer.backend.size
    assert tokenizer.decode(ids) == "{\"'return é'"


def test_a_vocabulary_that_was_exchanged_is_refused(tmp_path: Path) -> None:
    build_tokenizer(CharacterSettings()).save(tmp_path)
    path = tmp_path / tokenizers.FILE
    path.write_text(path.read_text().replace("abc", "acb"))
    with pytest.raises(TokenizerError, match="not the one that was stored"):
        tokenizers.load(tmp_path)
    path.write_text("{")
    with pytest.raises(TokenizerError, match="damaged"):
        tokenizers.load(tmp_path)
