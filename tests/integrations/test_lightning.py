"""Masked models in Lightning: ids taken out, the keep view over every training batch, the full network elsewhere."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

pytest.importorskip("lightning", reason="Lightning is missing: pip install 'turnover[lightning]'")

import lightning

import turnover
from turnover.applications import TrainingRecord
from turnover.errors import MissingIdError, SiteNotReachedError, TrainingError, TurnOverWarning
from turnover.integrations import (
    InstancesCallback,
    LightningAfterEpoch,
    LightningLearningCurves,
    TurnOverModule,
    repeat,
)
from turnover.layers.instances import active_instances

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*have no `val_dataloader`"),
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),  # Lightning 2.6 with torch 2.13
]
ROWS = 12


def table():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(ROWS, 5, generator=generator)
    return x, (x[:, 0] > 0).long()


def loader(ids=True, size=4, **options):
    data = TensorDataset(*table())
    return DataLoader(turnover.with_instance_ids(data) if ids else data, batch_size=size, **options)


def network(replicas=1, dropout=0.0):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Dropout(dropout), nn.Linear(32, 2, bias=False))
    return turnover.wrap(net, at=["1"], replicas=replicas)


class Module(TurnOverModule):
    """As its owner would write it, but that it notes what is active."""

    def __init__(self, net):
        super().__init__()
        self.net = net
        self.trained, self.validated = [], []

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        self.trained.append((active_instances().ids.tolist(), active_instances().view))
        outputs = self.net(x)
        return functional.cross_entropy(outputs, repeat(y))

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.validated.append(active_instances())
        self.log("loss", functional.cross_entropy(self.net(x), repeat(y)))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2, weight_decay=0.0)


class WithIds(lightning.LightningModule):
    """A module that gets the ids and leaves them alone; for the callback."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def training_step(self, batch, batch_idx):
        x, y, _ = batch
        return functional.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2, weight_decay=0.0)


def fit(module, train=None, validation=None, checkpoint=None, **options):
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "accelerator": "cpu"}
    trainer = lightning.Trainer(**{"max_epochs": 1, "enable_model_summary": False, **quiet, **options})
    trainer.fit(module, loader() if train is None else train, validation, ckpt_path=checkpoint)
    return trainer


def loop(net, epochs=1, accumulate=1, batches=None):
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, weight_decay=0.0)
    batches = list(loader()) * epochs if batches is None else batches
    for place, (x, y, ids) in enumerate(batches, start=1):
        with turnover.instances(ids) as active:
            loss = functional.cross_entropy(net(x), active.repeat(y))
        (loss / accumulate).backward()
        if place % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
    return net


def assert_same(net, expected):
    for (name, value), other in zip(net.named_parameters(), expected.parameters(), strict=True):
        assert torch.allclose(value, other, atol=1e-6), name


