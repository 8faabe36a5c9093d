"""A plain PyTorch loop on handwritten digits: two lines more than without turn-over dropout.

Run: python examples/plain_loop.py
Needs: pip install 'turnover[sklearn]'
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import turnover
from turnover.integrations import measure_curves


def main(rows=1500, epochs=20):
    """Train, and return the learning curves, the accuracy and the rows that made the first test prediction."""
    torch.manual_seed(0)
    digits = load_digits()
    x, y = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
    data = turnover.with_instance_ids(TensorDataset(x[:rows], y[:rows]))
    test = x[-200:], y[-200:]
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10, bias=False))
    model = turnover.wrap(model, at=["1"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    curves = []
    for epoch in range(epochs):
        for inputs, targets, ids in DataLoader(data, batch_size=64, shuffle=True):
            with turnover.instances(ids):
                loss = functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        curves.append(measure_curves(model, train=(x[:rows], y[:rows], torch.arange(rows)), validation=test))
        print(f"epoch {epoch + 1}", *(f"{name} {value:.4f}" for name, value in curves[-1].items()), sep="  ")

    model.eval()
    accuracy = (model(test[0]).argmax(1) == test[1]).float().mean().item()
    top = turnover.Influence(model, train=data).top((test[0][:1], test[1][:1]), k=5)
    helpful = top.helpful_ids[0].tolist()
    print(f"accuracy {accuracy:.3f}; a {test[1][0]} is supported most by rows {helpful}, labeled {y[helpful].tolist()}")
    return {"curves": curves, "accuracy": accuracy, "helpful": helpful}


if __name__ == "__main__":
    main()
