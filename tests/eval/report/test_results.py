"""Right answers of any diagnostic in one table and in figures: seeds together, published figures beside, held-out programs apart."""

from dataclasses import replace
from typing import Any

from remedy.eval.report.results import curves, held_out_table, result_sections, right_table, step_table
from remedy.eval.tables.groups import grouped
from remedy.eval.tables.sections import Published
from tests.eval.made_records import made, together

MOSTLY = [True] * 9 + [False]
VARIANTS = {"a-0": "a", "a-1": "a", "b-0": "b"}
SHARES = {"a-0": 0.5, "a-1": 0.75, "b-0": 0.25}
GROUPS = grouped(
    *together(
        *(
            made([True] * int(80 * share) + [False] * int(80 - 80 * share), run=run, labels={"length": length})
            for run, share in SHARES.items()
            for length in (4, 8)
        ),
        variants=VARIANTS,
    )
)


def test_a_row_for_every_recipe_and_condition() -> None:
    head, *rows = right_table(GROUPS)
    assert head[:4] == ["Recipe", "Length", "Right", "Each seed"]
    assert [row[:2] for row in rows] == [["a", "4"], ["a", "8"], ["b", "4"], ["b", "8"]]
    shown = [dict(zip(head, row, strict=True)) for row in rows]
    assert (shown[0]["Right"], shown[0]["Each seed"]) == ("62 %\n0 to 100 %", "50, 75 %")
    assert (shown[2]["Right"], shown[2]["Each seed"]) == ("25 %\n17 to 35 %", "")
    assert [one["Seeds at 95%"] for one in shown[::2]] == ["0 of 2\n0 to 84 % of all", "0 of 1\n0 to 98 % of all"]


def test_rules_without_a_model_stand_beside_rates_with_the_difference_on_the_same_programs() -> None:
    half = {"state_exact": 0.5, "changed_states_right": 0, "true_answer": ["1"] * 8 + ["2"] * 2}
    parts = (made(MOSTLY, run=f"a-{seed}", **half) for seed in (0, 1))
    groups = grouped(*together(*parts, variants=dict.fromkeys(("a-0", "a-1"), "a")))
    [row] = [dict(zip(*right_table(groups)))]
    assert row["Without a model"].startswith("80 %\nmost frequent answer\n+10 points (")
    assert row["States"] == "50 %\nnothing changed 50 %: +0 points (-19 to +19)"
    assert row["Changed states"] == "0 %\nnothing changed 0 %"
    assert row["Actions"].split(" (")[0] == "100 %\nthe line below 75 %: +25 points"
    [steps] = [dict(zip(*step_table(groups)))]
    assert steps["States"].split(" (")[0] == "50 %\nnothing changed 50 %: +0 points"
    older = [replace(one, records=one.records.drop(columns="unchanged_states")) for one in groups]
    assert dict(zip(*right_table(older)))["States"] == "50 %"


def test_a_line_for_every_recipe_through_its_lengths() -> None:
    figure = curves(GROUPS, "length")
    assert figure is not None
    found = {str(line.get_label()): [*line.get_xydata()] for line in figure.axes[0].get_lines()}
    assert {name: [tuple(point) for point in line] for name, line in found.items()} == {
        "a": [(4, 0.625), (8, 0.625)],
        "b": [(4, 0.25), (8, 0.25)],
    }
    assert curves(GROUPS[-1:], "length") is None


def test_metrics_of_conditions_stand_beside_published_ones_of_the_same_programs() -> None:
    conditions, records = together(
        made(MOSTLY, labels={"benchmark": "cruxeval"}, diagnostic="programs", states=0, state_exact=0.0),
        made(
            [False, True], "run", "programs", {"benchmark": "own"}, outcome=["network", "ok"], failure=["untraced", ""]
        ),
    )
    records = records[records["failure"] != "untraced"]
    alike = {"benchmark": "cruxeval", "forcing": "free"}
    published = Published("a paper", alike, {"Right": "88.0%"}, "other code.")
    groups = grouped(conditions, records)
    head, *rows = right_table(groups, [published])
    shown = [dict(zip(head, row)) for row in rows]
    assert [(row["Recipe"], row["Benchmark"], row["Right"].split("\n")[0]) for row in shown] == [
        ("run", "cruxeval", "90 %"),
        ("run", "own", "100 %"),
        ("a paper", "cruxeval", "88.0%"),
    ]
    assert shown[0]["States"] == ""  # no state was shown
    assert shown[1]["Examples"] == "1"
    # It never stands there without a word on how it was made, and not beside other programs.
    said = [result_sections("Programs", None, part, [], [published])[0].own for part in (groups, groups[1:])]
    assert ["a paper: other code. " in own for own in said] == [True, False]


TASK = {"held_out_functions": ["new"], "held_out_depths": [2]}


def request(run: str = "run", **task: Any) -> dict[str, Any]:
    return {"run": run, "trained_on": {"kind": "composition", **task}}


def test_held_out_functions_and_depths_stand_apart() -> None:
    single = [
        made(
            [right] * 5,
            diagnostic="composition",
            labels={"depth": 1, "function": name},
            functions=name,
            example=[f"{name} {place}" for place in (0, 0, 1, 2, 3)],
        )
        for name, right in (("old", True), ("older", False), ("new", True))
    ]
    nested = made(
        [True, False, False, False],
        diagnostic="composition",
        labels={"depth": 2, "function": ""},
        functions=["old older", "older old", "old new", "new new"],
    )
    conditions, records = together(*single, nested)
    _, *rows = held_out_table(grouped(conditions, records), [request(**TASK)])
    assert [[cell.split("\n")[0] for cell in row[:-1]] for row in rows] == [
        ["run", "depth 1", "no", "50 %", "100 %"],
        ["run", "depth 2", "yes", "50 %", "0 %"],
    ]
    assert [row[3].split("\n")[2:] for row in rows] == [["of 10", "8 programs"], ["of 2"]]
    assert len(held_out_table(grouped(conditions, records), [request()])) == 1
    _, *by_pair = held_out_table(grouped(conditions, records), [request(held_out_pairs=[["old", "older"]])])
    assert [[cell.split("\n")[0] for cell in row[3:-1]] for row in by_pair] == [["67 %", ""], ["0 %", "100 %"]]
