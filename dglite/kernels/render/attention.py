"""Source of the attention kernels: a softmax of scores over each row's entries, and the weighted sum of far features.

Forward, the maximum of the scores runs from tile to tile and what was summed before is scaled down to it (Milakov and
Gimelshein, 2018). Backward, the weights are made again from the scores and the logarithm of the row's sum, so nothing
is kept for an edge. With p the weight, m its dropout multiplier and edge weight, g the gradient of the result,

    d score = p * (m * (g[v] . x[u]) - g[v] . out[v])     d x[u] = sum over v of p * m * g[v] + (d score / d x) ...

Additive scores, which need no product for an edge, are in :mod:`.additive`.
"""

from __future__ import annotations

from ..spec import ITEM_BYTES
from .additive import (
    EDGE_FEATURES,
    additive_destination,
    additive_scores,
    additive_source,
    edge_out_row,
    edge_term_destination,
    edge_term_source,
)
from .columns import AHEAD, FAR_RIGHT, FAR_X, accumulate, addresses, dots, far_grad, operands, sweeps_of
from .common import LEAST_AHEAD, MOST_AHEAD
from .tiles import (
    AttentionSpec,
    Phase,
    Score,
    block,
    draw_multipliers,
    exponentials,
    header,
    in_tiles,
    multiplier,
    operand_words,
    per_head,
)


def attention_source(spec: AttentionSpec) -> str:
    """Return the source of the row kernel of one phase.

    Arguments: see ``WORDS``. Forward and at destinations rows are destinations and far nodes are sources; at
    sources it is the other way round, over the reversed structure. Rows without entries are not visited.
    """
    additive = spec.score is Score.ADDITIVE
    destination, source = _product_destination, _product_source
    if additive:
        destination, source = additive_destination, additive_source
    if spec.edges:
        destination, source = edge_term_destination, edge_term_source
    body = {Phase.FORWARD: _forward, Phase.DESTINATION: destination, Phase.SOURCE: source}[spec.phase](spec)
    most_ahead = MOST_AHEAD if additive else LEAST_AHEAD
    return "\n".join([*header(spec, most_ahead), *block(body)]) + "\n"


# -- forward -----------------------------------------------------------------------------------------------------------
def _forward(spec: AttentionSpec) -> list[str]:
    sloped = spec.sloped
    lines = operands(spec, "out", "log_sum", *(("sloped_out", "sloped_sum") if sloped else ()))
    lines += operand_words(["edge_out"]) if spec.edge_features else []
    lines += ["rescales, tops, out_row = by_head(), by_head(), out + row * " + f"{spec.width} * COMPUTE"]
    if sloped:
        lines += [f"sloped_row = sloped_out + row * {spec.width} * COMPUTE"]
    lines += [edge_out_row(spec, "edge_out_row", "edge_out", "COMPUTE")] if spec.edge_features else []
    lines += per_head(spec, 'top{i}, total{i} = splat{w}(float("-inf")), splat{w}(0.0)')
    lines += per_head(spec, "sloped_total{i} = splat{w}(0.0)") if sloped else []
    if spec.score is Score.ADDITIVE:
        lines += per_head(spec, "right{i} = load{w}(right + row * right_stride * ITEM + {t})")
        tile = additive_scores(spec, sloped)
    else:
        lines += ["near = right + row * right_stride * ITEM"]
        tile = _product_scores(spec, {"x_row": FAR_X}, "x_row", "near")
    tile += _running_maximum(spec, sloped) + draw_multipliers(spec) + _forward_weights(spec, sloped)
    sums = {"sum": "{weight:scores + at} * {load:x_row}"}
    finish = {"out_row": "sum{n}"}
    if sloped:
        sums["sloped"] = "{weight:second + at} * {load:x_row}"
        finish["sloped_row"] = "sloped{n}"
    lanes = spec.lanes // 2 if sloped else spec.lanes
    ahead = FAR_X.format(far=AHEAD) if spec.score is Score.ADDITIVE else ""
    tile += accumulate(spec, lanes, sums, addresses({"x_row": FAR_X}), finish, ahead, "{weight:rescales}")
    if spec.edge_features:
        rows = {"feat_row": EDGE_FEATURES.format(width=spec.edge_features)}
        sums, finish = {"met": "{weight:scores + at} * {shared:feat_row}"}, {"edge_out_row": "met{n}"}
        again = "{weight:rescales}"
        tile += accumulate(spec.of_edges, spec.lanes, sums, rows, finish, again=again, result="finished")
    return [*lines, *in_tiles(spec, tile), *_normalised(spec, sloped)]


