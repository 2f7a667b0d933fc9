"""The `permutation` diagnostic: lengths by spacing and forcing."""

import pytest

from remedy.data_gen.examples import DataConfig
from remedy.data_gen.settings import ConfigError
from remedy.eval.diagnostics import DIAGNOSTICS

DATA = DataConfig.model_validate({"task": {"kind": "permutation", "n": 3, "length": 4}, "format": "repl"})


def test_every_length_under_every_spacing_and_forcing() -> None:
    settings = {"lengths": [3, 5], "spacings": [1, 2], "forcing": ["free", "action_forced"]}
    conditions = DIAGNOSTICS["permutation"].model_validate(settings).conditions(DATA, "test")
    found = {(c.data.task.model_dump()["length"], c.data.reveal.spacing, c.forcing) for c in conditions}
    assert found == {(n, k, forcing) for n in (3, 5) for k in (1, 2) for forcing in ("free", "action_forced")}
    assert [c.labels["length"] for c in conditions] == [c.data.task.model_dump()["length"] for c in conditions]


def test_free_decoding_without_the_program_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"data\.context=true"):
        DIAGNOSTICS["permutation"].model_validate({}).conditions(DATA.changed({"context": False}), "test")


def test_data_of_another_task_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"needs data\.task\.kind permutation"):
        DIAGNOSTICS["permutation"].model_validate({}).conditions(
            DATA.changed({"task": {"kind": "composition"}}), "test"
        )
