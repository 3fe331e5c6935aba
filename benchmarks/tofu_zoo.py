"""Plan models of other packages from their configurations, without weights: which are planned, and how long it takes.

Each model has its configuration class's default values, with ``--layers`` fewer layers of them, on the meta device.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from common import parser, save, table
from torch import nn

from dglite import tofu

BATCH, LENGTH = 8, 128

TEXT = (
    *("Llama", "Mistral", "Gemma", "Gemma2", "Qwen2", "Phi", "Phi3", "StableLm", "Olmo", "GPT2", "GPTNeoX", "GPTNeo"),
    *("GPTJ", "OPT", "Bloom", "CodeGen", "Falcon", "Mixtral", "Rwkv", "Mamba"),
)
"""Language models of `transformers` that predict the next word."""

MASKED = ("Bert", "Roberta", "DistilBert", "Electra", "Albert", "Deberta", "MPNet")
PAIRS = ("T5", "Bart", "Pegasus")
OTHERS = ("ViT", "Whisper", "Wav2Vec2")
VISION = (
    *("resnet50", "resnext50_32x4d", "wide_resnet50_2", "mobilenet_v2", "mobilenet_v3_large", "densenet121"),
    *("efficientnet_b0", "convnext_tiny", "swin_t", "swin_v2_t", "vit_b_16", "regnet_y_400mf", "vgg16_bn", "alexnet"),
    *("googlenet", "inception_v3", "shufflenet_v2_x1_0", "squeezenet1_0", "mnasnet1_0", "maxvit_t"),
)
"""Models of `torchvision`."""

TIMM = ("deit_small_patch16_224", "mixer_s16_224", "convmixer_768_32", "poolformer_s12", "xcit_nano_12_p16_224")

Work = tuple[nn.Module, Any, tuple[torch.Tensor, ...], dict[str, Any]]
"""A module, its loss function, its inputs, and those by name."""


def _language(name: str, layers: int | None) -> Work:
    import transformers  # noqa: PLC0415, RUF100

    config = getattr(transformers, f"{name}Config")()
    if layers:
        for attribute in ("num_hidden_layers", "num_layers", "n_layer", "encoder_layers", "decoder_layers", "n_layers"):
            if hasattr(config, attribute):
                setattr(config, attribute, layers)
        if name == "GPTNeo":
            config.attention_layers = config.attention_layers[:layers]
        if "layer_types" in vars(config) and config.layer_types:
            config.layer_types = config.layer_types[:layers]
    if name == "T5":
        config.decoder_start_token_id = 0
    if hasattr(config, "num_decoder_layers") and layers:
        config.num_decoder_layers = layers
    config.use_cache = False
    config.layerdrop = 0.0
    kind = "ForCausalLM" if name in TEXT else "ForMaskedLM" if name in MASKED else "ForConditionalGeneration"
    kind = {"GPT2": "LMHeadModel", "ViT": "ForImageClassification", "Wav2Vec2": "ForSequenceClassification"}.get(
        name, kind
    )
    module = getattr(transformers, name + kind)(config)
    labels = torch.zeros(BATCH, dtype=torch.long)
    words = torch.zeros(BATCH, LENGTH, dtype=torch.long)
    inputs = {"input_ids": words, "labels": words}
    if name == "ViT":
        inputs = {"pixel_values": torch.empty(BATCH, 3, config.image_size, config.image_size), "labels": labels}
    elif name == "Whisper":
        sound = torch.empty(BATCH, config.num_mel_bins, 2 * config.max_source_positions)
        inputs = {"input_features": sound, "labels": words}
    elif name == "Wav2Vec2":
        inputs = {"input_values": torch.empty(BATCH, 16000), "labels": labels}
    return module, None, (), inputs


def _vision(package: str, name: str, layers: int | None) -> Work:
    library = importlib.import_module("torchvision.models" if package == "torchvision" else "timm")
    with torch.device("cpu"):  # some constructors read numbers of tensors
        module = getattr(library, name)() if package == "torchvision" else library.create_model(name)
    module = module.to("meta")
    size = {"inception_v3": 299}.get(name, 224)
    images, labels = torch.empty(BATCH, 3, size, size), torch.zeros(BATCH, dtype=torch.long)
    return module, _first_output, (images, labels), {}


def _first_output(out: Any, labels: torch.Tensor) -> torch.Tensor:
    """Return the loss of a classifier, some of which return several outputs, the main one first."""
    return F.cross_entropy(out if isinstance(out, torch.Tensor) else out[0], labels)


def models() -> dict[str, Callable[[int | None], Work]]:
    """Return what makes each model whose package is installed."""
    results: dict[str, Callable[[int | None], Work]] = {}
    if importlib.util.find_spec("transformers"):
        for name in (*TEXT, *MASKED, *PAIRS, *OTHERS):
            results[name] = lambda layers, name=name: _language(name, layers)
    for package, names in (("torchvision", VISION), ("timm", TIMM)):
        if importlib.util.find_spec(package):
            for name in names:
                results[name] = lambda layers, package=package, name=name: _vision(package, name, layers)
    return results


def measure(name: str, make: Callable[[int | None], Work], workers: int, layers: int | None) -> dict[str, Any]:
    """Return the plan of a model beside data parallelism, or why there is none."""
    start = time.perf_counter()
    try:
        with torch.device("meta"):
            module, loss, inputs, named = make(layers)
        optimizer = torch.optim.AdamW(module.parameters())
        start = time.perf_counter()
        plan = tofu.plan(module, loss, inputs, optimizer, workers, named_inputs=named)
        seconds = time.perf_counter() - start
        parallel = plan.baseline(tofu.BASELINES["data parallel"])
        operators = sum(node.op == "call_function" for node in plan.captured.graph.nodes)
    except Exception as error:
        traceback.print_exc()
        text = f"{type(error).__name__}: {error}".splitlines()[0][:160]
        return {"model": name, "seconds": time.perf_counter() - start, "error": text}
    return {
        "model": name,
        "seconds": seconds,
        "operators": operators,
        "capture": plan.capture_seconds,
        "search": plan.seconds,
        "bytes": plan.bytes,
        "beside_dp": plan.bytes / parallel.bytes,
        "memory_beside_dp": plan.memory / parallel.memory,
    }


def zoo_table(records: list[dict[str, Any]]) -> str:
    """Return the records as a table."""
    head = ("model", "planned", "operators", "capture s", "search s", "bytes / DP", "memory / DP")
    rows = [
        (r["model"], "no", "", f"{r['seconds']:.1f}", "", r["error"], "")
        if "error" in r
        else (
            r["model"],
            "yes",
            str(r["operators"]),
            f"{r['capture']:.1f}",
            f"{r['search']:.1f}",
            f"{r['beside_dp']:.2f}",
            f"{r['memory_beside_dp']:.2f}",
        )
        for r in records
    ]
    return table(head, rows)


def main() -> None:
    """Plan, print, save."""
    options = parser(__doc__.split("\n")[0])
    options.add_argument("--only", default="", help="models to plan, separated by commas")
    options.add_argument("--layers", type=int, help="layers of each model, instead of its configuration's")
    options.add_argument("--workers", type=int, default=8)
    given = options.parse_args()
    only = [name for name in given.only.split(",") if name]
    records = []
    for name, make in models().items():
        if not only or name in only:
            records.append(measure(name, make, given.workers, given.layers))
            print(zoo_table(records[-1:]).splitlines()[-1], flush=True)
    print(zoo_table(records))
    planned = sum("error" not in record for record in records)
    print(f"{planned} of {len(records)} planned")
    if not given.quick and not only and given.layers is None:
        save("tofu_zoo", {"records": records})


if __name__ == "__main__":
    main()
