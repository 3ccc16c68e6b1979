from __future__ import annotations

import torch

from irene.models.mlp import MLP


def test_two_hidden_layers_on_flattened_inputs() -> None:
    torch.manual_seed(0)
    mlp = MLP((3, 4, 4))
    first, second = (layer for layer in mlp.layers if isinstance(layer, torch.nn.Linear))
    x = torch.randn(5, 3, 4, 4)
    expected = ((x.reshape(5, 48) @ first.weight.T + first.bias).relu() @ second.weight.T + second.bias).relu()
    torch.testing.assert_close(mlp(x), expected)
    torch.testing.assert_close(mlp(x.to(memory_format=torch.channels_last)), expected)
    assert expected.shape == (5, 128)
