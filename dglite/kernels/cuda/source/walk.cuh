// Random walks: one thread for each, with the draws of kernels/cpu/sample/walk.py.

namespace dg {

// The entry to follow from a row, -1 to end. A weight that cannot be used puts 1 + its edge id into `*wrong`.
template <class index>
__device__ inline long long next_entry(const index* edge_ids, const double* weights, long long start, long long degree,
                                       word64 bits, long long* wrong) {
    if (!weights) return start + below(bits, degree);
    double total = 0;
    for (long long entry = start; entry < start + degree; ++entry) {
        const long long edge = edge_ids ? (long long)edge_ids[entry] : entry;
        if (!is_weight(weights[edge])) {
            *wrong = edge + 1;
            return -1;
        }
        total += weights[edge];
    }
    long long next = -1;
    double target = unit(bits) * total;
    for (long long entry = start; entry < start + degree && !(next >= 0 && target < 0); ++entry) {
        const double weight = weights[edge_ids ? (long long)edge_ids[entry] : entry];
        if (!(weight > 0)) continue;
        next = entry;
        target -= weight;
    }
    return next;
}

// Steps `begin` to `end - 1` along one relation; `traces` (count, length + 1) has the nodes up to step `begin`.
template <class index, class node>
__device__ inline void walk(const index* indptr, const index* indices, const index* edge_ids, const double* weights,
                            const double* stops, long long begin, long long end, long long length, word64 key,
                            long long count, node* traces, node* edges, long long* wrong) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= count) return;
    const word64 random = stream(key, word64(i));
    long long at = traces[i * (length + 1) + begin];
    for (long long t = begin; t < end; ++t) {
        long long entry = -1;
        const bool ends = at < 0 || (stops && stops[t] > 0 && unit(draw(random, 4 * t + 1)) < stops[t]);
        const long long start = ends ? 0 : indptr[at], degree = ends ? 0 : indptr[at + 1] - start;
        if (degree) entry = next_entry(edge_ids, weights, start, degree, draw(random, 4 * t), wrong);
        at = entry < 0 ? -1 : (long long)indices[entry];
        traces[i * (length + 1) + t + 1] = node(at);
        if (edges) edges[i * length + t] = entry < 0 ? node(-1) : edge_ids ? node(edge_ids[entry]) : node(entry);
    }
}

}  // namespace dg
