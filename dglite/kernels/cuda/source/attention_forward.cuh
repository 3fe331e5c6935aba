// Attention, the forward phase: the members of Attention (attention.cuh) that compute results.

namespace dg {

ATTENTION_PARAMETERS
__device__ inline void ATTENTION::forward() const {
    Sums sums;
    sums.top = minus_infinity();
    sums.total = sums.sloped_total = 0;
    clear(sums.sum);
    clear(sums.sloped);
    Values near, attn;
    compute right = 0;
    if (KIND == ADDITIVE) right = empty() ? compute(0) : load1(is.right + work.row * is.right_stride + head);
    else read(is.right + work.row * is.right_stride, near, !empty());
    if (KIND == GATV2) read(is.attn, attn);
    for (long long start = work.first; any(start < work.last); start += S * AHEAD) {
        const Entries these = entries(start);
        Values x[AHEAD];
        compute scores[AHEAD], slants[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
            if (KIND == ADDITIVE) scores[a] = widen(load_early1(is.left + these.far[a] * is.left_stride + head));
            read(is.x + these.far[a] * is.x_stride, x[a], these.inside[a]);
        }
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
            slants[a] = KIND == ADDITIVE ? steep(scores[a] + right) : compute(0);
            const compute scored = KIND == ADDITIVE ? (scores[a] + right) * slants[a] : score(x[a], near, attn);
            scores[a] = these.inside[a] ? scored : minus_infinity();
        }
        take(these, scores, slants, x, sums);
    }
    const compute top = max_across<F, L>(sums.top), again = exp_below(sums.top, top);
    sums.top = top;
    sums.total = gather(sums.total * again);
    scale(sums.sum, again);
    gather(sums.sum);
    if (SLOPED) {
        sums.sloped_total = gather(sums.sloped_total * again);
        scale(sums.sloped, again);
        gather(sums.sloped);
    }
    if (whole()) finish_forward(sums);
    else leave_forward(sums);
}

ATTENTION_PARAMETERS
__device__ inline void ATTENTION::take(const Entries& these, const compute (&scores)[AHEAD],
                                       const compute (&slants)[AHEAD], const Values (&x)[AHEAD], Sums& sums) const {
    compute top = sums.top;
#pragma unroll
    for (int a = 0; a < AHEAD; ++a) top = maximum(top, scores[a]);
    const compute again = exp_below(sums.top, top);
    sums.top = top;
    sums.total *= again;
    scale(sums.sum, again);
    if (SLOPED) {
        sums.sloped_total *= again;
        scale(sums.sloped, again);
    }
#pragma unroll
    for (int a = 0; a < AHEAD; ++a) {
        const compute value = these.inside[a] ? exp_below(scores[a], top) : compute(0);
        const compute weight = value * these.kept[a] * these.weight[a];
        sums.total += value;
        add(sums.sum, weight, x[a]);
        if (SLOPED) {
            sums.sloped_total += value * slants[a];
            add(sums.sloped, weight * slants[a], x[a]);
        }
    }
}

ATTENTION_PARAMETERS
__device__ inline void ATTENTION::finish_forward(Sums& sums) const {
    const compute inverse = empty() ? compute(0) : compute(1) / sums.total;
    scale(sums.sum, inverse);
    if (writes()) write(is.out + work.row * width() + head * is.features, sums.sum);
    if (!TRAINING) return;
    const long long at = work.row * is.heads + head;
    if (first_lane()) {
        is.log_sum[at] = log(sums.total) + sums.top;
        if (SLOPED) is.sloped_sum[at] = sums.sloped_total * inverse;
    }
    if (SLOPED) {
        scale(sums.sloped, inverse);
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
