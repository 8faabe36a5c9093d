"""What the engine promises beyond equality: independence of how it computes, a true null, clear errors."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import turnover
from tests.influence.models import mlp, trained
from turnover.errors import (
    BatchError,
    InfluenceError,
    InstanceIdError,
    ModelError,
    TurnOverWarning,
    WeakSignalWarning,
)
from turnover.influence import Curvature, ProcessExecutor, TurnOver
from turnover.influence.turnover_dropout import own_rows


def queries(count: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(count, 6), torch.arange(count) % 3


def really_trained(keep: float = 0.5, at: tuple[str, ...] = ("1", "3")) -> tuple[nn.Module, object]:
    torch.manual_seed(0)
    x = torch.randn(200, 6)
    data = turnover.with_instance_ids(TensorDataset(x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long()))
    model = turnover.wrap(mlp(48), at=list(at), keep=keep)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(8):
        for inputs, labels, ids in DataLoader(data, batch_size=32, shuffle=True):
            with turnover.instances(ids):
                loss = functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model, data


@pytest.mark.parametrize("at", [["3"], ["1", "3"]], ids=["last layer", "generic"])
def test_scores_do_not_depend_on_chunks_threads_or_order_of_queries(at):
    model, (x, y), ids = trained(mlp(), at=at), queries(7), range(50)
    usual = turnover.Influence(model).pairwise((x, y), ids=ids).values
    tight = turnover.Influence(model, memory=30_000).pairwise((x, y), ids=ids).values
    assert np.abs(usual - tight).max() < 1e-5
    threads = torch.get_num_threads()
    torch.set_num_threads(3 - threads if threads < 3 else 1)
    alone = turnover.Influence(model).pairwise((x, y), ids=ids).values
    torch.set_num_threads(threads)
    assert np.abs(usual - alone).max() < 1e-5
    turned = turnover.Influence(model).pairwise((x.flip(0), y.flip(0)), ids=ids).values
    assert np.abs(usual - turned[:, ::-1]).max() < 1e-5
    shuffled = turnover.Influence(model).pairwise((x, y), ids=list(ids)[::-1]).values
    assert np.abs(usual - shuffled[::-1]).max() < 1e-5
    loader = DataLoader(TensorDataset(x, y), batch_size=3)
    assert np.abs(usual - turnover.Influence(model).pairwise(loader, ids=ids).values).max() < 1e-5
    assert np.abs(usual - turnover.Influence(model).pairwise(TensorDataset(x, y), ids=ids).values).max() < 1e-5


@pytest.mark.parametrize("against", ["keep", "full"])
@pytest.mark.parametrize("keep", [0.3, 0.5, 0.9])
def test_never_trained_ids_have_mean_score_0(keep, against):
    model, _ = really_trained(keep)
    inf = turnover.Influence(model, estimator=TurnOver(against=against))
    fresh = torch.arange(2**61, 2**61 + 3000)  # trained by nobody, and not those that centring uses
    scores = inf.pairwise(queries(), ids=fresh)
    # Both means have errors: that of the fresh ids and that of the null ids which gave the offset.
    error = scores.values.std(0, ddof=1) * np.sqrt(1 / 3000 + 1 / len(scores.null))
    assert (np.abs(scores.values.mean(0)) < 4 * error).all()
    if keep == 0.9 or against == "full":
        raw = turnover.Influence(model, estimator=TurnOver(against=against, center=False)).pairwise(
            queries(), ids=fresh
        )
        assert (np.abs(raw.values.mean(0)) > 10 * error).any()


def test_mean_and_top_agree_with_pairwise():
    model, data = really_trained()
    inf = turnover.Influence(model, estimator="tod", train=data)
    asked = queries(9)
    pairs = inf.pairwise(asked)
    assert np.allclose(inf.mean(asked).values, pairs.values.mean(1), atol=1e-5)
    assert inf.top(asked, k=4).equals(pairs.top(4)) or np.array_equal(
        inf.top(asked, k=4).helpful_ids, pairs.top(4).helpful_ids
    )
    assert np.allclose(inf.mean(asked).stderr, pairs.null.mean(1).std(ddof=1), rtol=1e-3)


def test_top_of_many_tiles_equals_the_top_of_all(monkeypatch):
    model = trained(mlp(), at=["1", "3"])
    monkeypatch.setattr("turnover.influence._answers._IDS_PER_TILE", 7)
    monkeypatch.setattr("turnover.influence.turnover_dropout.estimator.QUERIES_PER_BLOCK", 2)
    inf, asked = turnover.Influence(model), queries()
    pairs = inf.pairwise(asked, ids=range(40))
    top = inf.top(asked, k=3, ids=range(40))
    assert np.array_equal(top.helpful_ids, pairs.top(3).helpful_ids)
    assert np.array_equal(top.harmful_ids, pairs.top(3).harmful_ids)
    assert np.allclose(inf.mean(asked, ids=range(40)).values, pairs.values.mean(1), atol=1e-5)


def test_top_by_label_lists_only_that_label_and_excluded_ids_never():
    model, data = really_trained()
    inf = turnover.Influence(model, estimator="tod", train=data)
    x, y = queries()
    labels = np.array([int(row[1]) for row in data])
    top = inf.top((x, y), k=5, label=1)
    assert (labels[top.helpful_ids] == 1).all()
    predicted = inf.top(x, k=5, label="predicted")
    with torch.no_grad():
        said = model.eval()(x).argmax(1).numpy()
    assert (labels[predicted.helpful_ids] == said[:, None]).all()
    by_hand = inf.top((x, y), k=5, label=1, labels=labels)
    assert np.array_equal(by_hand.helpful_ids, top.helpful_ids)
    left_out = top.helpful_ids[0, 0]
    again = inf.top((x, y), k=5, label=1, exclude=[left_out])
    assert left_out not in again.helpful_ids
    assert left_out not in again.harmful_ids


def test_queries_without_targets_are_judged_at_the_predicted_label():
    model, data = really_trained()
    inf = turnover.Influence(model, estimator="tod", train=data)
    x, _ = queries()
    with torch.no_grad():
        said = model.eval()(x).argmax(1)
    assert np.allclose(inf.pairwise(x).values, inf.pairwise((x, said)).values)
    assert np.allclose(inf.pairwise((x, 2 - said), at_label="predicted").values, inf.pairwise(x).values)
    with pytest.raises(InfluenceError, match="the queries have no targets"):
        inf.pairwise(x, at_label="given")


def test_self_influence_finds_wrong_labels_and_the_model_keeps_its_mode():
    model, data = really_trained()
    model.train()
    inf = turnover.Influence(model, estimator="tod", train=data)
    scores = inf.self_influence()
    assert len(scores) == 200
    assert scores.values.mean() > 0
    assert all(module.training for module in model.modules())
    assert inf.out_of_sample().probs.shape == (200, 3)


def test_a_shuffling_loader_that_drops_rows_answers_for_all_rows_in_the_order_of_the_data():
    model, data = really_trained()
    whole = turnover.Influence(model, estimator="tod", train=data)
    loader = DataLoader(data, batch_size=64, shuffle=True, drop_last=True)
    loaded = turnover.Influence(model, estimator="tod", train=loader)
    assert np.array_equal(loaded.out_of_sample().ids, np.arange(200))
    assert np.allclose(loaded.out_of_sample().probs, whole.out_of_sample().probs, atol=1e-6)
    assert np.allclose(loaded.self_influence().values, whole.self_influence().values, atol=1e-5)
    assert loaded.top(queries(), k=2, label=1).helpful_ids.shape == (5, 2)


def test_ids_that_were_never_trained_are_noticed_by_their_self_influence():
    model, data = really_trained()
    strangers = turnover.with_instance_ids([(row[0], row[1], f"row {row[2]}") for row in data], id=2)
    rows = [(x, y, number) for x, y, _, number in strangers]
    batch = torch.stack([r[0] for r in rows]), torch.stack([r[1] for r in rows]), torch.tensor([r[2] for r in rows])
    with pytest.warns(WeakSignalWarning, match="cannot be told from that of null ids"):
        turnover.Influence(model).self_influence(batch)


OTHER_IDS = {
    "shuffled": lambda rows, epoch: torch.randperm(200, generator=torch.Generator().manual_seed(1))[rows],
    "places in the batch": lambda rows, epoch: torch.arange(len(rows)),
    "new in every epoch": lambda rows, epoch: rows + 1000 * (epoch + 1),
}
QUESTIONS = {
    "pairwise": lambda inf: inf.pairwise(queries()),
    "top": lambda inf: inf.top(queries(), k=2),
    "mean": lambda inf: inf.mean(queries()),
}


def trained_under(ids_of, *, keep=0.5):
    """Return a model that learned random labels under these ids, and its rows with the ids 0 to 199."""
    torch.manual_seed(0)
    x, y = torch.randn(200, 6), torch.randint(0, 3, (200,))
    model = turnover.wrap(mlp(), at=["1", "3"], keep=keep)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(30):
        for rows in torch.randperm(200).split(50):
            with turnover.instances(ids_of(rows, epoch)):
                loss = torch.nn.functional.cross_entropy(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval(), (x, y, torch.arange(200))


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("ids", OTHER_IDS)
def test_ids_of_another_training_are_noticed_before_any_score_of_theirs(ids, question):
    model, data = trained_under(OTHER_IDS[ids])
    inf = turnover.Influence(model, train=data, estimator="tod")
    with pytest.warns(WeakSignalWarning, match=r"scores of these ids are noise.*with_instance_ids"):
        QUESTIONS[question](inf)
    QUESTIONS[question](inf)  # once is enough


@pytest.mark.parametrize("keep", [0.5, 0.7])
@pytest.mark.parametrize("form", ["tensors", "data set", "loader", "dicts"])
def test_ids_of_the_training_pass_in_whatever_form_rows_are_given(form, keep, monkeypatch):
    model, (x, y, ids) = trained_under(lambda rows, epoch: rows, keep=keep)
    rows = turnover.with_instance_ids(TensorDataset(x, y))
    data = {
        "tensors": (x, y, ids),
        "data set": rows,
        "loader": DataLoader(rows, batch_size=32, shuffle=True),
        "dicts": {"input": x, "labels": y, "instance_id": ids},
    }[form]
    checked = []
    monkeypatch.setattr(own_rows, "_warn_if_weak", lambda *_, **__: checked.append("weak"))
    monkeypatch.setattr(own_rows, "_SURE", 1e9)
    inf = turnover.Influence(model, train=data, estimator="tod")
    inf.mean(queries())
    assert checked == ["weak"]  # the check looked at all rows: it was not skipped
    monkeypatch.undo()
    turnover.Influence(model, train=data, estimator="tod").mean(queries())


def test_an_estimator_that_uses_no_masks_does_not_ask_whether_they_match():
    model, data = trained_under(OTHER_IDS["shuffled"])
    turnover.Influence(model, train=data, estimator="curvature").mean(queries())


def test_an_unknown_label_lists_those_that_exist():
    model, data = really_trained()
    with pytest.raises(InfluenceError, match=r"no instance has the label 77. There are 0, 1, 2"):
        turnover.Influence(model, estimator="tod", train=data).top(queries(), label=77)


def test_a_model_that_fails_on_the_first_query_says_what_queries_look_like():
    inf = turnover.Influence(trained(mlp(), at=["1", "3"]))
    with pytest.raises(InfluenceError, match=r"fails on the first query \(RuntimeError: mat1 and mat2"):
        inf.pairwise((torch.randn(2, 9), torch.tensor([0, 1])), ids=range(5))


def test_two_models_have_the_spread_of_never_trained_ids_as_their_error():
    models = [trained(mlp(), at=["1", "3"], seed=seed) for seed in (1, 2)]
    scores = turnover.Influence(models).pairwise(queries(), ids=range(8))
    assert np.allclose(scores.stderr[0], scores.null.std(0, ddof=1), rtol=1e-4)


def test_out_of_sample_of_a_regression_is_its_outputs():
    net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))
    x, y, ids = torch.randn(9, 6), torch.randn(9, 2), torch.arange(9)
    model = trained(net, at=["1"])
    found = turnover.Influence(model).out_of_sample((x, y, ids))
    with torch.no_grad(), turnover.instances(ids, view="flip"):
        assert np.allclose(found.probs, model(x).numpy(), atol=1e-6)


def test_variable_lengths_are_asked_one_by_one():
    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.up, self.act, self.head = nn.Embedding(9, 6), nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3)

        def forward(self, tokens):
            return self.head(self.act(self.up(self.embed(tokens).mean(1))))

    model = trained(Mean(), at=["act"])
    rows = [(torch.randint(9, (length,)), torch.tensor(length % 3)) for length in (2, 5, 3)]
    scores = turnover.Influence(model).pairwise(rows, ids=range(6))
    alone = turnover.Influence(model).pairwise((rows[1][0][None], rows[1][1][None]), ids=range(6))
    assert np.allclose(scores.values[:, 1], alone.values[:, 0], atol=1e-5)


@pytest.mark.parametrize("is_stored", [False, True], ids=["in memory", "in a folder"])
def test_nan_is_named_by_query_and_instance_and_the_rest_is_finished(is_stored, tmp_path, monkeypatch):
    monkeypatch.setattr("turnover.influence._answers._IDS_PER_STORED_TILE", 3)
    out = {"out": tmp_path / "scores"} if is_stored else {}

    def loss(outputs, targets):
        values = functional.cross_entropy(outputs, targets, reduction="none")
        return torch.where(targets == 2, torch.nan, values)

    model, (x, y) = trained(mlp(), at=["1", "3"]), queries(3)
    with pytest.warns(TurnOverWarning, match=r"4 of 12 .* instance 5 on query 2, .* instance 8 on query 2"):
        scores = turnover.Influence(model, loss=loss).pairwise((x, y), ids=[5, 6, 7, 8], **out)
    assert np.isfinite(scores.values[:, :2]).all()


def test_one_failed_query_does_not_spoil_means_and_is_left_out_of_top_lists():
    def loss(outputs, targets):
        values = functional.cross_entropy(outputs, targets, reduction="none")
        return torch.where((targets == 2) & (outputs[:, 0] > 0), torch.nan, values)

    model, (x, y) = trained(mlp(), at=["1", "3"]), queries(6)
    inf = turnover.Influence(model, loss=loss)
    with pytest.warns(TurnOverWarning, match="are not finite"):
        pairs = inf.pairwise((x, y), ids=range(30))
    assert np.isfinite(pairs.values[:, y.numpy() != 2]).all()
    assert np.isfinite(inf.mean((x, y), ids=range(30)).values).all()
    with pytest.warns(TurnOverWarning, match="skipped in the lists"):
        inf.top((x, y), k=2, ids=range(30))


def test_padding_in_a_later_query_only_is_noticed():
    from tests.influence.models import Encoder

    model = trained(Encoder(), at=["encoder.layers.*.dropout"])
    tokens, padding = torch.randint(30, (3, 7)), torch.zeros(3, 7, dtype=torch.bool)
    padding[2, 4:] = True
    scores = turnover.Influence(model).pairwise((tokens, padding, torch.tensor([0, 1, 2])), ids=[5])
    assert np.isfinite(scores.values).all()


def test_a_model_that_was_never_trained_with_its_masks_is_warned_of():
    with pytest.warns(TurnOverWarning, match="the model was never trained with its masks"):
        turnover.Influence(turnover.wrap(mlp(), at=["1"]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"measure": "speed"}, "measure='speed' is unknown"),
        ({"loss": 3}, "loss= must be a function, got 3"),
        ({"estimator": TurnOver(sites=["9"])}, "must be sites of this model, got '9'. Its sites: '1', '3'"),
        ({"memory": 0}, "memory must be a number of bytes >= 1, got 0"),
        ({"dtype": torch.int8}, "dtype=torch.int8 is not supported"),
        ({"executor": "auto"}, "executor= must be an object that computes tiles, got 'auto'. Give .*RayExecutor"),
        ({"executor": ProcessExecutor}, "executor= must be an object .*, got <class .*ProcessExecutor"),
        ({"executor": []}, r"executor= must be an object that computes tiles, got \[\]"),
        ({"estimator": TurnOver(sites=3)}, "must be sites of this model, got 3. Its sites: '1', '3'"),
        ({"targets": 3}, "targets must be the name of the target in dict batches, got 3"),
        ({"targets": ""}, "targets must be the name of the target in dict batches, got ''"),
    ],
    ids=str,
)
def test_bad_options_are_refused_at_once(options, message):
    with pytest.raises(InfluenceError, match=message):
        turnover.Influence(trained(mlp(), at=["1", "3"]), **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda inf: inf.pairwise(queries()), "which instances"),
        (lambda inf: inf.pairwise((torch.empty(0, 6), torch.empty(0)), ids=[1]), "there are no queries"),
        (lambda inf: inf.top(queries(), k=0, ids=[1]), "k must be an integer >= 1, got 0"),
        (lambda inf: inf.top(queries(), ids=[1, 2], label=1), "label= needs the labels"),
        (lambda inf: inf.top(queries(), ids=[1, 2], label=1, labels=[1]), "1 labels for 2 instances"),
        (lambda inf: inf.pairwise(queries(), ids=[1], at_label="best"), "at_label='best' is unknown"),
        (lambda inf: inf.pairwise(3, ids=[1]), "a int holds no rows"),
        (lambda inf: inf.self_influence(TensorDataset(*queries())), "has no instance ids"),
        (lambda inf: inf.self_influence(), "which rows"),
    ],
)
def test_bad_questions_are_refused_with_the_cure(call, message):
    with pytest.raises((BatchError, InfluenceError), match=message):
        call(turnover.Influence(trained(mlp(), at=["1", "3"])))


def test_float_ids_and_ids_unknown_to_train_are_refused():
    model, data = really_trained()
    inf = turnover.Influence(model, estimator="tod", train=data)
    with pytest.raises(InfluenceError, match="ids 200, 999 are not in train"):
        inf.pairwise(queries(), ids=[3, 200, 999])
    with pytest.raises(InstanceIdError, match="must be integers"):
        inf.pairwise(queries(), ids=[0.5])


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (nn.CrossEntropyLoss(), r"the loss returned \[\] for 4 rows"),
        (lambda o, t: torch.zeros(3), r"the loss returned \[3\] for 4 rows"),
        (lambda o, t: 1.0, "the loss returned float"),
    ],
)
def test_a_loss_that_is_not_per_row_is_refused_before_the_work(loss, message):
    inf = turnover.Influence(trained(mlp(), at=["1", "3"]), loss=loss)
    with pytest.raises(BatchError, match=message):
        inf.pairwise(queries(), ids=range(100))


def test_members_need_different_seeds_and_masks():
    one, two = trained(mlp(), at=["1"], seed=1), trained(mlp(), at=["1"], seed=1)
    with pytest.raises(InfluenceError, match="models 0 and 1 have the same mask seed 1"):
        turnover.Influence([one, two])
    with pytest.raises(InfluenceError, match="an empty list of models"):
        turnover.Influence([])
    with pytest.raises(ModelError, match="this model was never wrapped"):
        turnover.Influence(mlp())


def test_provenance_says_what_the_scores_came_from():
    model, asked = trained(mlp(), at=["1", "3"]), queries()
    one = turnover.Influence(model).pairwise(asked, ids=range(4)).provenance
    other = turnover.Influence(model, estimator=TurnOver(against="full")).pairwise(asked, ids=range(4)).provenance
    assert one["weights"] == other["weights"]
    assert one["options"] != other["options"]
    assert one["queries"] != turnover.Influence(model).pairwise(queries(), ids=range(4)).provenance["queries"]
    assert '"sites"' in one["recipes"][0]


def test_labels_in_the_place_of_ids_are_suspected():
    x, y = queries(40)
    engine = turnover.Influence(trained(mlp(), at=["3"]), train=(x, y), estimator="tod")
    with pytest.warns(TurnOverWarning, match="40 rows have 3 different ids.*If it is the label"):
        engine.pairwise(queries())


def test_training_tensors_that_change_between_questions_are_named():
    x, y = queries(40)
    engine = turnover.Influence(
        trained(mlp(), at=["3"]), train=(x, y, torch.arange(40)), estimator=Curvature(temperature=1.0)
    )
    engine.mean(queries())
    x += 1
    with pytest.raises(InfluenceError, match=r"changed since the first question.*Make a new engine"):
        engine.mean(queries())


@pytest.mark.parametrize(
    ("model", "device", "message"),
    [("model.pt", None, "must be a torch.nn.Module, got 'model.pt'"), (mlp(), "gpu", "device 'gpu' is unknown")],
)
def test_what_is_not_a_model_or_a_device_is_named(model, device, message):
    with pytest.raises((InfluenceError, ModelError), match=message):
        turnover.Influence(model, device=device)
