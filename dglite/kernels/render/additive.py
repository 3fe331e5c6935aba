"""Parts of the attention kernels with additive scores: the scores, and the kernels of their gradients.

With p the weight, m its dropout multiplier and edge weight, s the slope of the leaky ReLU at the edge, and g the
gradient of the result, an additive score needs no product for an edge:

    d left[u]  = x[u] . (sum over v of s * p * m * g[v]) - sum over v of s * p * (g[v] . out[v])
    d right[v] = g[v] . (sum over u of s * p * m * x[u]) - (g[v] . out[v]) * (sum over u of s * p)

so the same weighted sums serve, once with the weights and once with the *sloped* weights, s * p. Where an edge has a
term of its own in the score, the gradient of that term is wanted, which is a product for each edge and head:

    d edge[e] = s * p * (m * (g[v] . x[u] + h[v] . f[e]) - g[v] . out[v] - h[v] . edge_out[v])

with h the gradient of the sum of the edges' features f, where there are such. The kernel at destinations writes it,
with the gradients of f and of the edge weights; those of left and right are its sums, and nothing sloped is kept.
"""

from __future__ import annotations

from ..spec import ITEM_BYTES, pieces_of
from .columns import AHEAD, FAR_X, accumulate, addresses, dots, far_grad, fill, operands, sweeps_of
from .tiles import (
    STATE,
    AttentionSpec,
    block,
    draw_multipliers,
    exponentials,
    in_tiles,
    multiplier,
    operand_words,
    per_head,
)

EDGE_FEATURES = "edge_feat + edge_index(edge_ids, j) * {width} * ITEM"
"""Template of the address of an entry's edge features."""


def additive_scores(spec: AttentionSpec, sloped: bool) -> list[str]:
    """Return the lines that store the scores of the tile's entries, and the slopes of the leaky ReLU."""
    entry = [
        f"prefetch(left + {AHEAD} * left_stride * ITEM)",
        *_ahead(spec, "edge", "edge_feat"),
        "far_left, at = left + index(indices, j) * left_stride * ITEM, (j - start) * HEADS",
        *_edge_row(spec),
        *per_head(
            spec,
            "raw{i} = load{w}(far_left + {t}) + right{i}" + _edge_term(spec),
            "slant{i} = steep(raw{i}, slope{w})",
            "put{w}(scores + at + {o}, raw{i} * slant{i})",
            *(["put{w}(second + at + {o}, slant{i})"] if sloped else []),
        ),
    ]
    return ["for j in range(start, stop):", *block(entry)]


def _edge_row(spec: AttentionSpec) -> list[str]:
    """Return the line that finds an entry's term of the edge."""
    return [f"edge_row = edge + edge_index(edge_ids, j) * {spec.heads} * ITEM"] if spec.edges else []


def _edge_term(spec: AttentionSpec) -> str:
    return " + load{w}(edge_row + {t})" if spec.edges else ""


def _ahead(spec: AttentionSpec, *names: str) -> list[str]:
    """Return the lines that prefetch what a later entry's edge has of ``names``: edge ids may be in any order."""
    if not spec.edges:
        return []
    item, compute = ITEM_BYTES[spec.dtype], ITEM_BYTES[spec.compute]
    sizes = {"edge": spec.heads * item, "edge_feat": spec.edge_features * item, "edge_grad": spec.heads * compute}
    lines = ["edge_later = edge_index(edge_ids, j + distance)"]
    for name in names:
        starts = range(0, min(sizes[name], 1024), 64)
        lines += [f"prefetch({name} + edge_later * {sizes[name]} + {start})" for start in starts]
    return lines


# -- gradients without a term of the edge ------------------------------------------------------------------------------
def additive_destination(spec: AttentionSpec) -> list[str]:
    """Return a row's terms that sources will read, and the gradient of its own score."""
    names = ("right", "right_stride", "log_sum", "out", "sloped_out", "sloped_sum", "grad", "state")
    lines = operand_words([*names, "right_grad", "right_grad_stride"])
    lines += [
        f"out_row, sloped_row = out + row * {spec.width} * COMPUTE, sloped_out + row * {spec.width} * COMPUTE",
        f"grad_row, own = grad + row * {spec.width} * ITEM, state + row * {STATE[spec.score]} * HEADS",
        "products, sums = own + HEADS, by_head()",
        *dots(spec, "{load:grad_row} * {get:out_row}", "products"),
        *dots(spec, "{load:grad_row} * {get:sloped_row}", "sums"),
        *per_head(
            spec,
            "put{w}(own + {o}, get{w}(log_sum + row * HEADS + {o}))",
            "put{w}(own + 2 * HEADS + {o}, load{w}(right + row * right_stride * ITEM + {t}))",
            "near{i} = get{w}(products + {o}) * get{w}(sloped_sum + row * HEADS + {o})",
            "put{w}(right_grad + row * right_grad_stride * COMPUTE + {o}, get{w}(sums + {o}) - near{i})",
        ),
    ]
    return lines


