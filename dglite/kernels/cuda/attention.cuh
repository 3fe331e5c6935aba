// Attention: scores, a softmax of them over each row's entries, and the weighted sum of far features.
//
// A team of lanes takes one head of one row (or of one chunk of a long row): feature lanes share the head's features,
// entry lanes its entries. See kernels/render_attention.py for the formulas of the gradients; the phases, arguments and
// results are those of the CPU kernels. With an additive score a tile of as many entries as the team has lanes is taken
// at once: each lane finds one entry's weight, then the weights go round while the far rows are read. With a score that
// is a product, a far row is read once, for its score and for its share of the sum.

namespace dg {

enum ScoreKind { ADDITIVE, GATED, DOT };

template <class item, class index> struct AttentionArguments {
    using compute = compute_t<item>;
    const item *x, *left, *right, *attn, *attn_right, *weight, *grad;
    compute *log_sum, *out, *sloped_out, *sloped_sum, *state;
    compute *x_grad, *left_grad, *right_grad, *attn_grad, *weight_grad;
    long long x_stride, left_stride, right_stride, x_grad_stride, left_grad_stride, right_grad_stride;
    long long num_right, heads, features;
    unsigned long long seed, threshold;
    double slope, score_scale, keep_scale;
    compute* partial;
    long long partial_stride;  // values that a chunk leaves for each head
};

template <class ITEM, class INDEX, int KIND, int VECTOR, int FEATURES, int ENTRIES, int VECTORS, bool DROPS,
          bool WEIGHTED, bool WEIGHT_GRADIENT, bool TRAINING, bool PROJECTED>
struct Attention {
    using item = ITEM;
    using index = INDEX;
    using compute = compute_t<item>;
    static constexpr int VEC = VECTOR, F = FEATURES, S = ENTRIES, V = VECTORS, L = F * S;
    static constexpr bool SLOPED = TRAINING && KIND == ADDITIVE;
    using Values = compute[V][VEC];

    const Rows<index>& rows;
    const AttentionArguments<item, index>& is;
    Team<F, S> team;
    Work<index> work;
    int head, own, base;  // the lane's number in its team, and the team's first lane in the warp

    __device__ Attention(const Rows<index>& rows, const AttentionArguments<item, index>& is)
        : rows(rows), is(is), team(), work(rows.work(team.number / is.heads)), head(int(team.number % is.heads)),
          own(team.lane % L), base(team.lane - team.lane % L) {}

    __device__ bool empty() const { return !work.exists || work.first == work.last; }
    __device__ bool whole() const { return work.chunk < 0; }
    __device__ long long width() const { return is.heads * is.features; }
    __device__ long long column(int v) const { return (long long)(v * F + team.feature) * VEC; }
    __device__ compute* share() const { return is.partial + (work.chunk * is.heads + head) * is.partial_stride; }
    __device__ compute minus_infinity() const { return -limits<compute>::infinity(); }
    __device__ compute steep(compute x) const { return x > compute(0) ? compute(1) : compute(is.slope); }

    // A head's values in a row of given or of computed values; 0 beyond them, and unless `wanted`.
    template <class T> __device__ void read(const T* at, Values& values, bool wanted = true) const {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            const bool inside = wanted && column(v) < is.features;
            Pack<T, VEC> pack;
            if (inside) pack = load<VEC>(at + column(v));
#pragma unroll
            for (int i = 0; i < VEC; ++i) values[v][i] = inside ? compute(widen(pack.item[i])) : compute(0);
        }
    }
    __device__ void write(compute* at, const Values& values) const {
#pragma unroll
        for (int v = 0; v < V; ++v)
            if (column(v) < is.features) store<VEC>(at + column(v), values[v]);
    }
    __device__ static void clear(Values& values) {
#pragma unroll
        for (int v = 0; v < V; ++v)
#pragma unroll
            for (int i = 0; i < VEC; ++i) values[v][i] = 0;
    }
    __device__ static void add(Values& sums, compute factor, const Values& values) {
#pragma unroll
        for (int v = 0; v < V; ++v)
#pragma unroll
            for (int i = 0; i < VEC; ++i) sums[v][i] += factor * values[v][i];
    }
    __device__ static void scale(Values& values, compute factor) {
#pragma unroll
        for (int v = 0; v < V; ++v)
#pragma unroll
            for (int i = 0; i < VEC; ++i) values[v][i] *= factor;
    }
    __device__ static compute dot(const Values& a, const Values& b) {
        compute total = 0;
#pragma unroll
        for (int v = 0; v < V; ++v)
#pragma unroll
            for (int i = 0; i < VEC; ++i) total += a[v][i] * b[v][i];
        return sum_across<1, F>(total);
    }
    // Add up the entry lanes' sums; each then has the whole.
    __device__ static void gather(Values& values) {
#pragma unroll
        for (int v = 0; v < V; ++v)
#pragma unroll
            for (int i = 0; i < VEC; ++i) values[v][i] = sum_across<F, L>(values[v][i]);
    }
    __device__ bool writes() const { return !empty() && team.entry == 0; }
    __device__ bool first_lane() const { return !empty() && own == 0; }

