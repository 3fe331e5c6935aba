"""Plan models of other packages from their configurations, without weights: which are planned, and how long it takes.

Each model has its configuration class's default values, with ``--layers`` fewer layers of them, on the meta device.
"""

from __future__ import annotations

import functools
import gc
import importlib
import importlib.util
import json
import math
import queue
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from common import RESULTS, measured, parser, save, table
from torch import multiprocessing as mp
from torch import nn
from torch.utils._pytree import tree_map_only

from dglite import tofu
from dglite.tofu.certificate import least_bytes

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

Record = dict[str, Any]

Work = tuple[nn.Module, Any, tuple[torch.Tensor, ...], dict[str, Any]]
"""A module, its loss function, its inputs, and those by name."""


TINY: dict[str, Any] = {
    "vocab_size": 32,
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_decoder_layers", "num_feat_extract_layers"), 2),
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "dim", "embedding_size", "word_embed_proj_dim"), 32),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "d_ff", "hidden_dim", "encoder_ffn_dim", "decoder_ffn_dim"), 32),
    "num_key_value_heads": 2,
    "head_dim": 8,
    "d_kv": 8,
    "rotary_dim": 8,
    "state_size": 4,
    "context_length": 8,
    "num_local_experts": 4,
    "num_mel_bins": 8,
    "max_source_positions": 16,
    "image_size": 32,
    "patch_size": 8,
    "conv_dim": (8, 8),
    "conv_stride": (4, 2),
    "conv_kernel": (8, 3),
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "classifier_proj_size": 8,
    "apply_spec_augment": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "attention_types": [[["global", "local"], 1]],
}
"""Values of the attributes that a configuration of `transformers` has, for models that train in a test."""


def _tiny(kind: Any) -> Any:
    """Return a small configuration without dropout."""
    usual = vars(kind())
    alike = {n: v for n, v in TINY.items() if usual.get(n) is not None and isinstance(v, list | tuple | type(usual[n]))}
    small = {n: v for n, v in alike.items() if isinstance(v, list | tuple) == isinstance(usual[n], list | tuple)}
    return kind(**small, **{name: 0.0 for name, value in usual.items() if "drop" in name and type(value) is float})


def _shallow(config: Any, name: str, layers: int) -> None:
    """Let a configuration have fewer layers."""
    for attribute in ("num_hidden_layers", "num_layers", "n_layer", "encoder_layers", "decoder_layers", "n_layers"):
        if hasattr(config, attribute):
            setattr(config, attribute, layers)
    if name == "GPTNeo":
        config.attention_layers = config.attention_layers[:layers]
    if vars(config).get("layer_types"):
        config.layer_types = config.layer_types[:layers]
    if hasattr(config, "num_decoder_layers"):
        config.num_decoder_layers = layers


def _language(name: str, layers: int | None = None, tiny: bool = False) -> Work:
    import transformers  # noqa: PLC0415, RUF100

    kind = getattr(transformers, f"{name}Config")
    config = _tiny(kind) if tiny else kind()
    if layers:
        _shallow(config, name, layers)
    if name == "T5":
        config.decoder_start_token_id = 0
    config.use_cache, config.layerdrop = False, 0.0
    head = "ForCausalLM" if name in TEXT else "ForMaskedLM" if name in MASKED else "ForConditionalGeneration"
    head = {"GPT2": "LMHeadModel", "ViT": "ForImageClassification", "Wav2Vec2": "ForSequenceClassification"}.get(
        name, head
    )
    module = getattr(transformers, name + head)(config)
    batch, length = (4, 6) if tiny else (BATCH, LENGTH)
    labels, words = torch.randint(2, (batch,)), torch.randint(3, 32, (batch, length))
    inputs = {"input_ids": words, "labels": words}
    if name == "ViT":
        inputs = {"pixel_values": torch.randn(batch, 3, config.image_size, config.image_size), "labels": labels}
    elif name == "Whisper":
        sound = torch.randn(batch, config.num_mel_bins, 2 * config.max_source_positions)
        inputs = {"input_features": sound, "labels": words}
    elif name == "Wav2Vec2":
        inputs = {"input_values": torch.randn(batch, 200 if tiny else 16000), "labels": labels}
    return module, None, (), inputs


