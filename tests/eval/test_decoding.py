from types import SimpleNamespace
from typing import Any

import pytest
import torch

from remedy.data_gen.examples import DataConfig, examples
from remedy.data_gen.roles import Role
from remedy.eval.decoding import ACTION_FORCED, FREE, decode, predict
from remedy.eval.diagnostics.token_scorer import answer_start, judge_predicted, judge_written
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


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("fed", [FREE, ACTION_FORCED, STATE_FORCED], ids=["free", "action", "state"])
def test_a_model_that_knows_the_truth_is_judged_right(form: str, fed: frozenset[Role]) -> None:
    tokenizer, truths = prepared(form)
    written = decode(Reciter(truths, tokenizer.vocab_size), tokenizer, truths, fed, exact=form == "symbolic")
    for truth, runs in zip(truths, written):
        judged = judge_written(truth, runs, tokenizer)
        assert judged.final_right
        assert judged.departure is None
        assert judged.frames_right == max(truth.frames) + 1
        assert not judged.truncated
        assert judged.written_tokens == sum(Role(role) not in fed for role in truth.roles)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("fed", [FREE, ACTION_FORCED], ids=["free", "action"])
def test_the_first_wrong_token_is_found_with_its_role_and_frame(form: str, fed: frozenset[Role]) -> None:
    tokenizer, truths = prepared(form, 1)
    truth = truths[0]
    wrong = next(i for i in range(tokenizer.vocab_size) if not tokenizer.is_special(i) and i not in truth.ids)
    for role in {Role(r) for r in truth.roles} - fed:
        position = next(i for i, r in enumerate(truth.roles) if r == role)
        reciter = Reciter(truths, tokenizer.vocab_size, {0: position}, wrong)
        runs = decode(reciter, tokenizer, truths, fed, exact=form == "symbolic", budget=len(truth.ids) + 9)[0]
        judged = judge_written(truth, runs, tokenizer)
        assert judged.departure == position
        assert judged.departure_role == role.label
        assert judged.departure_frame == truth.frames[position]


def test_a_wrong_answer_is_wrong_and_a_wrong_way_to_the_right_answer_is_right() -> None:
    tokenizer, truths = prepared("cwm", 1)
    answer, wrong = answer_start(truths[0]), tokenizer.encode([]).ids or tokenizer.backend.text_ids("~")[0]
    first_state = truths[0].roles.index(int(Role.STATE))
    for position, right in ((answer + 2, False), (first_state, True)):
        reciter = Reciter(truths, tokenizer.vocab_size, {0: position}, int(wrong))
        judged = judge_written(truths[0], decode(reciter, tokenizer, truths, FREE)[0], tokenizer)
        assert judged.final_right is right
        assert judged.departure == position


def test_a_run_that_never_ends_is_cut_and_counts_as_truncated() -> None:
    tokenizer, truths = prepared("cwm", 1)
    runs = decode(Reciter(truths, tokenizer.vocab_size), tokenizer, truths, FREE, budget=10)[0]
    judged = judge_written(truths[0], runs, tokenizer)
    assert judged.truncated
    assert not judged.final_right
    assert judged.written_tokens == 10


def test_one_step_predictions_are_judged_on_the_roles_asked_for() -> None:
    tokenizer, truths = prepared("symbolic", 2)
    reciter = Reciter(truths, tokenizer.vocab_size, {0: truths[0].roles.index(int(Role.ACTION))}, wrong=0)
    predictions = predict(reciter, tokenizer, truths)
    everything = frozenset(Role) - {Role.CONTEXT}
    assert judge_predicted(truths[0], predictions[0], everything).departure_role == "action"
    assert judge_predicted(truths[0], predictions[0], everything).final_right
    assert judge_predicted(truths[0], predictions[0], frozenset({Role.STATE})).departure is None


@pytest.mark.parametrize("mixer", MIXERS)
@torch.no_grad()
def test_every_mixer_decodes_in_batches_as_it_does_alone_and_as_generate_does(mixer: str) -> None:
    tokenizer, truths = prepared("repl", 3)
    torch.manual_seed(1)
    config = DecoderSettings.model_validate({"mixers": [mixer], "hidden_size": 32})
    model = DecoderForCausalLM(DecoderConfig.from_settings(config, tokenizer.vocab_size)).eval()
    together = decode(model, tokenizer, truths, FREE, budget=15)
    assert together == [decode(model, tokenizer, [truth], FREE, budget=15)[0] for truth in truths]
    forced = decode(model, tokenizer, truths, ACTION_FORCED)
    assert forced == [decode(model, tokenizer, [truth], ACTION_FORCED)[0] for truth in truths]
    prompt = truths[0].ids[: truths[0].roles.count(int(Role.CONTEXT))]
    generated = model.generate(
        torch.tensor([prompt]), max_new_tokens=15, do_sample=False, eos_token_id=tokenizer.eos_id
    )
    assert generated[0, len(prompt) :].tolist() == together[0][0].ids


@torch.no_grad()
def test_action_forcing_reads_the_models_own_states_and_the_true_actions() -> None:
    tokenizer, truths = prepared("repl", 1)
    torch.manual_seed(1)
    model = DecoderForCausalLM(
        DecoderConfig.from_settings(DecoderSettings(mixers=("gru",), hidden_size=32), tokenizer.vocab_size)
    ).eval()
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
