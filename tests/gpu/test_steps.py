"""Training steps on a real GPU: torch raises where one waits. The same steps run on tests/fake_device."""

from __future__ import annotations

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("no CUDA device, or a torch without CUDA", allow_module_level=True)

from tests.fake_device.test_steps import CONVS, Training, batches


@pytest.mark.parametrize("kind", ["whole graph", "blocks", "molecules"])
@pytest.mark.parametrize("name", list(CONVS))
def test_a_step_waits_for_nothing(name, kind):
    training, on_host = Training(name, "cuda"), Training(name, "cpu")
    result = batches("cuda", kind)
    training.net(result[0][0], result[0][1])  # torch's libraries are loaded
    torch.cuda.set_sync_debug_mode("error")
    try:
        for batch in result:
            training.step(*batch)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for batch in batches("cpu", kind):
        on_host.step(*batch)
    results = [loss.cpu() for loss in training.losses]
    torch.testing.assert_close(results, on_host.losses, rtol=1e-3, atol=1e-3)
