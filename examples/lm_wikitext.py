"""A feed-forward language model on WikiText-2, and which words it memorized: self-influence of every position.

Run: TURNOVER_DATA=/path/to/data python examples/lm_wikitext.py [--paper]
Needs: wikitext-2/train.txt and valid.txt there, words separated by spaces.
"""

import os
import sys
from pathlib import Path

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, Subset

import turnover
from turnover.runs import ContextWindows, FeedForwardLM, Vocabulary, language_model_sites

SMALL = {"lines": 600, "size": 128, "epochs": 4, "rate": 0.5, "batch": 64}
PAPER = {"lines": None, "size": 650, "epochs": 40, "rate": 20.0, "batch": 512}


def load(split, lines):
    """Return the first lines of a split of WikiText-2."""
    file = Path(os.environ.get("TURNOVER_DATA", "data")) / "wikitext-2" / f"{split}.txt"
    return file.read_text(encoding="utf-8").splitlines()[:lines]


@torch.no_grad()
def perplexity(model, data):
    """Return the perplexity of the whole network."""
    losses = [functional.cross_entropy(model(x), y, reduction="none") for x, y in DataLoader(data, batch_size=512)]
    return torch.cat(losses).mean().exp().item()


def main(*, lines, size, epochs, rate, batch, shown=300):
    """Train, print the words of largest self-influence, and return the perplexity and the scores of these words."""
    torch.manual_seed(0)
    words = Vocabulary.of(load("train", lines))
    train, valid = (ContextWindows(words.encode(load(split, lines)), context=4) for split in ("train", "valid"))
    data = turnover.with_instance_ids(train)
    model = turnover.wrap(FeedForwardLM(len(words), embedding=size, hidden=size), at=language_model_sites())
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, weight_decay=1e-5)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.25, patience=0)
    for _ in range(epochs):
        for x, y, ids in DataLoader(data, batch_size=batch, shuffle=True):
            with turnover.instances(ids):
                loss = functional.cross_entropy(model.train()(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step(found := perplexity(model.eval(), valid))
        print(f"validation perplexity {found:.0f}", flush=True)
    scores = turnover.Influence(model, train=data).self_influence(Subset(data, range(shown)))
    print("memorized:", *(words.words[data[place][1]] for place in scores.values.argsort()[::-1][:20]))
    return perplexity(model, valid), scores


if __name__ == "__main__":
    main(**(PAPER if "--paper" in sys.argv else SMALL))
