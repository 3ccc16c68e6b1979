"""Put a small network before a large one that you have trained already, and measure what that saves."""

from collections.abc import Callable
from time import perf_counter

import torch
from torch import nn

import irene

digits = irene.load_data("digits", seed=0)
train, test = digits.train, digits.test
images, labels = train.inputs.float() / 16, train.targets
x, y, x_held, y_held = images[:900], labels[:900], images[900:], labels[900:]
x_test, y_test = test.inputs.float() / 16, test.targets


def trained(model: nn.Module) -> nn.Module:
    """Any training will do: irene only needs the members' logits."""
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for epoch in range(30):
        for rows in torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
    return model.eval()


def convolutional(width: int) -> nn.Module:
    layers = [nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
    return trained(nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * width, 10)))


torch.manual_seed(0)
small, large = convolutional(8), convolutional(96)
cascade = irene.Cascade.from_members([small, large], example=x_held)
bank = irene.Bank.of(cascade, x_held, y_held)  # what every member answers on images that none was trained on
point = irene.fit_policy(bank, max_drop=0.002)  # the cheapest that loses at most 0.2 points against both together
fast = point.cascade([small, large])

stream = irene.Stream(fast, x_test[:1])
batches = x_test.repeat(10, 1, 1, 1).split(256)


def seconds(answer: Callable[[], object]) -> float:
    answer()  # once to warm up
    start = perf_counter()
    answer()
    return perf_counter() - start


with torch.inference_mode():
    alone = seconds(lambda: [large(batch) for batch in batches])
    ours = seconds(lambda: list(stream.predict(batches)))
    right = (large(x_test).argmax(1) == y_test).float().mean()
prediction = fast.predict(x_test)
print(f"large network alone: {right:.1%} right")
print(f"cascade:             {(prediction.labels == y_test).float().mean():.1%} right, {ours / alone:.2f} of its time")
print(f"members used:        {prediction.members_used.float().mean():.2f} of 2")
