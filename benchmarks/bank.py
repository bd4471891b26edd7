"""The bank against as many separate modules: the same MLPs, batches and steps, side by side in one run.

``python benchmarks/bank.py [--groups 4 --value-heads 6 --kv-heads 2 --folds 10 --rows 500 --steps 20]``
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce

from gatesight.bank import AGE, EstimatorBank
from gatesight.features import window_columns
from gatesight.recording.simulated import regular_layout

CLIP = 1.0


def train_bank(bank: EstimatorBank, batches: list[tuple[torch.Tensor, ...]]) -> None:
    optimiser = torch.optim.AdamW(bank.parameters(), lr=2e-3, weight_decay=1e-2, fused=True)
    for signals, age, label in batches:
        optimiser.zero_grad()
        logits = bank(signals, age)
        (bce(logits, label.expand_as(logits), reduction="none").mean(-1).sum()).backward()
        bank.clip_gradients(CLIP)
        optimiser.step()


def train_modules(
    modules: dict[tuple[int, int, int], nn.Module], columns: list[slice], batches: list[tuple[torch.Tensor, ...]]
) -> None:
    """Each module by itself, with its own optimiser, over all batches."""
    for (_, layer, head), module in modules.items():
        optimiser = torch.optim.AdamW(module.parameters(), lr=2e-3, weight_decay=1e-2)
        for signals, age, label in batches:
            optimiser.zero_grad()
            inputs = torch.cat([signals.flatten(1)[:, columns[layer]], age], 1)
            bce(module(inputs).squeeze(1), label[layer, head]).backward()
            nn.utils.clip_grad_norm_(module.parameters(), CLIP)
            optimiser.step()


def seconds(work: Callable[[], None], device: torch.device) -> float:
    start = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in {"groups": 4, "value-heads": 6, "kv-heads": 2, "folds": 10, "rows": 500, "steps": 20}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    layout = regular_layout(options.groups, options.value_heads, options.kv_heads)
    columns, heads = window_columns(layout, 6), layout.kv_heads
    gdn = (len(layout.gdn_layers), layout.value_heads, 3)
    folds = [str(i) for i in range(options.folds)]
    bank = EstimatorBank(columns, gdn[0] * gdn[1] * 3, heads, folds).to(device)
    modules = {
        (fold, layer, head): nn.Sequential(nn.Linear(w.stop - w.start + AGE, 64), nn.ReLU(), nn.Linear(64, 1)).to(
            device
        )
        for fold in range(len(folds))
        for layer, w in enumerate(columns)
        for head in range(heads)
    }
    batches = [
        (
            torch.randn(options.rows, *gdn, device=device),
            torch.rand(options.rows, 3, device=device),
            torch.rand(len(columns), heads, options.rows, device=device),
        )
        for _ in range(options.steps)
    ]
    train_bank(bank, batches[:2])
    train_modules(modules, columns, batches[:1])
    together, apart = ([], [])  # type: list[float], list[float]
    for _ in range(3):
        together.append(seconds(lambda: train_bank(bank, batches), device))
        apart.append(seconds(lambda: train_modules(modules, columns, batches), device))
    result = {
        **vars(options),
        "mlps": len(modules),
        "device": torch.cuda.get_device_name()
        if device.type == "cuda"
        else f"{platform.machine()}, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
        "bank_seconds": round(sorted(together)[1], 3),
        "modules_seconds": round(sorted(apart)[1], 3),
        "ratio": round(sorted(apart)[1] / sorted(together)[1], 2),
    }
    print(json.dumps(result, indent=1))  # noqa: T201


if __name__ == "__main__":
    main()
