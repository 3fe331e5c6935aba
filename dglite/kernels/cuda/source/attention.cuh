// Attention: scores, a softmax of them over each row's entries, and the weighted sum of far features.
//
// A team of lanes takes one head of one row (or of one chunk of a long row): feature lanes share the head's features,
// entry lanes its entries. See kernels/render_attention.py for the formulas of the gradients; the phases, arguments and
// results are those of the CPU kernels. With an additive score a tile of as many entries as the team has lanes is taken
// at once: each lane finds one entry's weight, then the weights go round while the far rows are read. With a score that
// is a product, a far row is read once, for its score and for its share of the sum.

namespace dg {

enum ScoreKind { ADDITIVE, GATV2, DOT };

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

    struct Sums {
        compute top, total, sloped_total;
        Values sum, sloped;
    };

    // attention_forward.cuh
    __device__ void forward() const;
    __device__ void additive_tile(long long start, compute near, Sums& sums) const;
    __device__ void product_entries(Sums& sums) const;
    __device__ void finish_forward(Sums& sums) const;
    __device__ void leave_forward(const Sums& sums) const;
    __device__ static void merge_forward(const AttentionArguments<item, index>& is, const index* long_rows,
                                         const index* long_chunks, long long num_long);
    // attention_backward.cuh
    __device__ void additive_destination() const;
    __device__ void additive_source() const;
    __device__ void project(Values& sum, compute change) const;
    __device__ void product_destination() const;
    __device__ static void times(Values& values, const Values& others);
    __device__ void product_source() const;
    template <bool SOURCE>
    __device__ static void merge_backward(const AttentionArguments<item, index>& is, const index* long_rows,
                                          const index* long_chunks, long long num_long);
};

#define ATTENTION_PARAMETERS \
    template <class ITEM, class INDEX, int KIND, int VECTOR, int FEATURES, int ENTRIES, int VECTORS, bool DROPS, \
              bool WEIGHTED, bool WEIGHT_GRADIENT, bool TRAINING, bool PROJECTED>
#define ATTENTION \
    Attention<ITEM, INDEX, KIND, VECTOR, FEATURES, ENTRIES, VECTORS, DROPS, WEIGHTED, WEIGHT_GRADIENT, TRAINING, \
              PROJECTED>

}  // namespace dg
