"""The fingerprint is SHA-256 over plain little-endian bytes, whatever the memory layout."""

from __future__ import annotations

import hashlib

import numpy as np
import torch

from irene.data.fingerprint import data_fingerprint, tensor_digest


def test_it_is_the_hash_of_type_shape_and_bytes() -> None:
    values = torch.tensor([[1.5, -2.0]])
    content = b"<f4[1, 2]" + np.array([1.5, -2.0], dtype="<f4").tobytes()
    assert tensor_digest(values) == hashlib.sha256(content).hexdigest()


def test_memory_layout_does_not_matter_but_shape_and_type_do() -> None:
    values = torch.arange(6).reshape(2, 3)
    assert tensor_digest(values) == tensor_digest(values.T.contiguous().T)
    assert tensor_digest(values) != tensor_digest(values.reshape(3, 2))
    assert tensor_digest(values) != tensor_digest(values.int())


def test_names_and_notes_count() -> None:
    tensors = [torch.zeros(2)]
    assert data_fingerprint("regression", ["a"], tensors) != data_fingerprint("regression", ["b"], tensors)
    assert data_fingerprint("regression", ["a"], tensors) != data_fingerprint("regression", ["a"], tensors, [1])


def test_an_empty_tensor_can_be_hashed() -> None:
    assert len(tensor_digest(torch.zeros(0, 3))) == 64
