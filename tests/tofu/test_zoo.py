"""Models of transformers, made small, train over two processes as in one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from dglite import tofu
from dglite.tofu.aten import strategies_of
from dglite.tofu.verify import verify
from tests.tofu.workers import Workers

transformers = pytest.importorskip("transformers", reason="transformers is not installed")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    workers = Workers(2, tmp_path_factory.mktemp("zoo"))
    yield workers
    workers.stop()


SMALL = {"vocab_size": 32, "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 4, "pad_token_id": 0}
ENCODER = SMALL | {"intermediate_size": 32, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
DECODER = SMALL | {"intermediate_size": 32, "num_key_value_heads": 2}
OLDER = {"vocab_size": 32, "n_layer": 2, "n_embd": 16, "n_head": 4, "attn_pdrop": 0.0, "embd_pdrop": 0.0}
CASES: dict[str, dict[str, Any]] = {
    "LlamaForCausalLM": DECODER,
    "MistralForCausalLM": DECODER,
    "Qwen2ForCausalLM": DECODER,
    "GemmaForCausalLM": DECODER | {"head_dim": 4},
    "Phi3ForCausalLM": DECODER,
    "GPTNeoXForCausalLM": SMALL | {"intermediate_size": 32},
    "GPT2LMHeadModel": OLDER | {"resid_pdrop": 0.0},
    "GPTJForCausalLM": OLDER | {"resid_pdrop": 0.0, "rotary_dim": 4},
    "OPTForCausalLM": SMALL | {"ffn_dim": 32, "word_embed_proj_dim": 16, "dropout": 0.0},
    "BloomForCausalLM": {"vocab_size": 32, "n_layer": 2, "hidden_size": 16, "n_head": 4},
    "BertForMaskedLM": ENCODER,
    "RobertaForMaskedLM": ENCODER,
    "ElectraForMaskedLM": ENCODER | {"embedding_size": 16},
    "DebertaForMaskedLM": ENCODER,
    "MixtralForCausalLM": DECODER | {"num_local_experts": 4, "num_experts_per_tok": 2},
    "RwkvForCausalLM": {"vocab_size": 32, "num_hidden_layers": 2, "hidden_size": 16, "context_length": 8},
    "MambaForCausalLM": {"vocab_size": 32, "num_hidden_layers": 2, "hidden_size": 16, "state_size": 4},
    "Wav2Vec2ForSequenceClassification": {
        **{key: value for key, value in ENCODER.items() if key != "attention_probs_dropout_prob"},
        "activation_dropout": 0.0,
        "attention_dropout": 0.0,
        "feat_proj_dropout": 0.0,
        "final_dropout": 0.0,
        "hidden_dropout": 0.0,
        "layerdrop": 0.0,
        "apply_spec_augment": False,
        "classifier_proj_size": 8,
        "conv_dim": (8, 8),
        "conv_stride": (4, 2),
        "conv_kernel": (8, 3),
        "num_feat_extract_layers": 2,
        "num_conv_pos_embeddings": 4,
        "num_conv_pos_embedding_groups": 2,
    },
    "T5ForConditionalGeneration": {
        "vocab_size": 32,
        "d_model": 16,
        "d_kv": 4,
        "d_ff": 32,
        "num_layers": 2,
        "num_heads": 4,
        "dropout_rate": 0.0,
        "decoder_start_token_id": 0,
    },
}


SINGLE = {"MixtralForCausalLM"}
"""Models whose operators in one process have no float64."""


def test_products_of_experts_are_split_by_columns() -> None:
    rows, experts, ends = torch.randn(6, 4).double(), torch.randn(3, 4, 8).double(), torch.tensor([2, 2, 6])
    pytest.importorskip("transformers.integrations.moe")
    operators = torch.ops.transformers
    verify(operators.grouped_mm_fallback.default, (rows, experts, ends), {})
    gradient = torch.randn(6, 8).double()
    verify(operators.grouped_mm_fallback_backward.default, (rows, experts, ends, gradient), {})
    indices = {s.index for s in strategies_of(operators.grouped_mm_fallback.default, (rows, experts, ends))}
    assert indices == {"j", "k"}


def work(name: str) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """Return a model and a batch, equal in each process; a name may end in " checkpointed"."""
    torch.manual_seed(0)
    name, _, checkpointed = name.partition(" ")
    config = getattr(transformers, name.partition("For")[0].removesuffix("LMHeadModel") + "Config")(**CASES[name])
    config.use_cache = False
    module = getattr(transformers, name)(config)
    if name not in SINGLE:
        module = module.double()
    if checkpointed:
        module.gradient_checkpointing_enable({"use_reentrant": False})
    if name.startswith("Wav2Vec2"):
        return module.train(), {"input_values": torch.randn(4, 200).double(), "labels": torch.randint(2, (4,))}
    words = torch.randint(1, 32, (4, 6))
    return module.train(), {"input_ids": words, "labels": words, "attention_mask": torch.ones_like(words)}


def train(rank: int, name: str) -> list[float]:
    module, batch = work(name)
    step = tofu.parallelize(module, torch.optim.AdamW(module.parameters(), 0.01))
    return [step(**batch).item() for _ in range(3)]


@pytest.mark.parametrize("name", [*CASES, "LlamaForCausalLM checkpointed"])
def test_two_processes_train_as_one(two: Workers, name: str) -> None:
    module, batch = work(name)
    optimizer = torch.optim.AdamW(module.parameters(), 0.01)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = module(**batch).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert two.run(train, name) == [pytest.approx(losses, rel=1e-5 if name in SINGLE else 1e-6)] * 2