def _product_scores(
    spec: AttentionSpec, far_rows: dict[str, str], far: str, near: str, extra: list[str] | None = None
) -> list[str]:
    """Return the lines that store the scores of the tile's entries, sums over columns of far and near features.

    ``far_rows`` names rows of far operands, with templates of their addresses; ``extra`` is done for each entry too.
    """
    lines = min(16, -(-spec.width * ITEM_BYTES[spec.dtype] // 64))
    entry = ["far, at = index(indices, j), (j - start) * HEADS"]
    for name, address in far_rows.items():
        entry.append(f"{name}, ahead = {address.format(far='far')}, {address.format(far=AHEAD)}")
        entry += [f"prefetch(ahead + {64 * i})" for i in range(lines)]
    if spec.score is Score.DOT:
        entry += dots(spec, f"{{load:{far}}} * {{load:{near}}}", "scores + at")
        entry += per_head(spec, "put{w}(scores + at + {o}, get{w}(scores + at + {o}) * scale{w})")
    else:
        both = _both(far, near)
        entry += dots(spec, f"{{load:attn}} * {both} * {_steepness(both)}", "scores + at")
    return ["for j in range(start, stop):", *block(entry + (extra or []))]


def _both(far: str, near: str) -> str:
    return f"({{load:{far}}} + {{load:{near}}})"


def _steepness(value: str) -> str:
    """Return the template for the slope of the leaky ReLU at ``value``."""
    return f"steep({value}, slope{{w}})"


def _running_maximum(spec: AttentionSpec, sloped: bool) -> list[str]:
    """Return the lines that update the running maxima by the tile's, and the factors that rescale earlier sums."""
    lines = per_head(spec, "before{i} = top{i}")
    lines += ["for j in range(start, stop):", "    at = scores + (j - start) * HEADS"]
    lines += block(per_head(spec, "value{i} = get{w}(at + {o})", "top{i} = maximum(value{i}, top{i})"))
    # Scores of minus infinity so far: nothing has been summed, and their difference from the maximum is not a number.
    lines += per_head(
        spec,
        'shift{i} = select(greater(top{i}, splat{w}(float("-inf"))), top{i}, zero{w})',
        "rescale{i} = exp(before{i} - shift{i})",
        "put{w}(rescales + {o}, rescale{i})",
        "total{i} = total{i} * rescale{i}",
        *(["sloped_total{i} = sloped_total{i} * rescale{i}"] if sloped else []),
    )
    return lines + exponentials(spec, "shift{i}")


def _forward_weights(spec: AttentionSpec, sloped: bool) -> list[str]:
    """Return the lines that add the exponentials up and turn them into the weights that are applied."""
    before, dropped, weight = multiplier(spec)
    heads = ["value{i} = get{w}(scores + at + {o})", "total{i} = total{i} + value{i}"]
    if sloped:
        heads += ["steep{i} = value{i} * get{w}(second + at + {o})", "sloped_total{i} = sloped_total{i} + steep{i}"]
        heads += ["put{w}(second + at + {o}, steep{i}" + dropped + weight + ")"]
    if dropped or weight:
        heads += ["put{w}(scores + at + {o}, value{i}" + dropped + weight + ")"]
    return ["for j in range(start, stop):", *block([*before, *per_head(spec, *heads)])]


def _normalised(spec: AttentionSpec, sloped: bool) -> list[str]:
    """Return the lines that divide a row's sums by the sum of its exponentials."""
    lines = per_head(
        spec,
        "put{w}(rescales + {o}, one{w} / total{i})",
        *(["put{w}(tops + {o}, total{i})"] if spec.training else []),
        *(
            [f"put{{w}}(sloped_sum + row * {spec.heads} * COMPUTE + {{o}}, sloped_total{{i}} / total{{i}})"]
            if sloped
            else []
        ),
    )
    rows = {"out_row": spec}
    rows |= {"sloped_row": spec} if sloped else {}
    rows |= {"edge_out_row": spec.of_edges} if spec.edge_features else {}
    for row, swept in rows.items():
        for sweep in sweeps_of(swept, spec.lanes):
            body = [piece.put(row, f"{piece.get(row)} * {piece.weight('rescales')}") for piece in sweep.pieces]
            lines += sweep.inside(body)
    if spec.training:
        lines += ["for head in range(0, HEADS, COMPUTE):", "    put1(tops + head, log(get1(tops + head)))"]
        lines += per_head(
            spec, f"put{{w}}(log_sum + row * {spec.heads} * COMPUTE + {{o}}, get{{w}}(tops + {{o}}) + top{{i}})"
        )
    return lines


# -- gradients of scores that are products -----------------------------------------------------------------------------
def _product_destination(spec: AttentionSpec) -> list[str]:
    """Return a row's share of what sources will read, and the gradients of its features and of ``attn``."""
    gatv2 = spec.score is Score.GATV2
    lines = operands(spec, "log_sum", "out", "grad", "state", "right_grad", "right_grad_stride")
    lines += operand_words(["attn_grad"]) if gatv2 else []
    lines += [
        f"grad_row, out_row = grad + row * {spec.width} * ITEM, out + row * {spec.width} * COMPUTE",
        "near, own = right + row * right_stride * ITEM, state + row * 2 * HEADS",
        "products, right_grad_row = own + HEADS, right_grad + row * right_grad_stride * COMPUTE",
        *([f"attn_grad_row = attn_grad + row * {spec.width} * COMPUTE"] if gatv2 else []),
        *dots(spec, "{load:grad_row} * {get:out_row}", "products"),
        *per_head(
            spec,
            "shift{i}, product{i} = get{w}(log_sum + row * HEADS + {o}), get{w}(products + {o})",
            "put{w}(own + {o}, shift{i})",
        ),
    ]
    extra = dots(spec, "{load:grad_row} * {load:x_row}", "second + at")
    tile = _product_scores(spec, {"x_row": FAR_X}, "x_row", "near", extra)
    tile += exponentials(spec, "shift{i}") + draw_multipliers(spec)
    before, dropped, weight = multiplier(spec)
    change = "get{w}(scores + at + {o}) * (get{w}(second + at + {o})" + dropped + weight + " - product{i})"
    tile += ["for j in range(start, stop):"]
    tile += block([*before, *per_head(spec, "put{w}(second + at + {o}, " + change + _scale(spec) + ")")])
    if gatv2:
        both = _both("x_row", "near")
        sums = {"sum": "{weight:second + at} * " + _steepness(both)}
        sums["leaky"] = sums["sum"] + " * " + both
        stores = {"right_grad_row": "{load:attn} * sum{n}", "attn_grad_row": "leaky{n}"}
    else:
        sums, stores = {"sum": "{weight:second + at} * {load:x_row}"}, {"right_grad_row": "sum{n}"}
    tile += accumulate(spec, spec.lanes // len(sums), sums, addresses({"x_row": FAR_X}), stores)
    return [*lines, *in_tiles(spec, tile)]


def _product_source(spec: AttentionSpec) -> list[str]:
    """Return the gradient of a row's features, and of the weights of its edges."""
    gatv2 = spec.score is Score.GATV2
    lines = operands(spec, "grad", "state", "x_grad", "x_grad_stride")
    lines += operand_words(["weight_grad"]) if spec.weight_gradient else []
    lines += ["own_x, x_grad_row = x + row * x_stride * ITEM, x_grad + row * x_grad_stride * COMPUTE"]
    far = {"right_row": FAR_RIGHT, "grad_row": far_grad(spec)}
    extra = [
        "far_state = state + far * 2 * HEADS",
        *per_head(spec, "put{w}(scores + at + {o}, get{w}(scores + at + {o}) - get{w}(far_state + {o}))"),
        *dots(spec, "{load:own_x} * {load:grad_row}", "second + at"),
    ]
    tile = _product_scores(spec, far, "right_row", "own_x", extra)
    tile += exponentials(spec) + draw_multipliers(spec)
    before, dropped, weight = multiplier(spec)
    of_weight = spec.weight_gradient
    change = "value{i} * (get{w}(second + at + {o})" + dropped + weight + " - get{w}(products_row + {o}))"
    weights = [
        *before,
        "products_row = state + index(indices, j) * 2 * HEADS + HEADS",
        *(["found = zero1"] if of_weight else []),
        *per_head(
            spec,
            "value{i} = get{w}(scores + at + {o})",
            *(["found = found + reduce_add(value{i} * get{w}(second + at + {o})" + dropped + ")"] if of_weight else []),
            "put{w}(second + at + {o}, " + change + _scale(spec) + ")",
            *(["put{w}(scores + at + {o}, value{i}" + dropped + weight + ")"] if dropped or weight else []),
        ),
        *(["put1(weight_grad + edge_index(edge_ids, j) * COMPUTE, found)"] if of_weight else []),
    ]
    tile += ["for j in range(start, stop):", *block(weights)]
    sums, stores = {"sum": "{weight:scores + at} * {load:grad_row}"}, {"x_grad_row": "sum{n}"}
    if gatv2:
        sums["steep"] = "{weight:second + at} * " + _steepness(_both("right_row", "own_x"))
        stores = {"x_grad_row": "sum{n} + {load:attn} * steep{n}"}
    else:
        sums["sum"] += " + {weight:second + at} * {load:right_row}"
    tile += accumulate(spec, spec.lanes // 2, sums, addresses(far), stores)
    return [*lines, *in_tiles(spec, tile)]


def _scale(spec: AttentionSpec) -> str:
    return " * scale{w}" if spec.score is Score.DOT else ""
