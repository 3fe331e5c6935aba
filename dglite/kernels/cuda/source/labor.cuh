// LABOR with weights, importances, excluded edges or mixed random numbers: the steps of kernels/cpu/sample/labor.py.
//
// Candidates, all entries of the seeds' rows, are flat arrays: row i has `offsets[i]` up to `offsets[i + 1]`. What is
// done for each candidate has a thread for each; sums over a row are added in the CPU's order by one thread.

namespace dg {

// The weight of each candidate edge, 0 of those excluded. An edge whose weight cannot be used goes to `*wrong`.
template <class index>
__device__ inline void labor_weigh(const index* edges, long long count, const double* values, const long long* excluded,
                                   long long num_excluded, double* weights, long long* wrong) {
    const long long at = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (at >= count) return;
    const RowWeights<index> row{edges, 0, count, values, nullptr, excluded, num_excluded};
    const double weight = row.stored(at);
    if (!is_weight(weight)) *wrong = row.edge(at) + 1;
    weights[at] = num_excluded && row.is_absent(at) ? 0.0 : weight;
}

// Candidates' importances: those of their vertices, all 1 without `by_vertex`.
template <class node>
struct Importance {
    const double* by_vertex;
    const node* vertices;
    __device__ double at(long long position) const { return by_vertex ? by_vertex[vertices[position]] : 1.0; }
};

// Each row's c_s. Products that are added are rounded first: merged into one operation they differ from the CPU's.
template <class node>
__device__ inline void labor_solve(const long long* offsets, long long rows, const double* weights,
                                   const double* by_vertex, const node* vertices, long long fanout, double* factors) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= rows) return;
    const Importance<node> importance{by_vertex, vertices};
    double total = 0, squares = 0, certain = 0;
    for (long long at = offsets[i]; at < offsets[i + 1]; ++at) {
        const double weight = weights[at];
        if (!(weight > 0)) continue;
        total += weight;
        squares += __dmul_rn(weight, weight);
        certain = fmax(certain, 1 / (weight * importance.at(at)));
    }
    const double target = fanout > 0 ? __dmul_rn(total, total) / double(fanout) : 0.0;
    double factor = 0;
    if (total != 0 && target <= __dmul_rn(squares, 1 + 1e-9)) {
        factor = certain;
    } else if (total != 0) {
        for (long long num_certain = -1;;) {
            double rest = 0, selected = 0;
            long long count = 0;
            for (long long at = offsets[i]; at < offsets[i + 1]; ++at) {
                const double weight = weights[at];
                if (!(weight > 0)) continue;
                if (factor * weight * importance.at(at) >= 1) {
                    selected += __dmul_rn(weight, weight);
                    ++count;
                } else {
                    rest += weight / importance.at(at);
                }
            }
            if (count == num_certain) break;
            factor = rest / (target - selected);
            num_certain = count;
        }
    }
    factors[i] = factor;
}

// The largest c_s among the rows of each vertex. Numbers that are not negative are ordered as their bits are.
template <class node>
__device__ inline void labor_largest(const node* rows, const node* vertices, long long count, const double* factors,
                                     long long* largest) {
    const long long at = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (at < count) atomicMax(&largest[vertices[at]], __double_as_longlong(factors[rows[at]]));
}

__device__ inline void labor_begin(double* by_vertex, long long* largest, long long room) {
    const long long vertex = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (vertex >= room) return;
    by_vertex[vertex] = 1;
    largest[vertex] = 0;
}

// Multiply importances by the largest c_s, which is 0 again afterwards.
__device__ inline void labor_raise(double* by_vertex, long long* largest, const long long* count) {
    const long long vertex = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (vertex >= *count) return;
    const double factor = __longlong_as_double(largest[vertex]);
    if (factor > 0) by_vertex[vertex] *= factor;
    largest[vertex] = 0;
}

// The expected number of vertices that are taken, in one block.
__device__ inline void labor_expect(const double* by_vertex, const long long* count, double* expected) {
    __shared__ double sums[BLOCK];
    double sum = 0;
    for (long long vertex = threadIdx.x; vertex < *count; vertex += BLOCK) sum += fmin(by_vertex[vertex], 1.0);
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x) return;
    sum = 0;
    for (int i = 0; i < BLOCK; ++i) sum += sums[i];
    *expected = sum;
}

__device__ inline double normal(word64 random) {
    return sqrt(-2 * log(unit(draw(random, 0)))) * cos(6.283185307179586 * unit(draw(random, 1)));
}

// r_t, of one key, or mixed of two.
__device__ inline double labor_variate(word64 key, word64 second, double share, double other, word64 vertex) {
    if (other == 0) return unit(draw(stream(key, vertex), 0));
    const double mixed = __dmul_rn(share, normal(stream(key, vertex))) + __dmul_rn(other, normal(stream(second, vertex)));
    return 0.5 * (1 + erf(mixed / 1.4142135623730951));
}

// Mark the candidates that are taken, with a_ts / p_ts.
template <class node>
__device__ inline void labor_mark(const node* far, const node* rows, long long count, const double* weights,
                                  const double* by_vertex, const node* vertices, const double* factors, word64 key,
                                  word64 second, double share, double other, int* marks, double* results) {
    const long long at = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (at >= count) return;
    marks[at] = 0;
    if (!(weights[at] > 0)) return;
    const Importance<node> importance{by_vertex, vertices};
    const double chance = fmin(1.0, factors[rows[at]] * weights[at] * importance.at(at));
    if (chance < 1 - 1e-12 && !(labor_variate(key, second, share, other, word64(far[at])) <= chance)) return;
    marks[at] = 1;
    results[at] = weights[at] / chance;
}

// Where each row's entries that are taken begin, and what scales their weights to a mean of 1; `before[at]` candidates
// before each one are taken.
__device__ inline void labor_scale(const long long* offsets, long long rows, const long long* before,
                                   const double* results, double* scales, long long* taken) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (i > rows) return;
    taken[i] = before[offsets[i]];
    if (i == rows) return;
    double total = 0;
    for (long long at = offsets[i]; at < offsets[i + 1]; ++at)
        if (before[at + 1] > before[at]) total += results[at];
    scales[i] = double(before[offsets[i + 1]] - before[offsets[i]]) / total;
}

// List the candidates that are taken; `seeds` has the seed of each row, null to list the rows' numbers.
template <class index, class node>
__device__ inline void labor_list(const node* from_far, const node* rows, const index* from_edges, long long count,
                                  const long long* before, const double* results, const double* scales,
                                  const node* seeds, node* far, node* near, index* edges, float* weights,
                                  long long* total) {
    const long long at = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (at == 0 && total) *total = before[count];
    if (at >= count || before[at + 1] == before[at]) return;
    const long long to = before[at];
    far[to] = from_far[at];
    near[to] = seeds ? seeds[rows[at]] : rows[at];
    edges[to] = from_edges[at];
    if (weights) weights[to] = float(results[at] * scales[rows[at]]);
}

}  // namespace dg
