// Sampling by time: nodes at times, `node * versions + version`, and the latest edges of rows.

namespace dg {

__device__ inline void split_nodes(const long long* versioned, long long room, const long long* count,
                                   long long versions, long long* nodes) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (is_row(i, room, count)) nodes[i] = versioned[i] / versions;
}

// Give far ends the version of their rows.
__device__ inline void join_nodes(long long* far, const long long* rows, long long room, const long long* count,
                                  const long long* versioned, long long versions) {
    const long long at = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (is_row(at, room, count)) far[at] = far[at] * versions + versioned[rows[at]] % versions;
}

// Choose the last `fanout` entries (-1: all) that are not later than their row's time; rows are ordered by time.
template <class index>
__device__ inline void latest_rows(const index* indptr, const index* edge_ids, const long long* seeds, long long room,
                                   const long long* degrees, long long fanout, const long long* excluded,
                                   long long num_excluded, const long long* firsts, const long long* times,
                                   const long long* levels, long long kinds, const long long* versioned,
                                   long long versions, int* positions, long long* counts) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= room) return;
    counts[i] = 0;
    const long long degree = degrees[i];
    if (!degree) return;
    const RowWeights<index> row{edge_ids, (long long)indptr[seeds[i]], degree, nullptr, nullptr, excluded, num_excluded};
    const TimeLimit limit = TimeLimit::of(times, kinds, levels[versioned[i] % versions]);
    positions += firsts ? firsts[i] : i * fanout;
    long long end = 0, high = degree;
    while (end < high) {
        const long long middle = (end + high) >> 1;
        if (limit.is_later(row.edge(middle)))
            high = middle;
        else
            end = middle + 1;
    }
    long long begin = end, count = 0;
    while (begin > 0 && (fanout < 0 || count < fanout)) count += !row.is_absent(--begin);
    for (long long at = begin, to = 0; at < end; ++at)
        if (!row.is_absent(at)) positions[to++] = int(at);
    counts[i] = count;
}

}  // namespace dg
