"""Everything works on another device than the CPU, one that mixes with no other and has no float64."""

import numpy as np
import pytest
import torch
from torch import nn

import turnover
from tests.elsewhere_device.device import NAME, elsewhere
from turnover.applications import TrainingRecord, wrong_labels
from turnover.errors import ModelError
from turnover.layers import preferred_device, widest_float
from turnover.runs import RunConfig, open_run, start_run
from turnover.training import TrainingRecipe
from turnover_bench.baselines import InfluenceFunctions, TracIn

X = torch.randn(96, 6, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] + X[:, 1] > 0).long()
IDS = torch.arange(96)


@pytest.fixture
def there():
    with elsewhere() as device:
        yield device


def _network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2, bias=False))


def _trained(device, *, epochs=6, **options):
    torch.manual_seed(1)
    model = turnover.wrap(_network(), **{"at": ["1"], **options}).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    for _ in range(epochs):
        with turnover.instances(IDS) as now:
            outputs = model(X.to(device))
        loss = nn.functional.cross_entropy(outputs, now.repeat(Y.to(device)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def _asked(model, estimator, train=(X, Y, IDS)):
    inf = turnover.Influence(model, train=train, estimator=estimator)
    return inf.pairwise((X[:4], Y[:4]), progress=False).values


@pytest.mark.parametrize(
    "options",
    [{}, {"replicas": 4}, {"masks": "volatile"}, {"masks": "codebook"}, {"at": ["0", "2"], "mode": "backward"}],
    ids=str,
)
def test_training_and_scores_are_those_of_the_cpu(there, options):
    here = _trained("cpu", **options)
    other = _trained(there, **options)
    for one, two in zip(here.parameters(), other.parameters(), strict=True):
        assert two.device.type == NAME
        assert torch.equal(one, two.cpu())
    # The CPU has products of its own for the last layer.
    np.testing.assert_allclose(_asked(here, "tod"), _asked(other, "tod"), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("estimator", ["auto", "tod"])
def test_estimators_answer_as_on_the_cpu(there, estimator):
    # Sums that are float64 on the CPU are float32 there.
    np.testing.assert_allclose(
        _asked(_trained("cpu", replicas=4), estimator),
        _asked(_trained(there, replicas=4), estimator),
        rtol=1e-3,
        atol=1e-4,
    )


def test_all_questions_are_answered(there):
    inf = turnover.Influence(_trained(there, replicas=4), train=(X, Y, IDS))
    assert inf.top((X[:3], Y[:3]), k=2).k == 2
    assert inf.mean((X, Y), progress=False).values.shape == (96,)
    assert inf.self_influence(progress=False).values.shape == (96,)
    assert inf.out_of_sample(progress=False).probs.shape == (96, 2)


def test_an_influence_moves_its_model(there):
    model = _trained("cpu")
    moved = turnover.Influence(model, train=(X, Y, IDS), estimator="tod", device=there)
    assert moved.pairwise((X[:4], Y[:4]), progress=False).values.shape == (96, 4)
    assert next(model.parameters()).device.type == NAME


def test_a_finished_model_is_asked_there(there):
    torch.manual_seed(0)
    model = _network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(30):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(X), Y).backward()
        optimizer.step()
    here = _asked(model, "curvature", (X, Y))
    np.testing.assert_allclose(here, _asked(model.to(there), "curvature", (X, Y)), rtol=1e-3, atol=1e-4)


def test_audit_save_and_load(there, tmp_path):
    model = _trained(there)
    assert turnover.audit(model, (X[:8].to(there), Y[:8].to(there), IDS[:8])).verdict
    turnover.save(model, tmp_path / "model")
    loaded = turnover.load(tmp_path / "model", model=_network())
    assert torch.equal(loaded[0].weight, model[0].weight.cpu())


def test_the_record_of_a_training(there):
    model = turnover.wrap(_network(), at=["1"], replicas=2).to(there)
    record = TrainingRecord(model, train=(X, Y, IDS), validation=(X[:64], Y[:64]))
    record(model)
    assert wrong_labels(record.finish()).p_wrong.shape == (96,)


def test_recipes_and_baselines(there):
    recipe = TrainingRecipe(lambda: _network().to(there), X, Y, epochs=2, batch_size=32)
    model = recipe.fit()
    assert next(model.parameters()).device.type == NAME
    for method in (InfluenceFunctions(recipe, model, solver="exact", damping=1.0), TracIn.train(recipe)):
        assert np.isfinite(method.pairwise((X[:2], Y[:2])).values).all()


def test_a_run_trains_and_answers_there(there, tmp_path):
    rows = [f"{a:.3f},{b:.3f},{'yes' if label else 'no'}" for (a, b), label in zip(X[:, :2].tolist(), Y, strict=True)]
    data = tmp_path / "table.csv"
    data.write_text("\n".join(["a,b,label", *rows]))
    start_run(RunConfig(str(data), label="label", epochs=2, replicas=3), tmp_path / "run")
    run = open_run(tmp_path / "run")
    assert next(run.model.parameters()).device.type == NAME
    assert run.influence.top(run.data("test"), k=1).k == 1


def test_auto_is_the_accelerator_where_there_is_one(monkeypatch):
    monkeypatch.delenv("TURNOVER_DEVICE", raising=False)
    with elsewhere():
        assert preferred_device().type == preferred_device("auto").type == NAME
        assert preferred_device("cpu").type == "cpu"
        assert widest_float(preferred_device()) == torch.float32
        monkeypatch.setenv("TURNOVER_DEVICE", "cpu")
        assert preferred_device().type == "cpu"
        with pytest.raises(ModelError, match=rf"'{NAME}:1' is not there: this machine has {NAME}:0"):
            preferred_device(f"{NAME}:1")
    monkeypatch.delenv("TURNOVER_DEVICE")
    assert widest_float(torch.device("cpu")) == torch.float64
    if not torch.accelerator.is_available():
        assert preferred_device().type == "cpu"


@pytest.mark.parametrize("device", ["cuda:7", "nonsense", "meta"])
def test_devices_that_are_not_there_are_named(device):
    with pytest.raises(ModelError, match=device):
        preferred_device(device)
    with pytest.raises(ModelError, match=device):
        turnover.Influence(turnover.wrap(_network(), at=["1"]), device=device)