    // The score of a far and a near row's features.
    __device__ compute score(const Values& far, const Values& near, const Values& attn) const {
        if (KIND == DOT) return dot(far, near) * compute(is.score_scale);
        compute total = 0;
#pragma unroll
        for (int v = 0; v < V; ++v)
#pragma unroll
            for (int i = 0; i < VEC; ++i) {
                const compute both = far[v][i] + near[v][i];
                total += attn[v][i] * both * steep(both);
            }
        return sum_across<1, F>(total);
    }

    // What an entry's lane knows of it: the far node, the edge, and what its weight is multiplied with.
    struct Entry {
        long long far, edge;
        compute kept, weight;
        bool inside;
    };
    __device__ Entry entry(long long start) const {
        Entry found{0, 0, compute(1), compute(1), start + own < work.last};
        if (found.inside) {
            const index j = index(start + own);
            found.far = __ldg(rows.indices + j);
            if (DROPS || WEIGHTED || WEIGHT_GRADIENT) found.edge = rows.edge(j);
            if (DROPS) found.kept = Dropout{is.seed, is.threshold, is.keep_scale}.multiplier<compute>(found.edge, head);
            if (WEIGHTED) found.weight = load1(is.weight + found.edge);
        }
        return found;
    }

    // -- forward ------------------------------------------------------------------------------------------------------
    struct Sums {
        compute top, total, sloped_total;
        Values sum, sloped;
    };

