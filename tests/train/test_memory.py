"""Weights, gradients and optimizer state against DeepSpeed's own estimators."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remedy.train.config import TrainSettings
from remedy.train.memory import NF4, ParameterCounts, model_states

P = ParameterCounts(1_000_000, 0, 0, 40_000)


def settings(precision: str = "bf16", **deepspeed: object) -> TrainSettings:
    return TrainSettings.model_validate({"precision": precision, "batch_size": 64, "deepspeed": deepspeed})


@pytest.mark.parametrize("gpus", [1, 2, 8])
@pytest.mark.parametrize("offload", ["none", "optimizer"])
def test_stage_2_is_deepspeeds_estimate(gpus: int, offload: str) -> None:
    zero = pytest.importorskip("deepspeed.runtime.zero.stage_1_and_2")
    host, gpu = zero.estimate_zero2_model_states_mem_needs(P.trained, gpus, 1, offload != "none")
    found = model_states(P, settings(stage=2, offload=offload), gpus, lora=False)
    # Without offload DeepSpeed counts weights in half precision, and 18 / N more, of which 12 and 6 / N are not weights.
    assert sum(found._replace(host=0.0)) == pytest.approx(gpu, abs=1)
    if offload != "none":
        assert found.host == pytest.approx(host, abs=1)


@pytest.mark.parametrize("gpus", [1, 2, 8])
@pytest.mark.parametrize("offload", ["none", "optimizer", "all"])
def test_stage_3_is_deepspeeds_estimate(gpus: int, offload: str) -> None:
    zero = pytest.importorskip("deepspeed.runtime.zero.stage3")
    host, gpu, layer = zero.estimate_zero3_model_states_mem_needs(
        P.trained, P.largest, gpus, 1, offload != "none", offload == "all"
    )
    found = model_states(P, settings(stage=3, offload=offload), gpus, lora=False)
    assert found.gathered == layer
    assert sum(found._replace(host=0.0)) == pytest.approx(gpu, abs=1)
    if offload != "none":
        assert found.host == pytest.approx(host, abs=1)


@given(st.integers(1, 64), st.integers(1, 10**12), st.integers(0, 10**12))
def test_a_higher_stage_needs_no_more(gpus: int, trained: int, frozen: int) -> None:
    counts = ParameterCounts(trained, frozen, 0, 0)
    of = [model_states(counts, settings(stage=stage), gpus, lora=False) for stage in (1, 2, 3)]
    memory = [sum(states) for states in of]
    assert memory == sorted(memory, reverse=True)


def test_without_deepspeed_adam_takes_sixteen_bytes_and_frozen_weights_their_precision() -> None:
    counts = ParameterCounts(10, 100, 60, 20)
    plain = TrainSettings(precision="bf16")
    assert sum(model_states(counts, plain, 1, lora=True)) == 16 * 10 + 2 * 100
    assert model_states(counts, plain, 2, lora=True).gradients == 8 * 10  # the buckets of DistributedDataParallel
    assert model_states(counts, plain, 1, lora=True, four_bit=True).weights == 4 * 10 + NF4 * 60 + 4 * 40
