"""Masked models under the Trainer of Hugging Face."""

import numpy as np
import pytest
import torch
from torch.nn import functional

pytest.importorskip("accelerate", reason="Trainer needs accelerate: pip install 'turnover[text]'")
pytest.importorskip("datasets", reason="datasets is missing: pip install 'turnover[text]'")
pytest.importorskip("transformers", reason="transformers is missing: pip install 'turnover[text]'")

import transformers

import turnover
from tests.integrations.tiny_text import arguments, bert, masked, pad, rows, trained
from turnover.applications import TrainingRecord
from turnover.errors import InstancesError, MissingIdError, TrainingError, TurnOverWarning
from turnover.integrations import HFAfterEpoch, HFLearningCurves, TurnOverTrainer, measure_curves
from turnover.integrations.hf_training import _LossOverRows
from turnover.layers.instances import active_instances

PARTS = ("input_ids", "attention_mask", "label")


def numbered(count=24):
    return turnover.with_instance_ids(rows(count))


def whole(data):
    return pad([{name: row[name] for name in PARTS} for row in data])


def train(folder, model, data=None, kind=TurnOverTrainer, **options):
    resume = options.pop("resume", None)
    given = {name: options.pop(name) for name in ("eval_dataset", "compute_loss_func") if name in options}
    trainer = kind(model, arguments(folder, **options), pad, numbered() if data is None else data, **given)
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def loop(model, steps, size=4, accumulate=1, smoothing=0.0):
    """The slow twin: a plain loop in the order of the data."""
    model.train()
    learns = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(learns, lr=1e-2, weight_decay=0.0)
    data = numbered()
    for step in range(steps):
        for part in range(accumulate):
            start = (step * accumulate + part) * size % len(data)
            chosen = [data[place] for place in range(start, start + size)]
            batch = whole(chosen)
            labels = batch.pop("labels")
            with turnover.instances([row["instance_id"] for row in chosen]) as active:
                logits = model(**batch).logits
                loss = functional.cross_entropy(logits, active.repeat(labels), label_smoothing=smoothing)
                (loss / accumulate).backward()
        optimizer.step()
        optimizer.zero_grad()
    return trained(model)


def assert_same(weights, expected, atol=1e-5):
    assert weights.keys() == expected.keys()
    assert max(float((weights[name] - expected[name]).abs().max()) for name in expected) < atol


# Training


def test_every_batch_trains_its_own_rows_and_no_column_that_the_model_does_not_take_reaches_the_collator(tmp_path):
    seen = []

    class Watching(TurnOverTrainer):
        def compute_loss(self, model, inputs, *args, **options):
            active = active_instances()
            seen.append((active.ids.tolist(), active.view, sorted(inputs)))
            return super().compute_loss(model, inputs, *args, **options)

    train(tmp_path, masked(), kind=Watching, max_steps=2)  # `pad` itself rejects other columns
    names = ["attention_mask", "input_ids", "labels"]
    assert seen == [([0, 1, 2, 3], "keep", names), ([4, 5, 6, 7], "keep", names)]


def test_shuffled_rows_keep_their_ids(tmp_path):
    seen = {}

    class Watching(TurnOverTrainer):
        def compute_loss(self, model, inputs, *args, **options):
            for number, tokens, mask in zip(
                active_instances().ids.tolist(), inputs["input_ids"], inputs["attention_mask"], strict=True
            ):
                seen[number] = tokens[mask.bool()].tolist()
            return super().compute_loss(model, inputs, *args, **options)

    train(tmp_path, masked(), kind=Watching, num_train_epochs=1, train_sampling_strategy="random")
    assert list(seen) != sorted(seen)
    assert seen == {number: row["input_ids"] for number, row in enumerate(rows())}


def test_accumulated_gradients_are_those_of_a_plain_loop(tmp_path):
    def mean_loss(outputs, labels, num_items_in_batch=None):
        return functional.cross_entropy(outputs.logits, labels, reduction="sum") / num_items_in_batch

    options = {"gradient_accumulation_steps": 3, "weight_decay": 0.0, "compute_loss_func": mean_loss}
    assert_same(trained(train(tmp_path, masked(), max_steps=4, **options).model), loop(masked(), 4, accumulate=3))


