"""A loop with Accelerate on handwritten digits, in one process or several.

Run: accelerate launch examples/accelerate_loop.py, or python examples/accelerate_loop.py
Needs: pip install 'turnover[text,sklearn]'
"""

import torch
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import turnover


def main(rows=1500, epochs=20):
    """Train, and return the accuracy and the rows that were memorized most."""
    torch.manual_seed(0)
    accelerator = Accelerator(gradient_accumulation_steps=2)
    digits = load_digits()
    x, y = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
    data = turnover.with_instance_ids(TensorDataset(x[:rows], y[:rows]))  # ids first, then prepare
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10, bias=False))
    model = turnover.wrap(model, at=["1"], replicas=4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loader = DataLoader(data, batch_size=32, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(epochs):
        for inputs, targets, ids in loader:
            with accelerator.accumulate(model), turnover.instances(ids) as now:
                outputs = model(inputs)
                accelerator.backward(functional.cross_entropy(outputs, now.repeat(targets)))
                optimizer.step()
                optimizer.zero_grad()

    net = accelerator.unwrap_model(model).eval().cpu()
    accuracy = (net(x[-200:]).argmax(1) == y[-200:]).float().mean().item()
    memorized = turnover.Influence(net).self_influence(data).top(5)
    accelerator.print(f"accuracy {accuracy:.3f}; memorized most: rows {memorized.helpful_ids.ravel().tolist()}")
    return {"accuracy": accuracy, "memorized": memorized.helpful_ids.ravel().tolist()}


if __name__ == "__main__":
    main()