SIZES = {"inception_v3": (299, 96), "maxvit_t": (224, 224)}
"""Pixels of a side of the images of models that do not take the usual ones."""

SIZED = {"vit_b_16": "image_size", "deit_small_patch16_224": "img_size", "mixer_s16_224": "img_size"}
"""Models that are made for one size of images, and that argument."""


def _vision(package: str, name: str, layers: int | None = None, tiny: bool = False) -> Work:
    library = importlib.import_module("torchvision.models" if package == "torchvision" else "timm")
    size = SIZES.get(name, (224, 64))[tiny]
    options = {"num_classes": 10 if tiny else 1000} | ({SIZED[name]: size} if name in SIZED else {})
    with torch.device("cpu"):  # some constructors read numbers of tensors
        if package == "torchvision":
            aux = {"init_weights": False, "aux_logits": not tiny} if name in ("googlenet", "inception_v3") else {}
            module = getattr(library, name)(**options, **aux)
        else:
            module = library.create_model(name, **options)
    if not tiny:
        module = module.to("meta")
    images, labels = torch.randn(4 if tiny else BATCH, 3, size, size), torch.randint(10, (4 if tiny else BATCH,))
    for child in module.modules():  # dropout draws other numbers on several workers
        for attribute in ("p", "drop_prob") if tiny else ():
            if isinstance(getattr(child, attribute, None), float):
                setattr(child, attribute, 0.0)
    return module, _first_output, (images, labels), {}


def _first_output(out: Any, labels: torch.Tensor) -> torch.Tensor:
    """Return the loss of a classifier, some of which return several outputs, the main one first."""
    return F.cross_entropy(out if isinstance(out, torch.Tensor) else out[0], labels)


WIDTHS = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
SHAPES = {"Llama-3-8B": (4096, 14336, 32, 32), "Llama-3-70B": (8192, 28672, 80, 64)}
LARGE = {"Llama-3-8B": (64, 10.0), "Llama-3-70B": (256, 60.0)}
"""Large models: the workers that they are planned for, and the seconds that this may take."""


def _llama(name: str, workers: int) -> Work:
    """Return a large Llama, with a sequence of 2,048 words for each worker."""
    import transformers  # noqa: PLC0415, RUF100

    shape: dict[str, Any] = dict(zip(WIDTHS, SHAPES[name], strict=True))
    shape |= {"vocab_size": 128256, "num_key_value_heads": 8, "max_position_embeddings": 8192, "rope_theta": 500000.0}
    config = transformers.LlamaConfig(**shape, use_cache=False)
    words = torch.zeros(workers, 2048, dtype=torch.long)
    return transformers.LlamaForCausalLM(config), None, (), {"input_ids": words, "labels": words}


def models() -> dict[str, Callable[..., Work]]:
    """Return what makes each model whose package is installed, of ``layers=`` layers or ``tiny=True``."""
    results: dict[str, Callable[..., Work]] = {}
    if importlib.util.find_spec("transformers"):
        for name in (*TEXT, *MASKED, *PAIRS, *OTHERS):
            results[name] = functools.partial(_language, name)
    for package, names in (("torchvision", VISION), ("timm", TIMM)):
        if importlib.util.find_spec(package):
            for name in names:
                results[name] = functools.partial(_vision, package, name)
    return results


