"""Chunked and parallel forms of delta rules, state spaces and paths are the recurrences that define them, forward and backward; where
eigenvalues of a transition lie."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from remedy.models.mixers.deltanet import DeltaNet, delta_rule_chunked, delta_rule_recurrent
from remedy.models.mixers.path_attention import attend_chunked
from remedy.models.mixers.rwkv7 import LOWEST, wkv_chunked, wkv_recurrent
from remedy.models.mixers.ssm_scan import chunked_duality, selective_scan
from tests.models.small_decoders import decoder


def rule_inputs(steps: int, beta_max: float, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(steps)
    q, k, v = (torch.randn(2, 3, steps, 8, dtype=dtype) for _ in range(3))
    return F.normalize(q, dim=-1), F.normalize(k, dim=-1), v, beta_max * torch.rand(2, 3, steps, dtype=dtype)


@pytest.mark.parametrize(
    ("steps", "beta_max", "gated"),
    [(1, 1.0, True), (5, 2.0, False), (32, 1.0, True), (33, 2.0, False), (100, 2.0, True)],
)
def test_chunked_delta_rule_is_the_recurrence(steps: int, beta_max: float, gated: bool) -> None:
    q, k, v, beta = (x.requires_grad_() for x in rule_inputs(steps, beta_max))
    g = (-3 * torch.rand(2, 3, steps, dtype=torch.float64)).requires_grad_() if gated else None
    state = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    naive, naive_state = delta_rule_recurrent(q, k, v, beta, g, state)
    chunked, chunked_state = delta_rule_chunked(q, k, v, beta, g, state, chunk=16)
    torch.testing.assert_close(chunked, naive, atol=1e-10, rtol=0)
    torch.testing.assert_close(chunked_state, naive_state, atol=1e-10, rtol=0)
    inputs = (q, k, v, beta) if g is None else (q, k, v, beta, g)
    assert_same_gradients(naive, chunked, inputs)


def assert_same_gradients(one: torch.Tensor, two: torch.Tensor, inputs: tuple[torch.Tensor, ...]) -> None:
    weights = torch.randn_like(one)
    found = [torch.autograd.grad((y * weights).sum(), inputs) for y in (one, two)]
    for left, right in zip(*found):
        torch.testing.assert_close(left, right, atol=1e-4 if left.dtype == torch.float32 else 1e-9, rtol=1e-3)


def scan_inputs(steps: int) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(steps)
    u, step = torch.randn(2, steps, 6), 2 * torch.rand(2, steps, 6)
    a, b, c = -torch.rand(6, 4) - 0.1, torch.randn(2, steps, 4), torch.randn(2, steps, 4)
    return tuple(x.requires_grad_() for x in (u, step, a, b, c))


@pytest.mark.parametrize(("steps", "signed"), [(2, True), (9, False), (40, True)])
def test_selective_scan_is_the_recurrence_forward_and_backward(signed: bool, steps: int) -> None:
    u, step, a, b, c = scan_inputs(steps)
    start = torch.randn(2, 6, 4, requires_grad=True)
    state, outputs = start, []
    for t in range(steps):
        transition = torch.exp(step[:, t, :, None] * a)
        transition = 2 * transition - 1 if signed else transition
        state = transition * state + (step * u)[:, t, :, None] * b[:, t, None, :]
        outputs.append((state * c[:, t, None, :]).sum(-1))
    y, last = selective_scan(u, step, a, b, c, signed, start)
    naive = torch.stack(outputs, 1)
    torch.testing.assert_close(y, naive, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(last, state, atol=1e-5, rtol=1e-4)
    assert_same_gradients(naive, y, (u, step, a, b, c, start))


@pytest.mark.parametrize(("steps", "signed"), [(1, True), (16, False), (45, True)])
def test_state_space_duality_is_the_recurrence_forward_and_backward(signed: bool, steps: int) -> None:
    torch.manual_seed(steps)
    u, step = torch.randn(2, steps, 3, 5), 2 * torch.rand(2, steps, 3)
    a, b, c = -torch.rand(3) - 0.1, torch.randn(2, steps, 4), torch.randn(2, steps, 4)
    inputs = tuple(x.requires_grad_() for x in (u, step, a, b, c))
    start = torch.randn(2, 3, 4, 5)
    state, outputs = start, []
    for t in range(steps):
        transition = torch.exp(step[:, t] * a)
        transition = 2 * transition - 1 if signed else transition
        arriving = b[:, t, None, :, None] * (step[..., None] * u)[:, t, :, None, :]
        state = transition[..., None, None] * state + arriving
        outputs.append((c[:, t, None, :, None] * state).sum(-2))
    y, last = chunked_duality(*inputs, signed, start, chunk=16)
    naive = torch.stack(outputs, 1)
    torch.testing.assert_close(y, naive, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(last, state, atol=1e-5, rtol=1e-4)
    assert_same_gradients(naive, y, inputs)


def generalised_inputs(steps: int) -> tuple[torch.Tensor, ...]:
    """r, g, k, v, a, b of RWKV-7: removal keys of length 1, learning rates in (0, 1), decays between the lowest and none."""
    torch.manual_seed(steps)
    r, k, v, removed = (torch.randn(2, 3, steps, 8, dtype=torch.float64) for _ in range(4))
    rate, share = (torch.rand(2, 3, steps, 8, dtype=torch.float64) for _ in range(2))
    removed = F.normalize(removed, dim=-1)
    return r, LOWEST * share, k, v, -removed, removed * rate


@pytest.mark.parametrize("rule", [wkv_recurrent, partial(wkv_chunked, chunk=16)], ids=["recurrent", "chunked"])
@pytest.mark.parametrize("steps", [1, 5, 33])
def test_the_generalised_delta_rule_is_the_papers_recurrence(rule: Any, steps: int) -> None:
    """Peng et al., 2025: wkv_t = wkv_{t-1} (diag(w_t) - kappa_t^T (alpha_t * kappa_t)) + v_t^T k_t, read by r_t; rows as theirs."""
    inputs = tuple(x.requires_grad_() for x in generalised_inputs(steps))
    r, g, k, v, a, b = inputs
    state = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    memory, outputs = state.transpose(-1, -2), []
    for t in range(steps):
        transition = torch.diag_embed(g[:, :, t].exp()) + a[:, :, t, :, None] * b[:, :, t, None, :]
        memory = memory @ transition + v[:, :, t, :, None] * k[:, :, t, None, :]
        outputs.append((memory @ r[:, :, t, :, None]).squeeze(-1))
    naive = torch.stack(outputs, 2)
    y, last = rule(*inputs, state)
    torch.testing.assert_close(y, naive, atol=1e-10, rtol=0)
    torch.testing.assert_close(last.transpose(-1, -2), memory, atol=1e-10, rtol=0)
    assert_same_gradients(naive, y, inputs)


def test_the_fastest_decay_in_every_channel_neither_overflows_nor_loses_digits() -> None:
    r, _, k, v, a, b = (x.float() for x in generalised_inputs(200))
    g = torch.full_like(k, LOWEST, requires_grad=True)
    y, _ = wkv_chunked(r, g, k, v, a, b)
    naive, _ = wkv_recurrent(*(x.double() for x in (r, g, k, v, a, b)))
    torch.testing.assert_close(y.double(), naive, atol=1e-4, rtol=0)
    (gradient,) = torch.autograd.grad(y.sum(), g)
    assert torch.isfinite(gradient).all()


def path_inputs(steps: int) -> tuple[torch.Tensor, ...]:
    """q, k, v, w and beta of PaTH attention: lines of length 1, beta in (0, 2)."""
    torch.manual_seed(steps)
    q, k, v, w = (torch.randn(2, 2, steps, 8, dtype=torch.float64) for _ in range(4))
    return q, k, v, F.normalize(w, dim=-1), 2 * torch.rand(2, 2, steps, dtype=torch.float64)


@pytest.mark.parametrize("steps", [2, 16, 40])
def test_attention_along_a_path_is_the_papers_product_of_matrices(steps: int) -> None:
    """Yang et al., 2025: query i and key j meet as k_j^T H_{j+1} ... H_i q_i."""
    inputs = tuple(x.requires_grad_() for x in path_inputs(steps))
    q, k, v, w, beta = inputs
    lines = beta[..., None, None] * w[..., :, None] * w[..., None, :]
    matrices = torch.eye(8, dtype=torch.float64) - lines
    outputs = []
    for i in range(steps):
        met, product = [], torch.eye(8, dtype=torch.float64)
        for j in range(i, -1, -1):
            met.append((k[:, :, j, None, :] @ product @ q[:, :, i, :, None]).flatten(2))
            product = matrices[:, :, j] @ product
        weights = (torch.cat(met[::-1], -1) * 8**-0.5).softmax(-1)
        outputs.append((weights[..., None] * v[:, :, : i + 1]).sum(2))
    naive = torch.stack(outputs, 2)
    y, keys = attend_chunked(*inputs, chunk=16)
    torch.testing.assert_close(y, naive, atol=1e-10, rtol=0)
    assert_same_gradients(naive, y, inputs)
    cut = steps // 2
    one, halfway = attend_chunked(*(x[:, :, :cut] for x in inputs), chunk=16)
    two, end = attend_chunked(*(x[:, :, cut:] for x in inputs), halfway, v[:, :, :cut], chunk=4)
    torch.testing.assert_close(torch.cat([one, two], 2), y, atol=1e-10, rtol=0)
    torch.testing.assert_close(end, keys, atol=1e-10, rtol=0)


def test_a_long_path_of_reflections_neither_grows_nor_loses_digits() -> None:
    q, k, v, w, beta = (x.float() for x in path_inputs(1000))
    _, keys = attend_chunked(q, k, v, w, torch.full_like(beta, 2.0))
    torch.testing.assert_close(keys.norm(dim=-1), k.norm(dim=-1), atol=0, rtol=1e-4)


@pytest.mark.parametrize(("eigenvalues", "low"), [("positive", 0.0), ("signed", -1.0), ("closed", -1.0)])
def test_eigenvalues_of_the_transition_lie_in_the_configured_range(eigenvalues: str, low: float) -> None:
    mixer = decoder(("deltanet",), eigenvalues=eigenvalues).layers[0].mixer
    assert isinstance(mixer, DeltaNet)

    def along_key(chosen: float) -> float:
        """The eigenvalue of I - beta k k^T that is not 1."""
        torch.nn.init.constant_(mixer.beta_proj.bias, chosen)
        return 1 - float(mixer._beta(torch.zeros(1, 1, 32))[0, 0, 0])

    assert along_key(50) == low
    assert along_key(-50) == 1
    near = along_key(6), along_key(-6)
    assert (near == (low, 1)) == (eigenvalues == "closed")
    assert near == pytest.approx((low, 1), abs=0.01)
    assert along_key(0) == pytest.approx((low + 1) / 2)
