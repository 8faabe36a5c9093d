"""Models that the engine must serve, each with queries; "trained" by a pass so that no warning is due."""

import torch
from torch import Tensor, nn

import turnover


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.act0 = nn.Conv2d(3, 12, 3, padding=1), nn.ReLU()
        self.conv1, self.act1, self.conv2 = nn.Conv2d(12, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 12, 3, padding=1)
        self.act2, self.head = nn.ReLU(), nn.Linear(12, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act0(self.stem(x))
        x = self.act2(x + self.conv2(self.act1(self.conv1(x))))
        return self.head(x.mean((2, 3)))


class Encoder(nn.Module):
    """nn.TransformerEncoder with padding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 16)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0), 2)
        self.head = nn.Linear(16, 3)

    def forward(self, tokens: Tensor, padding: Tensor) -> Tensor:
        hidden = self.encoder(self.embed(tokens), src_key_padding_mask=padding)
        return self.head(hidden[:, 0])


class Cat(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.act, self.b = nn.Linear(6, 24), nn.ReLU(), nn.Linear(6, 8)
        self.head = nn.Linear(32, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.cat([self.act(self.a(x)), self.b(x)], 1))


def mlp(width: int = 32) -> nn.Sequential:
    hidden = [nn.Linear(6, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Linear(width, 3))


def cnn() -> nn.Sequential:
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 12, 3),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(12, 4),
    )
    net[1].running_mean.uniform_(-0.5, 0.5)
    net[1].running_var.uniform_(0.5, 1.5)
    return net


def bert() -> nn.Module:
    import transformers

    config = transformers.BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=3,
        initializer_range=0.5,
    )
    return transformers.BertForSequenceClassification(config)


def trained(model: nn.Module, **options: object) -> nn.Module:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", turnover.errors.TurnOverWarning)
        wrapped = turnover.wrap(model, **options)
    turnover.layers.masking_of(wrapped).learned.passes = 1
    return wrapped.eval()