def test_the_module_trains_every_batch_in_its_keep_view_and_validates_the_full_network():
    module = Module(network())
    trainer = fit(module, validation=loader(ids=False), val_check_interval=1)
    assert module.trained == [(list(range(start, start + 4)), "keep") for start in (0, 4, 8)]
    assert module.validated
    assert set(module.validated) == {None}
    x, y = table()
    with torch.no_grad():
        loss = functional.cross_entropy(module.net.eval()(x), y)
    assert trainer.callback_metrics["loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert active_instances() is None


def test_ids_of_dict_batches_are_taken_out_everywhere():
    def as_dicts(rows):
        x, y, ids = (torch.stack([torch.as_tensor(row[place]) for row in rows]) for place in range(3))
        return {"x": x, "y": y, "instance_id": ids}

    class Dicts(Module):
        def training_step(self, batch, batch_idx):
            assert sorted(batch) == ["x", "y"]
            return super().training_step((batch["x"], batch["y"]), batch_idx)

        def validation_step(self, batch, batch_idx):
            assert sorted(batch) == ["x", "y"]

    module = Dicts(network())
    fit(module, loader(collate_fn=as_dicts), loader(collate_fn=as_dicts))
    assert [ids for ids, _ in module.trained] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


@pytest.mark.parametrize(
    ("kind", "replicas", "accumulate"), [(Module, 1, 1), (Module, 1, 3), (Module, 3, 1), (WithIds, 1, 1)]
)
def test_weights_are_those_of_a_plain_loop(kind, replicas, accumulate):
    module = kind(network(replicas))
    callbacks = [InstancesCallback()] if kind is WithIds else []
    fit(module, max_epochs=2, accumulate_grad_batches=accumulate, callbacks=callbacks)
    assert_same(module.net, loop(network(replicas), epochs=2, accumulate=accumulate))


def test_a_resumed_training_ends_with_the_same_weights(tmp_path):
    whole, rest = Module(network()), Module(network())
    fit(whole, max_epochs=2)
    fit(Module(network()), max_epochs=1).save_checkpoint(tmp_path / "half.ckpt")
    fit(rest, max_epochs=2, checkpoint=tmp_path / "half.ckpt")
    assert len(rest.trained) == 3
    assert_same(rest.net, whole.net)


def test_curves_are_kept_and_logged_and_the_training_does_not_notice():
    x, y = table()
    curves = LightningLearningCurves((x, y, torch.arange(ROWS)), validation=(x + 1, y), every=2, model="net")
    module, quiet = Module(network(dropout=0.2)), Module(network(dropout=0.2))
    torch.manual_seed(5)
    trainer = fit(module, callbacks=[curves], max_epochs=2)
    torch.manual_seed(5)
    fit(quiet, max_epochs=2)
    assert_same(module.net, quiet.net)
    assert [point["step"] for point in curves.history] == [0, 2, 4, 6]
    module.net.eval()
    with torch.no_grad():
        for view in ("keep", "flip"):
            with turnover.instances(range(ROWS), view=view):
                loss = functional.cross_entropy(module.net(x), y)
            assert curves.history[-1][f"curve_{view}"] == pytest.approx(loss.item(), rel=1e-5)
        loss = functional.cross_entropy(module.net(x + 1), y)
    assert curves.history[-1]["curve_validation"] == pytest.approx(loss.item(), rel=1e-5)
    assert trainer.callback_metrics["curve_flip"] == pytest.approx(curves.history[-1]["curve_flip"])


def test_a_record_is_made_after_every_epoch_and_the_training_does_not_notice():
    x, y = table()
    module, quiet = Module(network(dropout=0.2)), Module(network(dropout=0.2))
    record = TrainingRecord(module.net, train=(x, y, torch.arange(ROWS)), validation=(x + 1, y))
    by_epoch = []

    def note(whole):
        with torch.no_grad():
            by_epoch.append(whole.net.eval()(x).log_softmax(1).double())
        whole.net.train()

    torch.manual_seed(5)
    fit(module, callbacks=[LightningAfterEpoch(record, model="net"), LightningAfterEpoch(note)], max_epochs=3)
    torch.manual_seed(5)
    fit(quiet, max_epochs=3)
    assert_same(module.net, quiet.net)
    assert record.epochs == 3
    expected = (1 * by_epoch[0] + 2 * by_epoch[1] + 3 * by_epoch[2]) / 6
    np.testing.assert_allclose(record.finish().full, expected, atol=1e-5)


# Bad input


def test_a_batch_without_ids_is_rejected_and_labels_are_not_taken_for_ids():
    for module, callbacks in ((Module(network()), []), (WithIds(network()), [InstancesCallback()])):
        with pytest.raises(MissingIdError, match=r"batches of 2 items .*with_instance_ids\(dataset\)"):
            fit(module, loader(ids=False), callbacks=callbacks)
    named = DataLoader([{"x": torch.zeros(5), "y": 1}] * 4, batch_size=2)
    with pytest.raises(MissingIdError, match=r"has no 'instance_id'.*with_instance_ids\(dataset\)"):
        fit(Module(network()), named)


def test_after_an_error_no_instances_are_left_active():
    class Failing(Module):
        def training_step(self, batch, batch_idx):
            raise ValueError("as it happens")

    with pytest.raises(ValueError, match="as it happens"):
        fit(Failing(network()))
    assert active_instances() is None


def test_an_epoch_that_is_cut_short_leaves_no_instances_active():
    class Short(Module):
        def on_train_batch_start(self, batch, batch_idx):
            return -1 if batch_idx == 1 else None

    module = Short(network())
    fit(module, validation=loader(ids=False), max_epochs=2)
    assert [ids for ids, _ in module.trained] == [[0, 1, 2, 3]] * 2
    assert active_instances() is None


def test_a_training_step_that_goes_around_the_masks_is_an_error():
    class Around(Module):
        def training_step(self, batch, batch_idx):
            return self.net[0](batch[0]).mean()

    with pytest.raises(SiteNotReachedError):
        fit(Around(network()))
    assert active_instances() is None


def test_options_that_leak_are_warned_of_and_curves_at_no_step_rejected():
    with pytest.warns(TurnOverWarning, match=r"gradient_clip_val=1"):
        fit(Module(network()), gradient_clip_val=1.0)
    fit(Module(network()), gradient_clip_val=1.0, gradient_clip_algorithm="value")
    with pytest.raises(TrainingError, match=r"`every` must be an integer >= 1, got 0"):
        LightningLearningCurves(table(), every=0)
