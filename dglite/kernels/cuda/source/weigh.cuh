// Choosing entries of rows by weight, or uniformly where some edges are excluded; one thread for each row.
//
// The choices are those of kernels/cpu/sample/weigh.py and block.py for the same key: the same draws, compared with the
// same sums, in the same order.

namespace dg {

__device__ inline double unit(word64 bits) { return ((double)(long long)(bits >> 12) + 0.5) * 0x1p-52; }

// The time until which a row has edges, if `times` has one for each edge: int64 or float64 numbers, as `kinds` says of
// edges in bit 0, and of rows' times in bit 1.
struct TimeLimit {
    const long long* times = nullptr;
    bool is_float = false;
    long long until = 0;
    double until_float = 0;

    __device__ static TimeLimit of(const long long* times, long long kinds, long long level) {
        TimeLimit limit{times, (kinds & 1) != 0, level, double(level)};
        if (kinds & 2) {
            limit.until_float = __longlong_as_double(level);
            const double whole = floor(limit.until_float);
            const double most = 9223372036854774784.0, least = -9223372036854775808.0;
            limit.until = (long long)(whole > most ? most : whole < least ? least : whole);
        }
        return limit;
    }
    __device__ bool is_later(long long edge) const {
        return is_float ? !(__longlong_as_double(times[edge]) <= until_float) : times[edge] > until;
    }
};

// A row's weights by position: by edge id, all 1 without `values`; `excluded`, ascending, have weight 0.
template <class index>
struct RowWeights {
    const index* edge_ids;
    long long start, degree;
    const double *values, *sums;
    const long long* excluded;
    long long num_excluded;
    TimeLimit limit{};

