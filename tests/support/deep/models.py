"""Networks whose gradients factor, or do not, for the tests of importances."""

import types

import torch
from torch import nn

from support.deep.networks import mlp


class Residual(nn.Module):
    """A convolutional network with normalization, work in place and a shortcut."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(2, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, 3, padding=1, groups=2, bias=False)
        self.act, self.drop, self.head = nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(4, 3)
        nn.init.uniform_(self.norm.running_mean)

    def forward(self, x):
        x = self.act(self.norm(self.first(x)))
        return self.head(self.drop(self.act(self.second(x)) + x).mean((2, 3)))


class Layers(nn.Module):
    """Linear layers on (batch, time, features) and on (batch, features), one of them without bias."""

    def __init__(self, width=4):
        super().__init__()
        self.embed, self.mix = nn.Linear(3, width), nn.Linear(width, width, bias=False)
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        return self.head(self.mix(torch.tanh(self.embed(x))).cumsum(1).relu_().mean(1))


class Twice(nn.Module):
    """A layer used twice, whose two gradients add up before they are squared."""

    def __init__(self, width=5):
        super().__init__()
        self.layer, self.head = nn.Linear(width, width), nn.Linear(width, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.layer(torch.tanh(self.layer(x)))))


class Borrowed(Twice):
    """A layer's weight used outside of it, which only the comparison with autograd notices."""

    def forward(self, x):
        return self.head(torch.tanh(self.layer(x)) @ self.layer.weight)


class Own(nn.Module):
    """A parameter of its own, and an embedding: no layer that is understood."""

    def __init__(self):
        super().__init__()
        self.scale, self.head = nn.Parameter(torch.rand(5)), nn.Linear(5, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.scale * x))


class Control(Twice):
    """Control flow that depends on data, which vmap cannot follow."""

    def forward(self, x):
        return super().forward(x) if bool((x.abs() < 1e9).all()) else x


MODELS = {  # builder and shape of a sample
    "mlp": (lambda: mlp(1, (5, 7, 4, 3)), (5,)),
    "one layer": (lambda: nn.Linear(5, 3), (5,)),
    "sequences": (Layers, (6, 3)),
    "residual": (Residual, (2, 6, 6)),
    "twice": (Twice, (5,)),
    "borrowed": (Borrowed, (5,)),
    "own": (Own, (5,)),
    "control": (Control, (5,)),
}


class Language(nn.Module):
    """Logits (batch, time, 3) of tokens, by layers whose gradients factor, or with an embedding, whose do not."""

    def __init__(self, embedded, output):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(5, 4)
        self.embedding.requires_grad_(embedded)
        self.hidden, self.head = nn.Linear(4, 6), nn.Linear(6, 3)
        self.output = output

    def forward(self, input_ids, attention_mask=None):
        logits = self.head(torch.tanh(self.hidden(self.embedding(input_ids).cumsum(1))))
        if self.output in ("object", "scores"):
            return types.SimpleNamespace(**{"logits" if self.output == "object" else "scores": logits})
        return {"logits": logits} if self.output == "dictionary" else logits
