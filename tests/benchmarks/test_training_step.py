"""What a training step takes is told by kind of kernel, and only where there is a GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
import training_step
from pages.tables import step_table


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64", "forward"),
        ("cudnn::sm90_xmma_dgrad_implicit_gemm_indexed_bf16bf16", "by inputs"),
        ("sm90_xmma_wgrad_implicit_gemm_indexed_bf16bf16_bf16f32", "by weights"),
        ("triton_red_fused__native_batch_norm_legit_functional_relu_12", "compiled"),
        ("void at::native::multi_tensor_apply_kernel<FusedSgd>", "optimiser"),
        ("Memcpy DtoD (Device -> Device)", "other"),
    ],
)
def test_kernels_are_told_apart_by_name(kernel: str, kind: str) -> None:
    assert training_step.kind_of(kernel) == kind


def test_the_table_shares_out_the_time_of_a_step() -> None:
    spent = {"forward": 1.0, "by inputs": 1.5, "by weights": 1.5, "compiled": 3.0, "optimiser": 0.25, "other": 0.75}
    row = {"backbone": "resnet18", "batch": 512, "ms": 8.0, "images_per_s": 64_000, "tflops": 200.0, "kernel_ms": spent}
    last = step_table({"rows": [row]}).splitlines()[-1]
    assert last == "| ResNet-18 | 512 | 8.00 | 64,000 | 200 | 4.00 | 400 | 3.00 | 1.00 |"


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")
def test_without_a_gpu_it_says_so_and_leaves_the_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "step.json"
    monkeypatch.setattr(sys, "argv", ["training_step.py", "--out", str(out)])
    with pytest.raises(SystemExit, match="measured on a GPU"):
        training_step.main()
    assert not out.exists()
