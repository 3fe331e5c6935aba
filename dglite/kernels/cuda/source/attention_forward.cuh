// Attention, the forward phase: the members of Attention (attention.cuh) that compute results.

namespace dg {

ATTENTION_PARAMETERS
__device__ inline void ATTENTION::forward() const {
    Sums sums;
    sums.top = minus_infinity();
    sums.total = sums.sloped_total = 0;
    clear(sums.sum);
    clear(sums.sloped);
    if (KIND == ADDITIVE) {
        const compute near = empty() ? compute(0) : load1(is.right + work.row * is.right_stride + head);
        for (long long start = work.first; any(start < work.last); start += L) additive_tile(start, near, sums);
        sums.total = sum_across<1, L>(sums.total);
        if (SLOPED) sums.sloped_total = sum_across<1, L>(sums.sloped_total);
    } else {
        product_entries(sums);
    }
    gather(sums.sum);
    if (SLOPED) gather(sums.sloped);
    if (whole()) finish_forward(sums);
    else leave_forward(sums);
}

ATTENTION_PARAMETERS
__device__ inline void ATTENTION::additive_tile(long long start, compute near, Sums& sums) const {
    const Entry mine = entry(start);
    compute score = minus_infinity(), slant = 0;
    if (mine.inside) {
        const compute raw = load1(is.left + mine.far * is.left_stride + head) + near;
        slant = steep(raw);
        score = raw * slant;
    }
    const compute top = maximum(sums.top, max_across<1, L>(score));
    const compute again = exp_below(sums.top, top), value = mine.inside ? exp_below(score, top) : compute(0);
    sums.top = top;
    sums.total = sums.total * again + value;
    scale(sums.sum, again);
    if (SLOPED) {
        sums.sloped_total = sums.sloped_total * again + value * slant;
        scale(sums.sloped, again);
    }
    const compute weight = value * mine.kept * mine.weight;
#pragma unroll 4
    for (int step = 0; step < F; ++step) {
        const int from = step * S + team.entry;
        const long long far = from_lane(mine.far, base + from);
        const compute share = from_lane(weight, base + from);
        const compute sloped = SLOPED ? from_lane(weight * slant, base + from) : compute(0);
        Values x;
        read(is.x + far * is.x_stride + head * is.features, x, start + from < work.last);
        add(sums.sum, share, x);
        if (SLOPED) add(sums.sloped, sloped, x);
    }
}

// Every group of feature lanes has a running maximum of its own; they are put together at the end.
ATTENTION_PARAMETERS
__device__ inline void ATTENTION::product_entries(Sums& sums) const {
    Values near, attn;
    read(is.right + work.row * is.right_stride + head * is.features, near, !empty());
    if (KIND == GATV2) read(is.attn + head * is.features, attn);
    for (long long start = work.first; any(start < work.last); start += L) {
        const Entry mine = entry(start);
        const compute factor = mine.kept * mine.weight;
#pragma unroll 2
        for (int step = 0; step < F; ++step) {
            const int from = step * S + team.entry;
            const bool inside = start + from < work.last;
            const long long far = from_lane(mine.far, base + from);
            const compute share = from_lane(factor, base + from);
            Values x;
            read(is.x + far * is.x_stride + head * is.features, x, inside);
            const compute scored = score(x, near, attn), found = inside ? scored : minus_infinity();
            const compute top = maximum(sums.top, found), again = exp_below(sums.top, top);
            const compute value = inside ? exp_below(found, top) : compute(0);
            sums.top = top;
            sums.total = sums.total * again + value;
            scale(sums.sum, again);
            add(sums.sum, value * share, x);
        }
    }
    const compute top = max_across<F, L>(sums.top), again = exp_below(sums.top, top);
    scale(sums.sum, again);
    sums.total = sum_across<F, L>(sums.total * again);
    sums.top = top;
}

ATTENTION_PARAMETERS
__device__ inline void ATTENTION::finish_forward(Sums& sums) const {
    scale(sums.sum, compute(1) / sums.total);
    if (writes()) write(is.out + work.row * width() + head * is.features, sums.sum);
    if (!TRAINING) return;
    const long long at = work.row * is.heads + head;
    if (first_lane()) {
        is.log_sum[at] = log(sums.total) + sums.top;
        if (SLOPED) is.sloped_sum[at] = sums.sloped_total / sums.total;
    }
    if (SLOPED) {
        scale(sums.sloped, compute(1) / sums.total);
        if (writes()) write(is.sloped_out + work.row * width() + head * is.features, sums.sloped);
    }
}

// A chunk's share: the sums, then the sloped sums, then the maximum and the totals.
ATTENTION_PARAMETERS
__device__ inline void ATTENTION::leave_forward(const Sums& sums) const {
    if (writes()) {
        write(share(), sums.sum);
        if (SLOPED) write(share() + is.features, sums.sloped);
    }
    if (first_lane()) {
        compute* totals = share() + (SLOPED ? 2 : 1) * is.features;
        totals[0] = sums.top;
        totals[1] = sums.total;
        if (SLOPED) totals[2] = sums.sloped_total;
    }
}

// One thread for each feature of each head of each long row.
ATTENTION_PARAMETERS
__device__ inline void ATTENTION::merge_forward(const AttentionArguments<item, index>& is, const index* long_rows,
                                                const index* long_chunks, long long num_long) {
    const long long element = (long long)blockIdx.x * BLOCK + threadIdx.x, width = is.heads * is.features;
    const long long number = element / width, head = element % width / is.features, k = element % is.features;
    if (number >= num_long || long_chunks[number] == long_chunks[number + 1]) return;
    const long long sums = (SLOPED ? 2 : 1) * is.features, row = long_rows[number];
    Below<compute> all{-limits<compute>::infinity(), 0};
    compute sum = 0, sloped = 0, sloped_total = 0;
    for (long long chunk = long_chunks[number]; chunk < long_chunks[number + 1]; ++chunk) {
        const compute* share = is.partial + (chunk * is.heads + head) * is.partial_stride;
        const compute top = maximum(all.top, share[sums]);
        const compute again = exp_below(all.top, top), now = exp_below(share[sums], top);
        sum = sum * again + share[k] * now;
        if (SLOPED) sloped = sloped * again + share[is.features + k] * now;
        if (SLOPED) sloped_total = sloped_total * again + share[sums + 2] * now;
        all = {top, all.sum * again + share[sums + 1] * now};
    }
    is.out[row * width + head * is.features + k] = sum / all.sum;
    if (SLOPED) is.sloped_out[row * width + head * is.features + k] = sloped / all.sum;
    if (!TRAINING || k) return;
    is.log_sum[row * is.heads + head] = log(all.sum) + all.top;
    if (SLOPED) is.sloped_sum[row * is.heads + head] = sloped_total / all.sum;
}

}  // namespace dg
