"""A model that is sharded over processes (FSDP2) on handwritten digits: trained, saved by all, scored by one.

Run: torchrun --nproc-per-node=2 examples/fsdp_loop.py
Needs: pip install 'turnover[sklearn]'
"""

import torch
import torch.distributed
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import turnover


def network():
    """Return the plain network."""
    return nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10, bias=False))


def main(rows=1500, epochs=20, folder="runs/fsdp"):
    """Train, and return the accuracy and the rows that were memorized most; in the first process only."""
    torch.manual_seed(0)
    digits = load_digits()
    x, y = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
    data = turnover.with_instance_ids(TensorDataset(x[:rows], y[:rows]))  # ids first, then the sampler
    model = turnover.wrap(network(), at=["1"], replicas=4)  # wrap first, then shard
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    sampler = DistributedSampler(data)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for inputs, targets, ids in DataLoader(data, batch_size=32, sampler=sampler):
            with turnover.instances(ids) as now:
                loss = functional.cross_entropy(model(inputs), now.repeat(targets))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    turnover.save(model, folder)  # by every process
    if torch.distributed.get_rank() > 0:
        return None
    net = turnover.load(folder, model=network()).eval()  # whole, in one process
    accuracy = (net(x[-200:]).argmax(1) == y[-200:]).float().mean().item()
    memorized = turnover.Influence(net).self_influence(data).top(5)
    print(f"accuracy {accuracy:.3f}; memorized most: rows {memorized.helpful_ids.ravel().tolist()}")
    return {"accuracy": accuracy, "memorized": memorized.helpful_ids.ravel().tolist()}


if __name__ == "__main__":
    torch.distributed.init_process_group("gloo")
    main()
    torch.distributed.destroy_process_group()
