// Softmax among the entries of each row, for each of several heads, and its gradient. All tensors are by edge id.
//
// A row's maximum and the sum below it are kept together, as in Milakov and Gimelshein (2018). What fits into a team's
// registers is read once, the rest of a longer row a second time to write. Of a long row each chunk finds its share,
// `merge` puts the shares together and leaves the whole in the place of every chunk, and `finish` writes.

namespace dg {

// exp(x - top), 0 where both are minus infinity.
template <class C> __device__ inline C exp_below(C x, C top) { return exp(x - (top > -limits<C>::infinity() ? top : C(0))); }

// A maximum and the sum of exponentials below it.
template <class C> struct Below {
    C top, sum;
    __device__ void merge(C other_top, C other_sum) {
        const C highest = maximum(top, other_top);
        sum = sum * exp_below(top, highest) + other_sum * exp_below(other_top, highest);
        top = highest;
    }
};

// A lane takes HELD entries at once, and keeps the first of these groups from the first pass to the second.
template <class ITEM, class INDEX, int VECTOR, int FEATURES, int ENTRIES, int AT_ONCE> struct Softmax {
    using item = ITEM;
    using index = INDEX;
    using compute = compute_t<item>;
    static constexpr int VEC = VECTOR, F = FEATURES, S = ENTRIES, HELD = AT_ONCE, STEP = S * HELD;
    using Values = Pack<item, VEC>[HELD];
    using Powers = compute[HELD][VEC];

    struct Group {
        index edges[HELD];
        bool has[HELD];
    };

    const Rows<index>& rows;
    const long long heads;
    const Team<F, S> team;
    const Work<index> work;
    const long long head;  // first of the lane's vector
    const long long start;  // its first entry

    __device__ Softmax(const Rows<index>& rows, long long heads)
        : rows(rows), heads(heads), team(), work(rows.work(team.number)),
          head(((long long)blockIdx.y * F + team.feature) * VEC), start(work.first + team.entry) {}

    __device__ bool idle() const { return !work.exists || work.first == work.last || head >= heads; }
    __device__ compute* shares(compute* partial) const { return partial + work.chunk * 2 * heads + head; }

    // The entries j, j + S, ...; the last stands for those beyond it.
    __device__ void find(long long j, Group& group) const {
#pragma unroll
        for (int a = 0; a < HELD; ++a) {
            group.has[a] = j + a * S < work.last;
            group.edges[a] = rows.edge_early(group.has[a] ? index(j + a * S) : index(work.last - 1));
        }
    }

    __device__ void read(const item* from, const Group& group, Values& values) const {
#pragma unroll
        for (int a = 0; a < HELD; ++a) values[a] = load_early<VEC>(from + (long long)group.edges[a] * heads + head);
    }

    // Take the logits' exponentials below the highest so far into account, and leave them in `powers`.
    __device__ void add(const Group& group, const Values& logits, Below<compute> (&below)[VEC], Powers& powers) const {
#pragma unroll
        for (int i = 0; i < VEC; ++i) {
            compute top = below[i].top;
#pragma unroll
            for (int a = 0; a < HELD; ++a) top = maximum(top, compute(widen(logits[a].item[i])));
            compute sum = below[i].sum * exp_below(below[i].top, top);
#pragma unroll
            for (int a = 0; a < HELD; ++a) {
                powers[a][i] = exp_below(compute(widen(logits[a].item[i])), top);
                sum = group.has[a] ? sum + powers[a][i] : sum;
            }
            below[i] = {top, sum};
        }
    }

    __device__ void write(const Group& group, const Powers& powers, const compute (&scale)[VEC], item* out) const {
#pragma unroll
        for (int a = 0; a < HELD; ++a) {
            compute results[VEC];
#pragma unroll
            for (int i = 0; i < VEC; ++i) results[i] = powers[a][i] * scale[i];
            if (group.has[a]) store<VEC>(out + (long long)group.edges[a] * heads + head, results);
        }
    }

    __device__ void forward(const item* logits, item* out, compute* partial) const {
        Below<compute> below[VEC];
        compute tops[VEC] = {}, scale[VEC];  // the highest when the powers were taken
        Group held;
        Powers powers;
#pragma unroll
        for (int i = 0; i < VEC; ++i) below[i] = {-limits<compute>::infinity(), compute(0)};
        if (!idle()) {
            Values values;
            find(start, held);
            read(logits, held, values);
            add(held, values, below, powers);
#pragma unroll
            for (int i = 0; i < VEC; ++i) tops[i] = below[i].top;
            for (long long j = start + STEP; j < work.last; j += STEP) {
                Group more;
                Powers unused;
                find(j, more);
                read(logits, more, values);
                add(more, values, below, unused);
            }
        }
#pragma unroll
        for (int i = 0; i < VEC; ++i) {
            const compute top = max_across<F, F * S>(below[i].top);
            below[i] = {top, sum_across<F, F * S>(below[i].sum * exp_below(below[i].top, top))};
            scale[i] = exp_below(tops[i], top) / below[i].sum;
        }
        if (idle()) return;
        if (work.chunk < 0) {
            write(held, powers, scale, out);
            normalise(start + STEP, logits, out, below);
        } else if (team.entry == 0) {
#pragma unroll
            for (int i = 0; i < VEC; ++i) {
                shares(partial)[i] = below[i].top;
                shares(partial)[heads + i] = below[i].sum;
            }
        }
    }

    __device__ void finish_forward(const item* logits, item* out, const compute* partial) const {
        if (idle()) return;
        Below<compute> below[VEC];
#pragma unroll
        for (int i = 0; i < VEC; ++i) {
            const compute* share = partial + work.chunk * 2 * heads + head + i;
            below[i] = {share[0], share[heads]};
        }
        normalise(start, logits, out, below);
    }

    __device__ void normalise(long long from, const item* logits, item* out, const Below<compute> (&below)[VEC]) const {
        compute scale[VEC];
#pragma unroll
        for (int i = 0; i < VEC; ++i) scale[i] = compute(1) / below[i].sum;
        for (long long j = from; j < work.last; j += STEP) {
            Group group;
            Values values;
            Powers powers;
            find(j, group);
            read(logits, group, values);
#pragma unroll
            for (int a = 0; a < HELD; ++a)
#pragma unroll
                for (int i = 0; i < VEC; ++i)
                    powers[a][i] = exp_below(compute(widen(values[a].item[i])), below[i].top);
            write(group, powers, scale, out);
        }
    }

    __device__ void add(const Group& group, const Values& weights, const Values& grads, compute (&total)[VEC]) const {
#pragma unroll
        for (int a = 0; a < HELD; ++a)
#pragma unroll
            for (int i = 0; i < VEC; ++i) {
                const compute product = compute(widen(weights[a].item[i])) * widen(grads[a].item[i]);
                total[i] = group.has[a] ? total[i] + product : total[i];
            }
    }

    __device__ void write(const Group& group, const Values& weights, const Values& grads, const compute (&total)[VEC],
                          item* out) const {
#pragma unroll
        for (int a = 0; a < HELD; ++a) {
            compute results[VEC];
#pragma unroll
            for (int i = 0; i < VEC; ++i)
                results[i] = compute(widen(weights[a].item[i])) * (compute(widen(grads[a].item[i])) - total[i]);
            if (group.has[a]) store<VEC>(out + (long long)group.edges[a] * heads + head, results);
        }
    }

    __device__ void backward(const item* softmax, const item* grad, item* out, compute* partial) const {
        compute total[VEC] = {};
        Group held;
        Values weights, grads;
        if (!idle()) {
            find(start, held);
            read(softmax, held, weights);
            read(grad, held, grads);
            add(held, weights, grads, total);
            for (long long j = start + STEP; j < work.last; j += STEP) {
                Group more;
                Values weights, grads;
                find(j, more);
                read(softmax, more, weights);
                read(grad, more, grads);
                add(more, weights, grads, total);
            }
        }
#pragma unroll
        for (int i = 0; i < VEC; ++i) total[i] = sum_across<F, F * S>(total[i]);
        if (idle()) return;
        if (work.chunk < 0) {
            write(held, weights, grads, total, out);
            project(start + STEP, softmax, grad, out, total);
        } else if (team.entry == 0) {
#pragma unroll
            for (int i = 0; i < VEC; ++i) shares(partial)[i] = total[i];
        }
    }

    __device__ void finish_backward(const item* softmax, const item* grad, item* out, const compute* partial) const {
        if (idle()) return;
        compute total[VEC];
#pragma unroll
        for (int i = 0; i < VEC; ++i) total[i] = partial[work.chunk * 2 * heads + head + i];
        project(start, softmax, grad, out, total);
    }

    __device__ void project(long long from, const item* softmax, const item* grad, item* out,
                            const compute (&total)[VEC]) const {
        for (long long j = from; j < work.last; j += STEP) {
            Group group;
            Values weights, grads;
            find(j, group);
            read(softmax, group, weights);
            read(grad, group, grads);
            write(group, weights, grads, total, out);
        }
    }
};

// Put the shares of each long row's chunks together: a block for a row, the threads of a head each every so manyth chunk.
template <class compute, class index, bool SUMS>
__device__ inline void softmax_merge(const index* long_chunks, long long num_long, compute* partial, long long heads) {
    __shared__ Below<compute> joined[BLOCK];
    const MergeThread thread(heads);
    const bool takes = thread.column < heads;
    for (long long number = blockIdx.x; number < num_long; number += gridDim.x) {
        const long long first = long_chunks[number], last = long_chunks[number + 1];
        if (first == last) return;  // there are fewer long rows than there is room for, and no more after this
        Below<compute> below{SUMS ? compute(0) : -limits<compute>::infinity(), compute(0)};
#pragma unroll 4
        for (long long chunk = first + thread.slice; takes && chunk < last; chunk += thread.slices) {
            const compute* share = partial + chunk * 2 * heads + thread.column;
            if (SUMS) below.top += share[0];
            else below.merge(share[0], share[heads]);
        }
        joined[threadIdx.x] = below;
        for (int half = thread.slices / 2; half > 0; half /= 2) {
            __syncthreads();
            if (thread.slice >= half) continue;
            const Below<compute> other = joined[threadIdx.x + half * thread.columns];
            if (SUMS) joined[threadIdx.x].top += other.top;
            else joined[threadIdx.x].merge(other.top, other.sum);
        }
        __syncthreads();
        below = joined[threadIdx.x % thread.columns];
        for (long long chunk = first + thread.slice; takes && chunk < last; chunk += thread.slices) {
            partial[chunk * 2 * heads + thread.column] = below.top;
            if (!SUMS) partial[(chunk * 2 + 1) * heads + thread.column] = below.sum;
        }
        __syncthreads();
    }
}

}  // namespace dg
