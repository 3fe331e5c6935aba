// Softmax among the entries of each row, for each of several heads, and its gradient. All tensors are by edge id.
//
// A row is read twice: once for its maximum and the sum below it, which are kept together as in Milakov and Gimelshein
// (2018), once to write. Of a long row each chunk finds its share, `merge` puts the shares together and leaves the whole
// in the place of every chunk, and `finish` writes.

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

template <class ITEM, class INDEX, int VECTOR, int FEATURES, int ENTRIES> struct Softmax {
    using item = ITEM;
    using index = INDEX;
    using compute = compute_t<item>;
    static constexpr int VEC = VECTOR, F = FEATURES, S = ENTRIES, AHEAD = 4;

    const Rows<index>& rows;
    const long long heads;
    const Team<F, S> team;
    const Work<index> work;
    const long long head;  // first of the lane's vector

    __device__ Softmax(const Rows<index>& rows, long long heads)
        : rows(rows), heads(heads), team(), work(rows.work(team.number)),
          head(((long long)blockIdx.y * F + team.feature) * VEC) {}

    __device__ bool idle() const { return !work.exists || head >= heads; }
    __device__ long long at(index entry) const { return (long long)rows.edge(entry) * heads + head; }
    __device__ compute* shares(compute* partial) const { return partial + work.chunk * 2 * heads + head; }

    __device__ void forward(const item* logits, item* out, compute* partial) const {
        Below<compute> below[VEC];
#pragma unroll
        for (int i = 0; i < VEC; ++i) below[i] = {-limits<compute>::infinity(), compute(0)};
        if (!idle()) {
            for (long long j = work.first + team.entry; j < work.last; j += S * AHEAD) {
                Pack<item, VEC> values[AHEAD];
#pragma unroll
                for (int a = 0; a < AHEAD; ++a)
                    values[a] = load<VEC>(logits + at(index(j + a * S < work.last ? j + a * S : work.last - 1)));
#pragma unroll
                for (int i = 0; i < VEC; ++i) {
                    compute top = below[i].top;
#pragma unroll
                    for (int a = 0; a < AHEAD; ++a) top = maximum(top, compute(widen(values[a].item[i])));
                    compute sum = below[i].sum * exp_below(below[i].top, top);
#pragma unroll
                    for (int a = 0; a < AHEAD; ++a)
                        if (j + a * S < work.last) sum += exp_below(compute(widen(values[a].item[i])), top);
                    below[i] = {top, sum};
                }
            }
        }
#pragma unroll
        for (int i = 0; i < VEC; ++i)
#pragma unroll
            for (int distance = F; distance < F * S; distance *= 2)
                below[i].merge(across(below[i].top, distance), across(below[i].sum, distance));
        if (idle()) return;
        if (work.chunk < 0) {
            normalise(logits, out, below);
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
        normalise(logits, out, below);
    }

    __device__ void normalise(const item* logits, item* out, const Below<compute> (&below)[VEC]) const {
        compute scale[VEC];
#pragma unroll
        for (int i = 0; i < VEC; ++i) scale[i] = compute(1) / below[i].sum;
#pragma unroll 4
        for (long long j = work.first + team.entry; j < work.last; j += S) {
            const long long place = at(index(j));
            const Pack<item, VEC> values = load<VEC>(logits + place);
            compute results[VEC];
#pragma unroll
            for (int i = 0; i < VEC; ++i)
                results[i] = exp_below(compute(widen(values.item[i])), below[i].top) * scale[i];
            store<VEC>(out + place, results);
        }
    }

    __device__ void backward(const item* softmax, const item* grad, item* out, compute* partial) const {
        compute total[VEC] = {};
        if (!idle()) {
#pragma unroll 4
            for (long long j = work.first + team.entry; j < work.last; j += S) {
                const long long place = at(index(j));
                const Pack<item, VEC> weights = load<VEC>(softmax + place), grads = load<VEC>(grad + place);
#pragma unroll
                for (int i = 0; i < VEC; ++i) total[i] += compute(widen(weights.item[i])) * widen(grads.item[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < VEC; ++i) total[i] = sum_across<F, F * S>(total[i]);
        if (idle()) return;
        if (work.chunk < 0) {
            project(softmax, grad, out, total);
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
        project(softmax, grad, out, total);
    }

    __device__ void project(const item* softmax, const item* grad, item* out, const compute (&total)[VEC]) const {
#pragma unroll 4
        for (long long j = work.first + team.entry; j < work.last; j += S) {
            const long long place = at(index(j));
            const Pack<item, VEC> weights = load<VEC>(softmax + place), grads = load<VEC>(grad + place);
            compute results[VEC];
#pragma unroll
            for (int i = 0; i < VEC; ++i)
                results[i] = compute(widen(weights.item[i])) * (compute(widen(grads.item[i])) - total[i]);
            store<VEC>(out + place, results);
        }
    }
};

// Put the shares of each long row's chunks together, in their order. One thread for each row and head.
template <class compute, class index, bool SUMS>
__device__ inline void softmax_merge(const index* long_chunks, long long num_long, compute* partial, long long heads) {
    const long long element = (long long)blockIdx.x * BLOCK + threadIdx.x;
    const long long number = element / heads, head = element % heads;
    if (number >= num_long) return;
    const long long first = long_chunks[number], last = long_chunks[number + 1];
    if (first == last) return;
    Below<compute> below{partial[first * 2 * heads + head], SUMS ? compute(0) : partial[(first * 2 + 1) * heads + head]};
    for (long long chunk = first + 1; chunk < last; ++chunk) {
        if (SUMS) below.top += partial[chunk * 2 * heads + head];
        else below.merge(partial[chunk * 2 * heads + head], partial[(chunk * 2 + 1) * heads + head]);
    }
    for (long long chunk = first; chunk < last; ++chunk) {
        partial[chunk * 2 * heads + head] = below.top;
        if (!SUMS) partial[(chunk * 2 + 1) * heads + head] = below.sum;
    }
}

}  // namespace dg
