// Attention: scores, a softmax of them over each row's entries, and the weighted sum of far features.
//
// A team of lanes takes several heads of one row (or of one chunk of a long row). A head has LANES lanes, each of which
// holds vectors of its features; they work out the head's scores and softmax alike, so nothing goes round among them but
// what is a sum over features. The team's HEADS heads lie side by side, and ENTRIES such groups share the entries, of
// which each has AHEAD under way at once and a running maximum of its own; these are put together at the end. Formulas
// of the gradients are those of the CPU's kernels (kernels/render), and so are phases, arguments and results, but that
// every row is written: 0 where it has no entries.

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

template <class ITEM, class INDEX, int KIND, int VECTOR, int LANES, int HEADS, int ENTRIES, int VECTORS, int ENTRIES_AHEAD,
          bool DROPS, bool WEIGHTED, bool WEIGHT_GRADIENT, bool TRAINING, bool PROJECTED>
struct Attention {
    using item = ITEM;
    using index = INDEX;
    using compute = compute_t<item>;
    static constexpr int VEC = VECTOR, F = LANES * HEADS, S = ENTRIES, V = VECTORS, L = F * S, AHEAD = ENTRIES_AHEAD;
    static constexpr bool SLOPED = TRAINING && KIND == ADDITIVE;
    using Values = compute[V][VEC];

    const Rows<index>& rows;
    const AttentionArguments<item, index>& is;
    Team<F, S> team;
    Work<index> work;
    long long head;  // the lane's; the last one stands for those beyond it
    bool has_head;

    __device__ Attention(const Rows<index>& rows, const AttentionArguments<item, index>& is)
        : rows(rows), is(is), team(), work(rows.work(team.number)),
          head((long long)blockIdx.y * HEADS + team.feature / LANES), has_head(head < is.heads) {
        if (!has_head) head = is.heads - 1;
    }

    __device__ bool empty() const { return !work.exists || work.first == work.last; }
    __device__ bool whole() const { return work.chunk < 0; }
    __device__ long long width() const { return is.heads * is.features; }
    __device__ int column(int v) const { return (v * LANES + team.feature % LANES) * VEC; }
    __device__ compute* share() const { return is.partial + (work.chunk * is.heads + head) * is.partial_stride; }
    __device__ compute minus_infinity() const { return -limits<compute>::infinity(); }
    __device__ compute steep(compute x) const { return x > compute(0) ? compute(1) : compute(is.slope); }

    // A head's values in a row of given or of computed values; 0 beyond them, and unless `wanted`. No branch lies before
    // the load, so that loads of several entries are under way together.
    template <class T> __device__ void read(const T* row, Values& values, bool wanted = true) const {
        const T* at = row + head * is.features;
#pragma unroll
        for (int v = 0; v < V; ++v) {
            const bool inside = wanted && column(v) < is.features;
            const Pack<T, VEC> pack = load_early<VEC>(at + (column(v) < is.features ? column(v) : 0));
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
        return sum_across<1, LANES>(total);
    }
    // Add up the sums of those who share the entries; each then has the whole.
    __device__ static compute gather(compute value) { return sum_across<F, L>(value); }
    __device__ static void gather(Values& values) {
#pragma unroll
        for (int v = 0; v < V; ++v)
#pragma unroll
            for (int i = 0; i < VEC; ++i) values[v][i] = gather(values[v][i]);
    }
    __device__ bool writes() const { return work.exists && has_head && team.entry == 0; }
    __device__ bool first_lane() const { return writes() && team.feature % LANES == 0; }

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
        return sum_across<1, LANES>(total);
    }

    // AHEAD entries from `start` on of those that the lane takes: far nodes, edges, what weights are multiplied with. The
    // first of all entries stands for those beyond the row.
    struct Entries {
        long long far[AHEAD], edge[AHEAD];
        compute kept[AHEAD], weight[AHEAD];
        bool inside[AHEAD];
    };
    __device__ Entries entries(long long start) const {
        Entries these;
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
            const long long j = start + team.entry + a * S;
            these.inside[a] = j < work.last;
            const index here = these.inside[a] ? index(j) : index(0);
            these.far[a] = (long long)load_early1(rows.indices + here);
            these.edge[a] = DROPS || WEIGHTED || WEIGHT_GRADIENT ? (long long)rows.edge_early(here) : 0;
        }
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
            these.weight[a] = WEIGHTED ? widen(load_early1(is.weight + these.edge[a])) : compute(1);
            these.kept[a] = compute(1);
            if (DROPS)
                these.kept[a] = Dropout{is.seed, is.threshold, is.keep_scale}.multiplier<compute>(these.edge[a], int(head));
        }
        return these;
    }

    struct Sums {
        compute top, total, sloped_total;
        Values sum, sloped;
    };

    // attention_forward.cuh
    __device__ void forward() const;
    __device__ void take(const Entries& these, const compute (&scores)[AHEAD], const compute (&slants)[AHEAD],
                         const Values (&x)[AHEAD], Sums& sums) const;
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
    template <class ITEM, class INDEX, int KIND, int VECTOR, int LANES, int HEADS, int ENTRIES, int VECTORS, \
              int ENTRIES_AHEAD, bool DROPS, bool WEIGHTED, bool WEIGHT_GRADIENT, bool TRAINING, bool PROJECTED>
#define ATTENTION \
    Attention<ITEM, INDEX, KIND, VECTOR, LANES, HEADS, ENTRIES, VECTORS, ENTRIES_AHEAD, DROPS, WEIGHTED, \
              WEIGHT_GRADIENT, TRAINING, PROJECTED>

}  // namespace dg
