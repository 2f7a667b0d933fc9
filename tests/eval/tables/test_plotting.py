"""Holds what the report's figures share."""

from remedy.eval.tables import plotting


def test_one_legend_holds_the_lines_of_all_panels() -> None:
    figure, (left, right) = plotting.panels(2)
    plotting.line(left, {1: (0.5, 0.4, 0.6)}, "first", 0)
    plotting.line(right, {1: (0.5, 0.4, 0.6), 2: (0.6, 0.5, 0.7)}, "second", 1)
    plotting.line(right, {}, "nothing", 2)
    plotting.legend(figure, [left, right])
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["first", "second"]
