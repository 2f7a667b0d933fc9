"""The published reports: pages of their shape are read, outputs without separators are judged, counts have known answers."""

from html import escape

import pytest

from benchmarks.published import composition, counts, outputs
from benchmarks.published.collected import (
    CUT_RIGHT,
    CUT_WRONG,
    EMPTY,
    NO_ANSWER,
    OTHER_CALL,
    SAME_VALUE,
    WRONG,
    outcome,
)
from benchmarks.published.outputs import Judged, judge
from benchmarks.published.reports import Failed, parse, summary
from benchmarks.published.truths import data_of, example_of
from remedy.models.tokenizer import build_tokenizer
from remedy.models.tokenizer_backends import TOKENIZERS

TOKENIZER = build_tokenizer(TOKENIZERS["chars"].model_validate({"kind": "chars"}))
CODE = "def f(s):\n    t = s + 'b'\n    return t"
PROMPT = f"An example.\n{CODE}\nwith a # << START_OF_TRACE marker.\n\n{CODE}\n\ndef main(): # << START_OF_TRACE\n    return f('<a')\n\n"
TRACE = """{}def main(): # << START_OF_TRACE
{}    return f('<a')
{"s": "'<a'"}def f(s):
{"s": ".."}    t = s + 'b'
{"s": "..", "t": "'<ab'"}    return t
    return t
"'<ab'"    return f('<a')
"'<ab'\""""
ANSWER = "\n\nNow let us analyze the trace.\n\n[ANSWER]\nassert f('<a') == {}\n[/ANSWER]"


def page(output: str, badges: str = '<span class="badge badge-wrong">WRONG</span>', code: str = CODE) -> str:
    """One failure as a report has it."""
    return f"""<html><head><style>td {{ a: b }}</style></head><body><div class="stat-card">
<div class="stat-number">119</div><div class="stat-label">Total Failures</div></div>
<span class="legend-label">Other</span><span class="legend-count">2</span><table>
<tr id="row-sample_7" class=""><td class="problem-id">sample_7{badges}</td><td class="code-cell"><pre>{escape(CODE)}</pre></td>
<td class="transform-cell"><pre>{escape(code)}</pre></td><td class="input-cell"><code>'&lt;a'</code><div>
<span class="expected">Expected: <strong>&#x27;&lt;ab&#x27;</strong></span><br>
<span class="predicted">Predicted: <strong>None</strong></span></div></td>
<td class="root-cause"><strong>Other</strong><br><small>no <b>why</b></small></td><td><a href="#raw-sample_7">View</a></td></tr></table>
<details id="raw-sample_7"><summary>sample_7</summary><div><h4>Prompt:</h4><pre class="prompt">{escape(PROMPT)}</pre>
<h4>Output:</h4><pre>{escape(output)}</pre></div></details></body></html>"""


def failed(output: str, **changes: str) -> Failed:
    [one] = parse(page(output, **changes), "a page").failed
    return one


def judged(output: str) -> tuple[Failed, Judged]:
    one = failed(output)
    data = data_of("cruxeval", None)
    return one, judge(one, example_of(one.program, "", data), data, TOKENIZER)


def test_a_report_is_read_with_its_texts_as_they_were() -> None:
    text = page(
        TRACE, '<span class="badge badge-truncated">TRUNCATED</span><br><span class="badge">✓ EXPR RECOVERED</span>'
    )
    report = parse(text, "a page")
    [one] = report.failed
    assert (one.id, one.case, one.cause) == ("sample_7", "cruxeval/sample_7", "Other")
    assert (one.truncated, one.recovered, one.expected, one.predicted) == (True, "expr", "'<ab'", "None")
    assert (one.call, one.output, one.unchanged) == ("f('<a')", TRACE, True)
    assert one.program.code.startswith(CODE)
    assert one.program.entry_point().name == "main"
    assert not failed(TRACE, code=CODE + "\n    pass").unchanged
    assert dict(summary(report)) == {"Total Failures": "119", "cause: Other": "2"}


@pytest.mark.parametrize(
    ("output", "found", "role", "wrong"),
    [
        (TRACE + ANSWER.format('"<ab"'), SAME_VALUE, "", None),
        (TRACE, NO_ANSWER, "", None),
        ("", EMPTY, "", None),
        (TRACE.replace("\"'<ab'\"}", "\"'<abb'\"}") + ANSWER.format("1"), WRONG, "state", "'<ab'"),
        (
            TRACE.replace("t\n\"'<ab'\"    return", "t\n\"'ab'\"    return") + ANSWER.format("1"),
            WRONG,
            "value",
            "'<ab'",
        ),
        (TRACE.replace("    t = s + 'b'", "    return t"), WRONG, "action", None),
    ],
)
def test_an_output_without_separators_is_judged(output: str, found: str, role: str, wrong: str | None) -> None:
    one, result = judged(output)
    assert outcome(one, result) == found
    assert result.role == role
    assert (result.wrong.value.text if result.wrong is not None else None) == wrong
    other = one._replace(expected="7")
    assert outcome(other, result) == (OTHER_CALL if found == SAME_VALUE else found)


def test_every_beginning_of_a_true_trace_is_right_and_a_wrong_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "LIMIT", 0)
    start = TRACE.index("\n") + 1
    for end in range(start + 1, len(TRACE)):
        one, result = judged(TRACE[:end])
        assert outcome(one, result) == CUT_RIGHT, TRACE[:end]
    one, result = judged(TRACE[: TRACE.index("t = s")] + "u = s")
    assert outcome(one, result) == CUT_WRONG


def test_the_hazard_of_a_step() -> None:
    estimate, low, high = counts.hazard_of([10, 10, 10, 9, 9], [1] * 5)
    assert estimate == pytest.approx(2 / 50, abs=1e-4)
    assert low < 2 / 50 < high
    estimate, low, high = counts.hazard_of([5], [7])
    assert (1 - estimate) ** 7 == pytest.approx(0.5, abs=1e-3)
    assert (1 - high) ** 7 == pytest.approx(0.2238, abs=0.02)  # of 5 of 10 the likelihood ratio gives 22 to 78 %


def test_the_counts_are_the_published_ones() -> None:
    """Fifteen functions of 95.3 % on average, 25 in all; and selection on few programs draws more towards the others."""
    assert len(composition.ATOMIC) == 25
    assert len(composition.chosen()) == 15
    assert sum(composition.ATOMIC[name] for name in composition.chosen()) / 150 == pytest.approx(0.953, abs=5e-4)
    few, many = (composition.after_selection(tried).mean() for tried in (10, 100))
    assert few < many < 0.954