    __device__ void forward() const {
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

    __device__ void additive_tile(long long start, compute near, Sums& sums) const {
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
    __device__ void product_entries(Sums& sums) const {
        Values near, attn;
        read(is.right + work.row * is.right_stride + head * is.features, near, !empty());
        if (KIND == GATED) read(is.attn + head * is.features, attn);
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

    __device__ void finish_forward(Sums& sums) const {
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
    __device__ void leave_forward(const Sums& sums) const {
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
    __device__ static void merge_forward(const AttentionArguments<item, index>& is, const index* long_rows,
                                         const index* long_chunks, long long num_long) {
        const long long element = (long long)blockIdx.x * BLOCK + threadIdx.x, width = is.heads * is.features;
        const long long number = element / width, head = element % width / is.features, k = element % is.features;
        if (number >= num_long) return;
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

    // -- gradients of additive scores -----------------------------------------------------------------------------------
    // Teams take whole rows: nothing here grows with the number of entries.
    __device__ void additive_destination() const {
        const bool idle = empty();
        const long long at = idle ? 0 : work.row * width() + head * is.features;
        Values grad, other;
        read(is.grad + at, grad, !idle);
        read(is.out + at, other, !idle);
        const compute product = dot(grad, other);
        read(is.sloped_out + at, other, !idle);
        const compute sloped = dot(grad, other);
        if (idle || own) return;
        const long long place = work.row * is.heads + head;
        compute* state = is.state + work.row * 3 * is.heads + head;
        state[0] = is.log_sum[place];
        state[is.heads] = product;
        state[2 * is.heads] = load1(is.right + work.row * is.right_stride + head);
        is.right_grad[work.row * is.right_grad_stride + head] = sloped - product * is.sloped_sum[place];
    }

    __device__ void additive_source() const {
        const compute near = empty() ? compute(0) : load1(is.left + work.row * is.left_stride + head);
        Values x, sum, sloped;
        read(is.x + work.row * is.x_stride + head * is.features, x, !empty());
        clear(sum);
        clear(sloped);
        compute lost = 0;
        for (long long start = work.first; any(start < work.last); start += L) {
            const Entry mine = entry(start);
            compute plain = 0, slant = 0;
            if (mine.inside) {
                const compute* state = is.state + mine.far * 3 * is.heads + head;
                const compute raw = near + state[2 * is.heads];
                slant = steep(raw);
                plain = exp(raw * slant - state[0]);
                lost += plain * slant * state[is.heads];
            }
            plain *= mine.kept;
            const compute weight = plain * mine.weight;
#pragma unroll 4
            for (int step = 0; step < F; ++step) {
                const int from = step * S + team.entry;
                const bool inside = start + from < work.last;
                const long long far = from_lane(mine.far, base + from);
                const compute share = from_lane(weight, base + from), steeper = from_lane(weight * slant, base + from);
                Values grad;
                read(is.grad + far * width() + head * is.features, grad, inside);
                add(sum, share, grad);
                add(sloped, steeper, grad);
                if (WEIGHT_GRADIENT) {
                    const compute found = from_lane(plain, base + from) * dot(grad, x);
                    const long long edge = from_lane(mine.edge, base + from);
                    if (inside && team.feature == 0) is.weight_grad[edge * is.heads + head] = found;
                }
            }
        }
        gather(sum);
        gather(sloped);
        const compute change = dot(sloped, x) - sum_across<1, L>(lost);
        if (whole() && PROJECTED) project(sum, change);
        if (writes()) write(whole() ? is.x_grad + work.row * is.x_grad_stride + head * is.features : share(), sum);
        if (first_lane())
            (whole() ? is.left_grad + work.row * is.left_grad_stride + head : share() + is.features)[0] = change;
    }

    // What the scores pass on, as a source and as a destination, to the features that they are products of.
    __device__ void project(Values& sum, compute change) const {
        const bool near = !empty() && work.row < is.num_right;
        const compute right = near ? is.right_grad[work.row * is.right_grad_stride + head] : compute(0);
        Values vector;
        read(is.attn + head * is.features, vector);
        add(sum, change, vector);
        read(is.attn_right + head * is.features, vector);
        add(sum, right, vector);
    }

    // -- gradients of scores that are products ----------------------------------------------------------------------------
    __device__ void product_destination() const {
        const long long at = work.row * width() + head * is.features;
        Values near, attn, grad, x;
        read(is.right + work.row * is.right_stride + head * is.features, near, !empty());
        if (KIND == GATED) read(is.attn + head * is.features, attn);
        read(is.grad + at, grad, !empty());
        read(is.out + at, x, !empty());
        const compute product = dot(grad, x);
        const compute shift = empty() ? compute(0) : is.log_sum[work.row * is.heads + head];
        Values sum, leaky;
        clear(sum);
        clear(leaky);
        for (long long start = work.first; any(start < work.last); start += L) {
            const Entry mine = entry(start);
            const compute factor = mine.kept * mine.weight;
#pragma unroll 2
            for (int step = 0; step < F; ++step) {
                const int from = step * S + team.entry;
                const bool inside = start + from < work.last;
                const long long far = from_lane(mine.far, base + from);
                const compute multiplier = from_lane(factor, base + from);
                read(is.x + far * is.x_stride + head * is.features, x, inside);
                const compute found = score(x, near, attn), second = dot(grad, x);
                const compute change = inside ? exp(found - shift) * (second * multiplier - product) : compute(0);
                if (KIND == DOT) {
                    add(sum, change * compute(is.score_scale), x);
                } else {
#pragma unroll
                    for (int v = 0; v < V; ++v)
#pragma unroll
                        for (int i = 0; i < VEC; ++i) {
                            const compute both = x[v][i] + near[v][i], part = change * steep(both);
                            sum[v][i] += part;
                            leaky[v][i] += part * both;
                        }
                }
            }
        }
        gather(sum);
        if (KIND == GATED) {
            gather(leaky);
            times(sum, attn);
        }
        if (first_lane()) {  // every chunk finds the same
            compute* state = is.state + work.row * 2 * is.heads + head;
            state[0] = shift;
            state[is.heads] = product;
        }
        if (!writes()) return;
        write(whole() ? is.right_grad + work.row * is.right_grad_stride + head * is.features : share(), sum);
        if (KIND == GATED) write(whole() ? is.attn_grad + at : share() + is.features, leaky);
    }

    __device__ static void times(Values& values, const Values& others) {
#pragma unroll
        for (int v = 0; v < V; ++v)
#pragma unroll
            for (int i = 0; i < VEC; ++i) values[v][i] *= others[v][i];
    }

    __device__ void product_source() const {
        Values own_x, attn, sum, steeper;
        read(is.x + work.row * is.x_stride + head * is.features, own_x, !empty());
        if (KIND == GATED) read(is.attn + head * is.features, attn);
        clear(sum);
        clear(steeper);
        for (long long start = work.first; any(start < work.last); start += L) {
            const Entry mine = entry(start);
            compute shift = 0, product = 0;
            if (mine.inside) {
                const compute* state = is.state + mine.far * 2 * is.heads + head;
                shift = state[0];
                product = state[is.heads];
            }
#pragma unroll 2
            for (int step = 0; step < F; ++step) {
                const int from = step * S + team.entry;
                const bool inside = start + from < work.last;
                const long long far = from_lane(mine.far, base + from);
                const compute kept = from_lane(mine.kept, base + from), weight = from_lane(mine.weight, base + from);
                Values right, grad;
                read(is.right + far * is.right_stride + head * is.features, right, inside);
                read(is.grad + far * width() + head * is.features, grad, inside);
                const compute found = score(right, own_x, attn), second = dot(own_x, grad);
                const compute lower = from_lane(shift, base + from), less = from_lane(product, base + from);
                const compute value = inside ? exp(found - lower) : compute(0);
                const compute change = value * (second * kept * weight - less);
                if (WEIGHT_GRADIENT) {
                    const long long edge = from_lane(mine.edge, base + from);
                    if (inside && team.feature == 0) is.weight_grad[edge * is.heads + head] = value * second * kept;
                }
                add(sum, value * kept * weight, grad);
                if (KIND == DOT) {
                    add(sum, change * compute(is.score_scale), right);
                } else {
#pragma unroll
                    for (int v = 0; v < V; ++v)
#pragma unroll
                        for (int i = 0; i < VEC; ++i) steeper[v][i] += change * steep(right[v][i] + own_x[v][i]);
                }
            }
        }
        if (KIND == GATED) {
            times(steeper, attn);
            add(sum, compute(1), steeper);
        }
        gather(sum);
        if (writes()) write(whole() ? is.x_grad + work.row * is.x_grad_stride + head * is.features : share(), sum);
    }

    // Add up what the chunks of the long rows leave. SOURCE: at sources, else at destinations.
    template <bool SOURCE>
    __device__ static void merge_backward(const AttentionArguments<item, index>& is, const index* long_rows,
                                          const index* long_chunks, long long num_long) {
        const long long element = (long long)blockIdx.x * BLOCK + threadIdx.x, width = is.heads * is.features;
        const long long number = element / width, head = element % width / is.features, k = element % is.features;
        if (number >= num_long) return;
        const long long row = long_rows[number];
        compute sum = 0, other = 0;  // other: of the score at sources (one for the head), of attn at destinations
        for (long long chunk = long_chunks[number]; chunk < long_chunks[number + 1]; ++chunk) {
            const compute* share = is.partial + (chunk * is.heads + head) * is.partial_stride;
            sum += share[k];
            if (SOURCE && KIND == ADDITIVE) other += share[is.features];
            if (!SOURCE && KIND == GATED) other += share[is.features + k];
        }
        const long long column = head * is.features + k;
        if (!SOURCE) {
            is.right_grad[row * is.right_grad_stride + column] = sum;
            if (KIND == GATED) is.attn_grad[row * width + column] = other;
            return;
        }
        if (KIND == ADDITIVE && PROJECTED) {
            sum += other * load1(is.attn + column);
            if (row < is.num_right)
                sum += is.right_grad[row * is.right_grad_stride + head] * load1(is.attn_right + column);
        }
        is.x_grad[row * is.x_grad_stride + column] = sum;
        if (KIND == ADDITIVE && k == 0) is.left_grad[row * is.left_grad_stride + head] = other;
    }
};

// Add up the heads' shares of each edge weight's gradient.
template <class compute>
__device__ inline void add_heads(const compute* shares, compute* out, long long num_edges, long long heads) {
    const long long edge = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (edge >= num_edges) return;
    compute total = 0;
    for (long long head = 0; head < heads; ++head) total += shares[edge * heads + head];
    out[edge] = total;
}

template <class compute>
__device__ inline void dropout_multipliers(compute* out, long long num_edges, long long heads, const Dropout& dropout) {
    const long long element = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (element >= num_edges * heads) return;
    out[element] = dropout.multiplier<compute>(element / heads, int(element % heads));
}

}  // namespace dg