class OutOfTime(Exception):
    """A model took more processor time than it may."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` after this much processor time."""

    def stop(*_: Any) -> None:
        raise OutOfTime(f"{seconds:g} s of processor time are over")

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def measure(make: Callable[..., Work], workers: int, layers: int | None, limit: float, certified: float) -> Record:
    """Return the plan of a model beside known ways to partition, or why there is none.

    Seconds are of the processor, in all threads. ``limit`` of them are for the plan, ``certified`` for its bound.
    """
    with torch.device("meta"):
        module, loss, inputs, named = make(layers)
    optimizer = torch.optim.AdamW(module.parameters())
    start, times = time.perf_counter(), [time.process_time()]
    try:
        with within(limit):
            captured = tofu.capture(module, loss, inputs, optimizer, named)
            times.append(time.process_time())
            plan = tofu.plan_captured(captured, workers)
            times.append(time.process_time())
    except Exception as error:
        text = f"{type(error).__name__}: {error}".splitlines()[0][:160]
        return {"seconds": time.perf_counter() - start, "error": text, **measured()}
    wall = time.perf_counter() - start
    others = {name: plan.baseline(tofu.BASELINES[way]) for name, way in BESIDE.items()}
    return {
        "operators": sum(node.op == "call_function" for node in captured.graph.nodes),
        "capture": times[1] - times[0],
        "search": times[2] - times[1],
        "wall": wall,
        "bytes": plan.bytes,
        "bytes_beside": {name: plan.bytes / other.bytes for name, other in others.items() if other.bytes},
        "memory": plan.memory,
        "memory_beside": {name: plan.memory / other.memory for name, other in others.items()},
        **(certificate(plan, certified) if certified else {}),
        **measured(),
    }


def certificate(plan: tofu.PartitionPlan, limit: float) -> Record:
    """Return the bound of a plan: without the order of steps where the closer one takes too long."""
    start = time.process_time()
    try:
        with within(limit):
            text = plan.certificate()
    except OutOfTime:
        plan.lower_bound = least_bytes(plan._coarse, plan.workers)
        text = plan.certificate()
    return {"certificate": text, "certificate_processor": time.process_time() - start}


BESIDE = {"DP": "data parallel", "FSDP": "FSDP", "Megatron": "Megatron"}
"""Known ways to partition, by the names that they have in the table."""


def zoo_table(records: dict[str, Record]) -> str:
    """Return the records as a table: bytes and memory as multiples of those of known ways to partition."""
    is_trained = any("trained" in r for r in records.values())
    head = ["model", "operators", "capture s", "search s", "GB sent", *(f"/ {name}" for name in BESIDE)]
    head += ["GB a worker", *(f"/ {name}" for name in BESIDE), "within", *["trains as one"] * is_trained]
    rows = []
    for name, r in records.items():
        trained = [{True: "yes", None: ""}.get(r.get("trained"), "no")] * is_trained
        if "error" in r:
            rows.append([name, f"no plan: {r['error']}", *[""] * (len(head) - 2 - is_trained), *trained])
            continue
        row = [name, str(r["operators"]), f"{r['capture']:.1f}", f"{r['search']:.1f}", f"{r['bytes'] / 1e9:.2f}"]
        row += [f"{r['bytes_beside'].get(way, math.nan):.2f}" for way in BESIDE]
        row += [f"{r['memory'] / 1e9:.2f}", *(f"{r['memory_beside'].get(way, math.nan):.2f}" for way in BESIDE)]
        bound = r.get("certificate", "")
        rows.append([*row, bound.split()[1] if bound.startswith("within") else bound.split(":")[0], *trained])
    return table(head, rows)


def zoo_summary(records: dict[str, Record]) -> str:
    """Return how many models are planned, how many of them soon, and how many tiny ones train as one process."""
    planned = [r for r in records.values() if "error" not in r]
    soon = sum(r["capture"] + r["search"] < SOON for r in planned)
    text = f"{len(planned)} of {len(records)} are planned, {soon} in under {SOON} s of the processor with the capture."
    tried = [r["trained"] for r in records.values() if "trained" in r]
    return (
        f"{text} {sum(t is True for t in tried)} of {len(tried)} tiny variants train as one process." if tried else text
    )


SOON = 60
"""Seconds that a plan may take."""


SINGLE = {"Mixtral"}
"""Models some operators of which have no float64."""


def losses(name: str, world: int) -> list[float]:
    """Return the losses of three steps of a tiny variant: of one process alone, or of ``world`` with Tofu."""
    torch.manual_seed(0)
    module, loss, inputs, named = models()[name](tiny=True)
    module.train()
    if name not in SINGLE:
        module = module.double()
        inputs, named = tree_map_only(torch.Tensor, _doubled, (inputs, named))
    optimizer = torch.optim.SGD(module.parameters(), 0.005, momentum=0.9)
    if world > 1:
        step = tofu.parallelize(module, loss, optimizer)
        return [step(*inputs, **named).item() for _ in range(3)]
    results = []
    for _ in range(3):
        optimizer.zero_grad()
        value = loss(module(*inputs[:-1]), inputs[-1]) if loss else module(**named).loss
        value.backward()
        optimizer.step()
        results.append(value.item())
    return results