def test_a_resumed_training_ends_with_the_same_weights_and_masks(tmp_path):
    options = {"max_steps": 6, "save_strategy": "steps", "save_steps": 3}
    dropout = {"hidden_dropout_prob": 0.1}
    whole = train(tmp_path / "whole", masked(**dropout), **options)
    rest = train(tmp_path / "rest", masked(**dropout), **options, resume=str(tmp_path / "whole" / "checkpoint-3"))
    assert rest.state.global_step == 6
    assert_same(trained(rest.model), trained(whole.model), atol=1e-6)


def test_activation_checkpointing_changes_nothing(tmp_path):
    plain = train(tmp_path, masked(), max_steps=3)
    recomputed = train(tmp_path, masked(), max_steps=3, gradient_checkpointing=True)
    assert_same(trained(recomputed.model), trained(plain.model))


# Replicas


@pytest.mark.parametrize(
    ("sites", "smoothing", "accumulate"),
    [({"at": ["dropout"]}, 0.2, 1), ({"at": ["dropout"]}, 0.0, 2), ({"adapters": 8}, 0.0, 1)],
)
def test_replicas_train_as_in_a_plain_loop(tmp_path, sites, smoothing, accumulate):
    model, twin = (turnover.wrap(bert(), replicas=3, **sites) for _ in range(2))
    options = {"label_smoothing_factor": smoothing, "gradient_accumulation_steps": accumulate}
    train(tmp_path, model, max_steps=3, weight_decay=0.0, **options)
    assert_same(trained(model), loop(twin, 3, smoothing=smoothing, accumulate=accumulate), atol=1e-4)


def test_replicas_are_evaluated_as_their_mean(tmp_path):
    model = turnover.wrap(bert(), at=["dropout"], replicas=3)
    trainer = train(tmp_path, model, max_steps=2, eval_dataset=rows(6, seed=1))
    batch = whole(rows(6, seed=1))
    labels = batch.pop("labels")
    with torch.no_grad():
        logits = model.eval()(**batch).logits
    assert len(logits) == 6
    assert trainer.evaluate()["eval_loss"] == pytest.approx(functional.cross_entropy(logits, labels).item(), rel=1e-5)


def gpt2():
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": 40, "n_positions": 16}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))


@pytest.mark.parametrize(
    ("model", "labels"),
    [
        (bert(labels=1, problem_type="regression"), torch.randn(5)),
        (bert(labels=3, problem_type="single_label_classification"), torch.arange(5) % 3),
        (bert(labels=3, problem_type="multi_label_classification"), torch.randint(2, (5, 3)).float()),
        (gpt2(), torch.randint(40, (5, 7)).masked_fill(torch.arange(7) > 4, -100)),
    ],
    ids=["regression", "one label", "several labels", "causal"],
)
def test_the_loss_outside_the_model_is_that_inside(model, labels):
    outputs = model.eval()(torch.randint(40, (5, 7)), labels=labels)
    assert _LossOverRows(model, None)(outputs, labels).item() == pytest.approx(outputs.loss.item(), rel=1e-6)


# Evaluation and curves


def test_evaluation_is_that_of_the_full_network_with_ids_or_without(tmp_path):
    trainer = train(tmp_path, masked(), max_steps=3)
    loss = trainer.model.eval()(**whole(rows())).loss.item()
    for data in (numbered(), rows()):
        assert trainer.evaluate(data)["eval_loss"] == pytest.approx(loss, rel=1e-4)
    assert trainer.predict(numbered()).predictions.shape == (24, 2)


def test_a_record_is_made_after_every_epoch_and_the_training_does_not_notice(tmp_path):
    model, by_epoch = masked(), []
    batch = whole(numbered())
    record = TrainingRecord(model, train=batch, validation=whole(rows(12, seed=1)))

    def note(given):
        with torch.no_grad():
            outputs = given.eval()(**{name: value for name, value in batch.items() if name != "labels"})
        by_epoch.append(outputs.logits.log_softmax(1).double())
        given.train()

    trainer = TurnOverTrainer(model, arguments(tmp_path, num_train_epochs=2, max_steps=-1), pad, numbered())
    trainer.add_callback(HFAfterEpoch(record))
    trainer.add_callback(HFAfterEpoch(note))
    trainer.train()
    assert record.epochs == 2
    np.testing.assert_allclose(record.finish().full, (by_epoch[0] + 2 * by_epoch[1]) / 3, atol=1e-5)
    quiet = train(tmp_path, masked(), num_train_epochs=2, max_steps=-1)
    assert_same(trained(trainer.model), trained(quiet.model), atol=1e-7)