    __device__ long long edge(long long position) const {
        return edge_ids ? (long long)edge_ids[start + position] : start + position;
    }
    __device__ bool is_absent(long long position) const {
        const long long id = edge(position);
        if (limit.times && limit.is_later(id)) return true;
        long long low = 0, high = num_excluded;
        while (low < high) {
            const long long middle = (low + high) >> 1;
            if (excluded[middle] < id)
                low = middle + 1;
            else
                high = middle;
        }
        return low < num_excluded && excluded[low] == id;
    }
    __device__ double stored(long long position) const { return values ? values[edge(position)] : 1.0; }
    __device__ double at(long long position) const { return is_absent(position) ? 0.0 : stored(position); }
};

constexpr double LARGEST = 1.7976931348623157e308;
__device__ inline bool is_weight(double weight) { return weight >= 0 && weight <= LARGEST; }

// Running sums of each row's weights, by entry; infinite from an invalid weight on.
template <class index>
__device__ inline void sum_rows(const index* indptr, const index* edge_ids, long long num_rows, const double* values,
                                double* sums) {
    const long long row = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (row >= num_rows) return;
    double total = 0;
    for (long long entry = indptr[row]; entry < (long long)indptr[row + 1]; ++entry) {
        const double weight = values[edge_ids ? (long long)edge_ids[entry] : entry];
        total += is_weight(weight) ? weight : LARGEST * (2 + total);
        sums[entry] = total;
    }
}

__device__ inline bool is_among(long long position, const int* positions, long long count) {
    for (long long k = 0; k < count; ++k)
        if (positions[k] == position) return true;
    return false;
}

__device__ inline long long first_above(const double* running, long long high, double target) {
    long long low = 0;
    while (low < high) {
        const long long middle = (low + high) >> 1;
        if (running[middle] > target)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// Draw with replacement, leave out what was drawn before or is excluded; at most `count`.
template <class index>
__device__ inline long long by_trial(const RowWeights<index>& row, long long count, word64 random, int* positions) {
    const double total = row.values ? row.sums[row.start + row.degree - 1] : 1.0;
    if (!(total > 0 && total <= LARGEST)) return 0;
    long long size = 0;
    for (long long trial = 0; trial < 4 * count + 16 && size < count; ++trial) {
        const word64 bits = draw(random, trial);
        const long long position =
            row.values ? first_above(row.sums + row.start, row.degree, unit(bits) * total) : below(bits, row.degree);
        if (position < row.degree && !row.is_absent(position) && !is_among(position, positions, size))
            positions[size++] = int(position);
    }
    return size;
}

// Keep the `count` earliest of the exponential clocks in a heap whose root is the latest; not those of `before`.
template <class index>
__device__ inline long long first_to_ring(const RowWeights<index>& row, long long count, word64 random,
                                          const int* before, long long num_before, double* keys, int* positions) {
    long long size = 0;
    for (long long j = 0; j < row.degree; ++j) {
        const double weight = row.at(j);
        if (!(weight > 0) || is_among(j, before, num_before)) continue;
        const double uniform = unit(draw(random, j));
        if (size == count && 1 - uniform >= keys[0] * weight) continue;
        const double ring = -log(uniform) / weight;
        long long at = 0;
        if (size < count) {
            at = size++;
            for (; at > 0 && keys[(at - 1) >> 1] < ring; at = (at - 1) >> 1) {
                keys[at] = keys[(at - 1) >> 1];
                positions[at] = positions[(at - 1) >> 1];
            }
        } else if (ring < keys[0]) {
            for (;;) {
                long long child = 2 * at + 1;
                if (child + 1 < count && keys[child + 1] > keys[child]) ++child;
                if (child >= count || keys[child] <= ring) break;
                keys[at] = keys[child];
                positions[at] = positions[child];
                at = child;
            }
        } else {
            continue;
        }
        keys[at] = ring;
        positions[at] = int(j);
    }
    return size;
}

// Draw with replacement: each draw looks for its place in the running sums, which are read where they are known.
template <class index>
__device__ inline long long weighted_again(const RowWeights<index>& row, long long count, word64 random,
                                           int* positions) {
    const bool summed = row.values && !row.num_excluded && !row.limit.times;
    long long final = row.degree - 1;
    while (final >= 0 && !(row.at(final) > 0)) --final;
    if (final < 0) return 0;
    double total = 0;
    if (summed)
        total = row.sums[row.start + row.degree - 1];
    else
        for (long long j = 0; j < row.degree; ++j) total += row.at(j);
    for (long long k = 0; k < count; ++k) {
        const double target = unit(draw(random, k)) * total;
        long long position = 0;
        if (summed)
            position = first_above(row.sums + row.start, final, target);
        else
            for (double sum = row.at(0); position < final && !(sum > target); sum += row.at(position)) ++position;
        positions[k] = int(position);
    }
    return count;
}

// The edge of a row whose weight cannot be used, or -1.
template <class index>
__device__ inline long long wrong_weight(const RowWeights<index>& row) {
    if (row.values)
        for (long long j = 0; j < row.degree; ++j)
            if (!is_weight(row.stored(j))) return row.edge(j);
    return -1;
}

// Choose in proportion to the weights: positions of row i from `firsts[i]`, or i * fanout, on. `keys` has a number for
// each. An edge whose weight cannot be used goes to `*wrong`.
template <class index, class node>
__device__ inline void weigh_rows(const index* indptr, const index* edge_ids, const node* seeds, long long room,
                                  const long long* degrees, long long fanout, long long replace, word64 key,
                                  const double* values, const double* sums, const long long* excluded,
                                  long long num_excluded, const long long* firsts, const long long* times,
                                  const long long* levels, long long kinds, const long long* versioned,
                                  long long versions, double* keys, int* positions, long long* counts,
                                  long long* wrong) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= room) return;
    counts[i] = 0;
    const long long degree = degrees[i];
    if (!degree) return;
    RowWeights<index> row{edge_ids, (long long)indptr[seeds[i]], degree, values, sums, excluded, num_excluded};
    if (times) row.limit = TimeLimit::of(times, kinds, levels[versioned[i] % versions]);
    positions += firsts ? firsts[i] : i * fanout;
    word64 random = stream(key, word64(i));
    long long count = 0;
    if (!replace && fanout > 0 && fanout < degree / 4) {
        count = by_trial(row, fanout, random, positions);
        random = stream(random, 0);  // what trials have drawn from must not be drawn from again
    }
    if (count == 0 || count < fanout) {
        const long long edge = wrong_weight(row);
        if (edge >= 0) {
            *wrong = edge + 1;
            return;
        }
        if (fanout < 0 || (degree <= fanout && !replace)) {
            for (long long j = 0; j < degree; ++j)
                if (row.at(j) > 0) positions[count++] = int(j);
        } else if (replace) {
            count = weighted_again(row, fanout, random, positions);
        } else if (fanout > 0) {
            count += first_to_ring(row, fanout - count, random, positions, count, keys + i * fanout, positions + count);
        }
    }
    counts[i] = count;
}

// Choose uniformly, and, where that has an excluded edge, again by another key among the others: only such rows are
// read in full. `scratch` holds 4 * fanout positions for each row.
template <class index, class node>
__device__ inline void allow_rows(const index* indptr, const index* edge_ids, const node* seeds, long long room,
                                  const long long* degrees, long long fanout, long long replace, word64 key,
                                  word64 another, const long long* excluded, long long num_excluded,
                                  const long long* firsts, int* scratch, int* positions, long long* counts) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= room) return;
    const long long degree = degrees[i];
    const long long count = fanout < 0 || (!replace && degree < fanout) ? degree : (degree ? fanout : 0);
    counts[i] = count;
    if (!count) return;
    const RowWeights<index> row{edge_ids, (long long)indptr[seeds[i]], degree, nullptr, nullptr, excluded, num_excluded};
    positions += firsts ? firsts[i] : i * fanout;
    scratch += i * 4 * (fanout > 0 ? fanout : 0);
    const bool chosen = fanout >= 0 && (replace || degree > count);
    if (chosen) choose_uniform(degree, count, replace, stream(key, word64(i)), scratch);
    bool hit = false;
    for (long long j = 0; j < count; ++j) {
        positions[j] = chosen ? scratch[j] : int(j);
        hit = hit || row.is_absent(positions[j]);
    }
    if (!hit) return;
    long long left = 0;
    for (long long j = 0; j < degree; ++j) left += !row.is_absent(j);
    const bool draws = left > 0 && fanout >= 0 && (replace || left > count);
    if (draws) choose_uniform(left, count, replace, stream(another, word64(i)), scratch);
    long long rank = 0;
    for (long long j = 0; j < degree; ++j) {
        if (row.is_absent(j)) continue;
        if (!draws) positions[rank] = int(j);
        if (draws)
            for (long long k = 0; k < count; ++k)
                if (scratch[k] == rank) positions[k] = int(j);
        ++rank;
    }
    counts[i] = draws ? count : left;
}

