"""The data of a report as JSON."""

import json
import math
from dataclasses import fields, replace

from tests.ui.html.made_data import HOSTILE, made_data
from turnover.ui.html.data import FORMAT, ReportData


def test_the_twin_has_every_part_of_the_data():
    twin = json.loads(made_data().as_json())
    assert set(twin) == {"format"} | {field.name for field in fields(ReportData)}
    assert twin["format"] == FORMAT
    assert twin["rows"][3]["text"].startswith(HOSTILE)
    assert twin["mistakes"][0]["pushed"][0]["marks"] == [[2, 10]]


def test_numbers_that_are_none_are_null_and_not_nan():
    data = made_data()
    odd = replace(data, harmful=(replace(data.harmful[0], score=math.nan, p_value=math.inf),))
    assert json.loads(odd.as_json())["harmful"][0]["score"] is None
