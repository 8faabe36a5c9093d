"""The OpenAPI description of a run is true: generated requests get no answer that it does not name."""

import json
import time
import urllib.request

import pytest

schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis, of the extra test")

from hypothesis import HealthCheck, Phase, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from schemathesis.generation import GenerationMode  # noqa: E402
from schemathesis.specs.openapi.checks import positive_data_acceptance, unsupported_method  # noqa: E402

from turnover.runs import open_run  # noqa: E402
from turnover.ui.web.serving import open_server  # noqa: E402


@pytest.fixture(scope="module", params=["text", "table"])
def operations(request):
    with open_server(open_run(request.getfixturevalue(f"{request.param}_run").folder.path), port=0) as server:
        while json.load(urllib.request.urlopen(f"{server.address}api/state"))["state"] == "warming up":
            time.sleep(0.05)
        schema = schemathesis.openapi.from_url(f"{server.address}openapi.json")
        yield [operation.ok() for operation in schema.get_all_operations()]
    (request.getfixturevalue(f"{request.param}_run").folder.path / "marks.json").unlink(missing_ok=True)


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.name.lower())
def test_generated_requests_get_only_answers_that_the_description_names(operations, mode):
    assert len(operations) == 9

    @settings(
        max_examples=4 * len(operations),
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def check(data):
        operation = data.draw(st.sampled_from(operations))
        case = data.draw(operation.as_strategy(generation_mode=mode))
        # That a row or label is none of the run's is told by 422, whatever the schema allows.
        case.call_and_validate(excluded_checks=[positive_data_acceptance, unsupported_method])

    check()