def test_curves_are_logged_and_the_training_does_not_notice(tmp_path):
    def run(curves):
        trainer = TurnOverTrainer(
            masked(hidden_dropout_prob=0.1),
            arguments(tmp_path, max_steps=4, per_device_eval_batch_size=4),
            pad,
            numbered(),
            rows(10, seed=1),
        )
        callback = HFLearningCurves(trainer, rows=6, every=2)
        if curves:
            trainer.add_callback(callback)
        trainer.train()
        return trainer, callback

    quiet, _ = run(False)
    trainer, callback = run(True)
    assert_same(trained(trainer.model), trained(quiet.model), atol=1e-7)
    losses = [[entry["step"] for entry in run.state.log_history if "loss" in entry] for run in (quiet, trainer)]
    assert losses == [[1, 2, 3, 4]] * 2  # the Trainer's own log goes on
    names = {"curve_keep", "curve_flip", "curve_validation"}
    logged = [entry for entry in trainer.state.log_history if names <= entry.keys()]
    assert [entry["step"] for entry in logged] == [entry["step"] for entry in callback.history] == [0, 2, 4]
    assert all(
        entry[name] == point[name] for entry, point in zip(logged, callback.history, strict=True) for name in names
    )

    sample = [numbered()[place] for place in (0, 4, 8, 12, 16, 20)]
    batch = whole(sample)
    labels = batch.pop("labels")
    trainer.model.eval()
    for view in ("keep", "flip"):
        with turnover.instances([row["instance_id"] for row in sample], view=view):
            loss = functional.cross_entropy(trainer.model(**batch).logits, labels)
        assert callback.history[-1][f"curve_{view}"] == pytest.approx(loss.item(), rel=1e-4)
    held_out = whole([rows(10, seed=1)[int(place * 10 / 6)] for place in range(6)])
    assert callback.history[-1]["curve_validation"] == pytest.approx(trainer.model(**held_out).loss.item(), rel=1e-4)


def test_measuring_curves_leaves_every_module_in_its_mode():
    model = masked().train()
    model.bert.encoder.layer[0].eval()
    modes = [module.training for module in model.modules()]
    batch = {**whole(rows()), "instance_id": torch.arange(24)}
    measure_curves(model, train=batch)
    assert [module.training for module in model.modules()] == modes


def test_curves_of_no_rows_or_no_steps_are_rejected():
    with pytest.raises(TrainingError, match=r"`every` must be an integer >= 1, got 0"):
        HFLearningCurves(None, every=0)
    with pytest.raises(turnover.TurnOverError, match="have no ids"):
        measure_curves(masked(), train=whole(rows()))


# Bad input


def test_tokenized_data_without_ids_is_rejected_before_training(tmp_path):
    raw = numbered()
    tokenized = raw.map(lambda row: {name: row[name] for name in PARTS}, remove_columns=raw.column_names)
    with pytest.raises(MissingIdError, match=r"only the columns 'input_ids', .*with_instance_ids\(tokenized\)"):
        train(tmp_path, masked(), tokenized, max_steps=1)


def test_rows_without_ids_are_rejected_and_clipping_is_warned_of(tmp_path):
    with pytest.warns(TurnOverWarning, match=r"max_grad_norm=1.0.*TrainingArguments\(max_grad_norm=0\)"):
        train(tmp_path, masked(), max_steps=1, max_grad_norm=1.0)
    plain = [{name: row[name] for name in PARTS} for row in rows()]
    with pytest.raises(MissingIdError, match=r"the training batch has no 'instance_id', only 'input_ids'"):
        train(tmp_path, masked(), plain, max_steps=1)
    plain[1]["instance_id"] = 5
    with pytest.raises(MissingIdError, match=r"3 of 4 rows have no 'instance_id'"):
        train(tmp_path, masked(), plain, max_steps=1)


def test_a_plain_trainer_that_drops_the_ids_does_not_train_silently(tmp_path):
    with pytest.raises(InstancesError, match=r"turnover\.instances.*integrations\.TurnOverTrainer"):
        train(tmp_path, masked(), kind=transformers.Trainer, max_steps=1)