def _doubled(x: torch.Tensor) -> torch.Tensor:
    return x.double() if x.is_floating_point() else x


def _train(rank: int, world: int, store: str, names: Sequence[str], results: Sequence[Any]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=world)
    for name in names:
        try:
            results[rank].put(losses(name, world))
        except Exception as error:
            results[rank].put(f"{type(error).__name__}: {error}".splitlines()[0][:160])
            return
    dist.destroy_process_group()


def trained(names: Sequence[str], world: int = 2) -> Iterator[tuple[str, bool | str]]:
    """Yield of each tiny variant whether its losses on ``world`` processes are those of one, or an error.

    The processes train one variant after the other; after an error new ones go on.
    """
    left = list(names)
    while left:
        context = mp.get_context("spawn")
        results = [context.Queue() for _ in range(world)]
        with tempfile.TemporaryDirectory() as folder:
            arguments = (world, f"{folder}/store", list(left), results)
            job = mp.start_processes(_train, arguments, world, join=False, start_method="spawn")
            error = ""
            while left and not error:
                name = left.pop(0)
                came = [_answer(each) for each in results]
                error = next((each for each in came if isinstance(each, str)), "")
                alone = [] if error else losses(name, 1)
                yield name, error or all(np.allclose(each, alone, rtol=1e-5) for each in came)
            for process in job.processes:
                process.join(5)
                process.kill()


def _answer(results: Any) -> list[float] | str:
    try:
        return results.get(timeout=600)
    except queue.Empty:
        return "no answer"


def plan_large(limit: float, certified: float) -> None:
    """Plan the large models, and save."""
    records: dict[str, Record] = {}
    for name, (workers, seconds) in LARGE.items():
        record = measure(lambda _, n=name, w=workers: _llama(n, w), workers, None, limit, certified)
        records[f"{name}, {workers} workers"] = record | {"limit_seconds": seconds}
        save("tofu_large", {"records": records})
    print(zoo_table(records))


def main() -> None:
    """Plan, then train, and save after each model, so that a run that was ended continues where it was."""
    options = parser(__doc__.split("\n")[0])
    options.add_argument("--only", default="", help="models, separated by commas; they are planned again")
    options.add_argument("--layers", type=int, help="layers of each model, instead of its configuration's")
    options.add_argument("--workers", type=int, default=8)
    options.add_argument("--train", action="store_true", help="train tiny variants on two processes, too")
    options.add_argument("--limit", type=float, default=300.0, help="seconds of the processor for a plan")
    options.add_argument("--large", action="store_true", help="plan the large Llamas instead")
    options.add_argument("--certified", type=float, default=120.0, help="seconds of the processor for a bound, or 0")
    given = options.parse_args()
    if given.large:
        plan_large(given.limit, given.certified)
        return
    path, is_recorded = RESULTS / "tofu_zoo.json", not given.quick and given.layers is None
    only = [name for name in given.only.split(",") if name]
    records: dict[str, Record] = json.loads(path.read_text())["records"] if is_recorded and path.is_file() else {}
    makers = {name: make for name, make in models().items() if not only or name in only}

    def keep(name: str, values: Record) -> None:
        records[name] = records.get(name, {}) | values
        print(zoo_table({name: records[name]}).splitlines()[-1], flush=True)
        if is_recorded:
            save("tofu_zoo", {"records": {name: records[name] for name in models() if name in records}})

    for name, make in makers.items():
        before = records.get(name, {})
        if only or not ("error" in before or "certificate" in before or ("bytes" in before and not given.certified)):
            keep(name, measure(make, given.workers, given.layers, given.limit, given.certified))
            gc.collect()
    left = [name for name in makers if only or "trained" not in records.get(name, {})]
    for name, equal in trained(left) if given.train else ():
        keep(name, {"trained": equal})
    print(f"{zoo_table(records)}\n{zoo_summary(records)}")


if __name__ == "__main__":
    main()