def additive_source(spec: AttentionSpec) -> list[str]:
    """Return the gradients of a row's features and of its score, and of the weights of its edges."""
    lines = operands(spec, "grad", "state", "x_grad", "x_grad_stride", "left_grad", "left_grad_stride")
    lines += operand_words(["weight_grad"]) if spec.weight_gradient else []
    lines += [
        "own_x, x_grad_row = x + row * x_stride * ITEM, x_grad + row * x_grad_stride * COMPUTE",
        "sums, plain, products = by_head(), by_entry(), by_entry()",
        *per_head(spec, "left{i} = load{w}(left + row * left_stride * ITEM + {t})", "lost{i} = splat{w}(0.0)"),
        *per_head(spec, "put{w}(sums + {o}, zero{w})"),
    ]
    lines += in_tiles(spec, _source_tile(spec))
    lines += per_head(
        spec,
        "change{i} = get{w}(sums + {o}) - lost{i}",
        "put{w}(left_grad + row * left_grad_stride * COMPUTE + {o}, change{i})",
        "put{w}(sums + {o}, change{i})",
    )
    return lines + (_through_projection(spec) if spec.projected else [])


def _source_tile(spec: AttentionSpec) -> list[str]:
    """Return the lines of a tile of a source's entries: weights, sloped weights, and the sums by both."""
    size = STATE[spec.score]
    scores = [
        *_states_ahead(spec),
        f"far_state, at = state + index(indices, j) * {size} * HEADS, (j - start) * HEADS",
        *per_head(
            spec,
            "raw{i} = left{i} + get{w}(far_state + 2 * HEADS + {o})",
            "slant{i} = steep(raw{i}, slope{w})",
            "put{w}(scores + at + {o}, raw{i} * slant{i} - get{w}(far_state + {o}))",
            "put{w}(second + at + {o}, slant{i})",
        ),
    ]
    tile = ["for j in range(start, stop):", *block(scores), *exponentials(spec), *draw_multipliers(spec)]
    before, dropped, weight = multiplier(spec)
    weights = [
        *before,
        f"products_row = state + index(indices, j) * {size} * HEADS + HEADS",
        *per_head(
            spec,
            "value{i} = get{w}(scores + at + {o})",
            "steep{i} = value{i} * get{w}(second + at + {o})",
            "lost{i} = lost{i} + steep{i} * get{w}(products_row + {o})",
            *(["put{w}(plain + at + {o}, value{i}" + dropped + ")"] if spec.weight_gradient else []),
            "put{w}(scores + at + {o}, value{i}" + dropped + weight + ")",
            "put{w}(second + at + {o}, steep{i}" + dropped + weight + ")",
        ),
    ]
    tile += ["for j in range(start, stop):", *block(weights)]
    sums = {"sum": "{weight:scores + at} * {load:grad_row}", "sloped": "{weight:second + at} * {load:grad_row}"}
    tile += accumulate(
        spec,
        spec.lanes // 2,
        sums,
        addresses({"grad_row": far_grad(spec)}),
        {"x_grad_row": "sum{n}"},
        far_grad(spec).format(far=AHEAD),
        products=("sums", "sloped{n} * {load:own_x}"),
    )
    return tile + (_weight_gradients(spec) if spec.weight_gradient else [])