// LABOR where all weights are 1, one warp for each row: of more than `fanout` entries those are taken whose far end's
// random number, of 2**52, is at most `fanout / degree`. They are counted, or listed.
template <class index, class node, bool listing>
__device__ inline void labor_rows(const index* indptr, const index* indices, const node* seeds, long long room,
                                  const long long* degrees, long long fanout, word64 key, long long* counts,
                                  const long long* offsets, Listed<index, node> out, long long* total) {
    const long long i = ((long long)blockIdx.x * BLOCK + threadIdx.x) / WARP;
    const int lane = threadIdx.x % WARP;
    if (listing && i == 0 && lane == 0 && total) *total = offsets[room];
    if (i >= room) return;
    const long long degree = degrees[i], start = degree ? (long long)indptr[seeds[i]] : 0;
    const bool all = fanout < 0 || degree <= fanout;
    const long long most =
        all ? 0 : (long long)floor(double(degree) / (double(degree * degree) / double(fanout)) * 0x1p52 - 0.5);
    long long count = 0;
    for (long long base = start; base < start + degree; base += WARP) {
        const long long entry = base + lane;
        bool taken = entry < start + degree;
        if (taken && !all) taken = (long long)(draw(stream(key, word64(indices[entry])), 0) >> 12) <= most;
        const unsigned lanes = __ballot_sync(ALL_LANES, taken);
        if (listing && taken) out.write(offsets[i] + count + __popc(lanes & ((1u << lane) - 1u)), entry, i, seeds[i]);
        count += __popc(lanes);
    }
    if (!listing && lane == 0) counts[i] = count;
}

}  // namespace dg
