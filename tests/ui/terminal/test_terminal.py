"""Results go to standard output; JSON has no NaN."""

from turnover.ui.terminal.terminal import print_json


def test_json_has_null_for_what_is_no_number(capsys):
    print_json({"a": [float("nan"), 1.5], "b": {"c": float("inf")}})
    assert "".join(capsys.readouterr().out.split()) == '{"a":[null,1.5],"b":{"c":null}}'