def _states_ahead(spec: AttentionSpec) -> list[str]:
    """Return the lines that prefetch the state of a later entry's destination."""
    size = STATE[spec.score]
    lines = [f"ahead = state + {AHEAD} * {size} * HEADS"]
    return lines + [f"prefetch(ahead + {64 * i})" for i in range(-(-size * spec.heads * 4 // 64))]


def _through_projection(spec: AttentionSpec) -> list[str]:
    """Return the lines that add to the gradient of x what its scores, as a source and as a destination, pass on."""
    lines = operand_words(["attn", "attn_right", "num_right", "right_grad", "right_grad_stride"])
    lines += ["own_right, right_row = by_head(), right_grad + row * right_grad_stride * COMPUTE"]
    lines += per_head(spec, "put{w}(own_right + {o}, zero{w})")
    lines += ["if row < num_right:", *block(per_head(spec, "put{w}(own_right + {o}, get{w}(right_row + {o}))"))]
    for sweep in sweeps_of(spec, spec.lanes):
        body = []
        for piece in sweep.pieces:
            passed = "{weight:sums} * {load:attn} + {weight:own_right} * {load:attn_right}"
            body.append(piece.put("x_grad_row", f"{piece.get('x_grad_row')} + {fill(passed, piece)}"))
        lines += sweep.inside(body)
    return lines


def _weight_gradients(spec: AttentionSpec) -> list[str]:
    """Return the lines that store the gradient of each entry's edge weight: sum of weight * grad * x."""
    entry = ["far, at = index(indices, j), (j - start) * HEADS", "found = zero1"]
    entry.append(f"grad_row = {far_grad(spec).format(far='far')}")
    for sweep in sweeps_of(spec, spec.lanes):
        values = [
            f"reduce_add({fill('{weight:plain + at} * {load:grad_row} * {load:own_x}', piece)})"
            for piece in sweep.pieces
        ]
        entry += sweep.inside([f"found = found + {' + '.join(values)}"])
    entry.append("put1(weight_grad + edge_index(edge_ids, j) * COMPUTE, found)")
    return ["for j in range(start, stop):", *block(entry)]


# -- gradients with a term of the edge ---------------------------------------------------------------------------------
def edge_out_row(spec: AttentionSpec, name: str, row: str, size: str) -> str:
    """Return the line that finds a row's sum of edge features, or its gradient."""
    return f"{name} = {row} + row * {spec.of_edges.width} * {size}"


def edge_term_destination(spec: AttentionSpec) -> list[str]:
    """Return the gradients of all that a row's edges have, and of the row's own score."""
    names = ["log_sum", "out", "grad", "state", "right_grad", "right_grad_stride", "edge_grad"]
    names += ["edge_out", "edge_out_grad"] if spec.edge_features else []
    names += ["edge_feat_grad"] if spec.edge_gradient else []
    names += ["weight_grad"] if spec.weight_gradient else []
    lines = operands(spec, *names)
    lines += [
        f"grad_row, out_row = grad + row * {spec.width} * ITEM, out + row * {spec.width} * COMPUTE",
        f"own, found = state + row * {STATE[spec.score]} * HEADS, by_entry()",
        "products = own + HEADS",
        *dots(spec, "{load:grad_row} * {get:out_row}", "products"),
    ]
    products = [f"x_row, ahead = {FAR_X.format(far='far')}, {FAR_X.format(far=AHEAD)}"]
    products += [f"prefetch(ahead + {start})" for start in range(0, min(1024, spec.width * ITEM_BYTES[spec.dtype]), 64)]
    products += dots(spec, "{load:grad_row} * {load:x_row}", "found + at")
    if spec.edge_features:
        lines.append(edge_out_row(spec, "edge_out_row", "edge_out", "COMPUTE"))
        lines.append(edge_out_row(spec, "edge_out_grad_row", "edge_out_grad", "ITEM"))
        lines += dots(spec.of_edges, "{load:edge_out_grad_row} * {get:edge_out_row}", "products", True)
        products.append(f"feat_row = {EDGE_FEATURES.format(width=spec.edge_features)}")
        products += dots(spec.of_edges, "{load:edge_out_grad_row} * {shared:feat_row}", "found + at", True)
    lines += per_head(
        spec,
        "shift{i}, product{i} = get{w}(log_sum + row * HEADS + {o}), get{w}(products + {o})",
        "right{i}, near{i} = load{w}(right + row * right_stride * ITEM + {t}), splat{w}(0.0)",
        "put{w}(own + {o}, shift{i})",
        "put{w}(own + 2 * HEADS + {o}, right{i})",
    )
    tile = additive_scores(spec, True)
    tile += ["for j in range(start, stop):", "    far, at = index(indices, j), (j - start) * HEADS", *block(products)]
    tile += exponentials(spec, "shift{i}") + draw_multipliers(spec) + _edge_changes(spec)
    tile += _edge_feature_gradients(spec) if spec.edge_gradient else []
    lines += in_tiles(spec, tile)
    return lines + per_head(spec, "put{w}(right_grad + row * right_grad_stride * COMPUTE + {o}, near{i})")


def _edge_changes(spec: AttentionSpec) -> list[str]:
    """Return the lines that store the gradients of each entry's score and weight, and add the scores' up."""
    before, dropped, weight = multiplier(spec)
    of_weight = spec.weight_gradient
    applied = spec.edge_gradient and (dropped or weight)
    change = "value{i} * get{w}(second + at + {o}) * (get{w}(found + at + {o})" + dropped + weight + " - product{i})"
    entry = [
        *before,
        "edge_id = edge_index(edge_ids, j)",
        *(["total = zero1"] if of_weight else []),
        *per_head(
            spec,
            "value{i} = get{w}(scores + at + {o})",
            f"change{{i}} = {change}",
            "near{i} = near{i} + change{i}",
            "put{w}(edge_grad + edge_id * HEADS + {o}, change{i})",
            *(["total = total + reduce_add(value{i} * get{w}(found + at + {o})" + dropped + ")"] if of_weight else []),
            *(["put{w}(scores + at + {o}, value{i}" + dropped + weight + ")"] if applied else []),
        ),
        *(["put1(weight_grad + edge_id * COMPUTE, total)"] if of_weight else []),
    ]
    return ["for j in range(start, stop):", *block(entry)]


def _edge_feature_gradients(spec: AttentionSpec) -> list[str]:
    """Return the lines that store the gradient of each entry's edge features: a sum over heads."""
    width, text = spec.edge_features, []
    for first in range(0, width, spec.lanes):
        sizes = list(pieces_of(min(spec.lanes, width - first)))
        pieces = [(n, size, first + sum(sizes[:n])) for n, size in enumerate(sizes)]
        text += [f"sum{n} = splat{size}(0.0)" for n, size, _ in pieces]
        text.append(f"for head in range({spec.heads}):")
        text.append(f"    share, row_of_head = get1(at + head * COMPUTE), edge_out_grad_row + head * {width} * ITEM")
        text += [f"    sum{n} = sum{n} + share * load{size}(row_of_head + {start} * ITEM)" for n, size, start in pieces]
        text += [f"put{size}(target + {start} * COMPUTE, sum{n})" for n, size, start in pieces]
    head = [
        "at = scores + (j - start) * HEADS",
        f"target = edge_feat_grad + edge_index(edge_ids, j) * {width} * COMPUTE",
    ]
    return ["for j in range(start, stop):", *block([*head, *text])]


def edge_term_source(spec: AttentionSpec) -> list[str]:
    """Return the gradients of a row's features and of its score, a sum over its edges' terms."""
    lines = operands(spec, "grad", "state", "x_grad", "x_grad_stride", "left_grad", "left_grad_stride", "edge_grad")
    lines += ["x_grad_row, sums = x_grad + row * x_grad_stride * COMPUTE, by_head()"]
    lines += per_head(spec, "left{i} = load{w}(left + row * left_stride * ITEM + {t})", "change{i} = splat{w}(0.0)")
    size = STATE[spec.score]
    scores = [
        *_states_ahead(spec),
        *_ahead(spec, "edge", "edge_grad"),
        f"far_state, at = state + index(indices, j) * {size} * HEADS, (j - start) * HEADS",
        *_edge_row(spec),
        "changes = edge_grad + edge_index(edge_ids, j) * HEADS",
        *per_head(
            spec,
            "raw{i} = left{i} + get{w}(far_state + 2 * HEADS + {o})" + _edge_term(spec),
            "put{w}(scores + at + {o}, raw{i} * steep(raw{i}, slope{w}) - get{w}(far_state + {o}))",
            "change{i} = change{i} + get{w}(changes + {o})",
        ),
    ]
    tile = ["for j in range(start, stop):", *block(scores), *exponentials(spec), *draw_multipliers(spec)]
    before, dropped, weight = multiplier(spec)
    if dropped or weight:
        applied = per_head(spec, "put{w}(scores + at + {o}, get{w}(scores + at + {o})" + dropped + weight + ")")
        tile += ["for j in range(start, stop):", *block([*before, *applied])]
    tile += accumulate(
        spec,
        spec.lanes,
        {"sum": "{weight:scores + at} * {load:grad_row}"},
        addresses({"grad_row": far_grad(spec)}),
        {"x_grad_row": "sum{n}"},
        far_grad(spec).format(far=AHEAD),
    )
    lines += in_tiles(spec, tile)
    lines += per_head(
        spec, "put{w}(left_grad + row * left_grad_stride * COMPUTE + {o}, change{i})", "put{w}(sums + {o}, change{i})"
    )
    return lines + (_through_projection(spec) if spec.projected else [])
