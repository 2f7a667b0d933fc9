"""Forced decoding: what is fed, what the model writes and how surely, in batches as alone, under every mixer."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from remedy.data_gen.examples import DataConfig, examples
from remedy.data_gen.roles import Role
from remedy.eval.decoding import ACTION_FORCED, FREE, TEACHER_FORCED, Generated, decode, predict
from remedy.models.config import DecoderSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig
from remedy.models.mixers import MIXERS
from remedy.models.tokenizer import Encoded, TraceTokenizer, build_tokenizer
from remedy.models.tokenizer_backends import TOKENIZERS

STATE_FORCED = frozenset({Role.CONTEXT, Role.STRUCTURE, Role.STATE})

FORMS = {
    "cwm": {"task": {"kind": "composition", "depth": 1, "functions": ["mirror_str", "repeat_str"]}},
    "repl": {"task": {"kind": "permutation", "n": 3, "length": [2, 6]}, "format": "repl", "reveal": {"spacing": 2}},
    "symbolic": {
        "task": {"kind": "permutation", "n": 3, "length": [2, 6]},
        "format": "symbolic",
        "reveal": {"spacing": 2},
    },
}


class Reciter(torch.nn.Module):
    """Stands for a model that knows the truths by heart: it continues each row as its truth does from where the row has
    come to, whatever was written, except that at the positions in `mistakes` it writes `wrong` instead."""

    def __init__(
        self, truths: list[Encoded], vocab: int, mistakes: dict[int, int] | None = None, wrong: int = 0
    ) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.truths, self.vocab, self.mistakes, self.wrong = truths, vocab, mistakes or {}, wrong

    def forward(self, input_ids: torch.Tensor, past_key_values: int | None = None, **kwargs: Any) -> SimpleNamespace:
        start = past_key_values or 0
        logits = torch.zeros(*input_ids.shape, self.vocab)
        for row, truth in enumerate(self.truths):
            for column in range(input_ids.shape[1]):
                position = start + column + 1
                token = truth.ids[position] if position < len(truth.ids) else 0
                logits[row, column, self.wrong if self.mistakes.get(row) == position else token] = 1
        return SimpleNamespace(logits=logits, past_key_values=start + input_ids.shape[1])


def prepared(form: str, count: int = 4) -> tuple[TraceTokenizer, list[Encoded]]:
    data = DataConfig.model_validate(FORMS[form])
    kind = "symbols" if form == "symbolic" else "chars"
    tokenizer = build_tokenizer(TOKENIZERS[kind].model_validate({"kind": kind}), data)
    return tokenizer, [tokenizer.encode(one.spans) for one in examples(data, "test", range(count))]


def small_model(mixer: str, tokenizer: TraceTokenizer) -> DecoderForCausalLM:
    torch.manual_seed(1)
    settings = DecoderSettings.model_validate({"mixers": [mixer], "hidden_size": 32})
    return DecoderForCausalLM(DecoderConfig.from_settings(settings, tokenizer.vocab_size)).eval()


def assert_same(left: list[Generated], right: list[Generated]) -> None:
    """The same runs; log-probabilities of a batch are rounded otherwise."""
    assert [run._replace(logprobs=[]) for run in left] == [run._replace(logprobs=[]) for run in right]
    for one, other in zip(left, right):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("fed", [FREE, ACTION_FORCED, STATE_FORCED], ids=["free", "action", "state"])
def test_a_model_that_knows_the_truth_writes_it(form: str, fed: frozenset[Role]) -> None:
    tokenizer, truths = prepared(form)
    decoded = decode(Reciter(truths, tokenizer.vocab_size), tokenizer, truths, fed, exact=form == "symbolic")
    for truth, runs in zip(truths, decoded):
        assert [run.ids for run in runs] == [list(truth.ids[run.start : run.stop]) for run in runs]
        assert all(run.complete for run in runs)
        assert sum(len(run.ids) for run in runs) == sum(Role(role) not in fed for role in truth.roles)


def test_a_run_that_never_ends_is_cut() -> None:
    tokenizer, truths = prepared("cwm", 1)
    (run,) = decode(Reciter(truths, tokenizer.vocab_size), tokenizer, truths, FREE, max_new_tokens=10)[0]
    assert (len(run.ids), run.complete) == (10, False)


def test_teacher_forcing_gives_a_run_for_every_stretch_of_the_roles_asked_for() -> None:
    tokenizer, truths = prepared("repl", 2)
    reciter = Reciter(truths, tokenizer.vocab_size, {0: list(truths[0].roles).index(Role.STATE)}, wrong=99)
    predicted = predict(reciter, tokenizer, truths, frozenset({Role.STATE}))
    for truth, runs in zip(truths, predicted):
        assert [at for run in runs for at in range(run.start, run.stop)] == [
            at for at, role in enumerate(truth.roles) if role == Role.STATE
        ]
    assert predicted[0][0].ids == [99, *truths[0].ids[predicted[0][0].start + 1 : predicted[0][0].stop]]
    assert all(run.ids == list(truths[1].ids[run.start : run.stop]) for run in predicted[1])


@torch.no_grad()
@pytest.mark.parametrize("fed", [FREE, ACTION_FORCED, TEACHER_FORCED], ids=["free", "action", "teacher"])
def test_every_token_has_the_log_probability_it_was_written_with(fed: frozenset[Role]) -> None:
    tokenizer, truths = prepared("repl", 2)
    model = small_model("gru", tokenizer)
    if fed == TEACHER_FORCED:
        decoded = predict(model, tokenizer, truths, frozenset({Role.STATE, Role.VALUE}))
    else:
        decoded = decode(model, tokenizer, truths, fed, max_new_tokens=30)
    for truth, runs in zip(truths, decoded):
        read = list(truth.ids)
        if fed != TEACHER_FORCED:
            for run in reversed(runs):
                read[run.start : run.stop] = run.ids
        logprobs = model(torch.tensor([read])).logits[0].log_softmax(-1)
        shift = 0
        for run in runs:
            at = run.start + shift
            expected = [float(logprobs[at + i - 1, token]) for i, token in enumerate(run.ids)]
            assert run.logprobs == pytest.approx(expected, abs=1e-4)
            shift += 0 if fed == TEACHER_FORCED else len(run.ids) - (run.stop - run.start)


@pytest.mark.slow
@pytest.mark.parametrize("mixer", MIXERS)
@torch.no_grad()
def test_every_mixer_decodes_in_batches_as_it_does_alone_and_as_generate_does(mixer: str) -> None:
    tokenizer, truths = prepared("repl", 3)
    model = small_model(mixer, tokenizer)
    together = decode(model, tokenizer, truths, FREE, max_new_tokens=15)
    for runs, truth in zip(together, truths):
        assert_same(runs, decode(model, tokenizer, [truth], FREE, max_new_tokens=15)[0])
    for runs, truth in zip(decode(model, tokenizer, truths, ACTION_FORCED), truths):
        assert_same(runs, decode(model, tokenizer, [truth], ACTION_FORCED)[0])
    prompt = truths[0].ids[: truths[0].roles.count(int(Role.CONTEXT))]
    generated = model.generate(
        torch.tensor([prompt]), max_new_tokens=15, do_sample=False, eos_token_id=tokenizer.eos_id
    )
    assert generated[0, len(prompt) :].tolist() == together[0][0].ids


@torch.no_grad()
def test_action_forcing_reads_the_models_own_states_and_the_true_actions() -> None:
    tokenizer, truths = prepared("repl", 1)
    model = small_model("gru", tokenizer)
    runs = decode(model, tokenizer, truths, ACTION_FORCED)[0]
    read = list(truths[0].ids)
    for run in reversed(runs):
        read[run.start : run.stop] = run.ids
    # Replaying what was read must predict exactly what was written.
    best = model(torch.tensor([read])).logits[0].argmax(-1).tolist()
    shift = 0
    for run in runs:
        start = run.start + shift
        assert [best[start + i - 1] for i in range(len(run.ids))] == run.ids
        shift += len(run.ids) - (run.stop - run.start)
