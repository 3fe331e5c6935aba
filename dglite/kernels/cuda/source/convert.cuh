// Stable counting sort of edges by row, eight bits of the row at a time, and the starts of rows.
//
// A block deals its tile of edges to 256 buckets. Each warp takes a run of the tile, 32 edges after 32, so that edges
// keep their order: an edge's place in its bucket is what the scan says of earlier blocks, plus what earlier warps hold,
// plus what the warp has counted so far, plus the lanes before it with the same digit. A tile is put in order in shared
// memory, so that each bucket's share of it is written side by side.

namespace dg {

constexpr int DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS;
static_assert(DIGITS == BLOCK, "a thread for each digit");

template <class index> __device__ inline int digit_of(index row, int shift) { return int((row >> shift) & (DIGITS - 1)); }

// counts[digit * number of blocks + block]
template <class index>
__device__ inline void count_digits(const index* rows, long long* counts, long long count, int shift) {
    __shared__ int found[DIGITS];
    found[threadIdx.x] = 0;
    __syncthreads();
    const long long first = (long long)blockIdx.x * TILE + threadIdx.x;
#pragma unroll
    for (int i = 0; i < PER_THREAD; ++i)
        if (first + i * BLOCK < count) atomicAdd(&found[digit_of(rows[first + i * BLOCK], shift)], 1);
    __syncthreads();
    counts[(long long)threadIdx.x * gridDim.x + blockIdx.x] = found[threadIdx.x];
}

// A block for each digit: the counts of its blocks become the sums of those before, and totals[digit] their sum.
__device__ inline void scan_digit(long long* counts, long long* totals, long long blocks) {
    __shared__ long long of_warps[WARPS];
    long long* row = counts + blockIdx.x * blocks;
    long long before = 0;
    for (long long tile = 0; tile < blocks; tile += TILE) {
        long long values[PER_THREAD], own = 0, whole;
        const long long first = tile + threadIdx.x * PER_THREAD;
#pragma unroll
        for (int i = 0; i < PER_THREAD; ++i) values[i] = first + i < blocks ? row[first + i] : 0;
#pragma unroll
        for (int i = 0; i < PER_THREAD; ++i) own += values[i];
        long long sum = before + sum_before(own, of_warps, whole);
#pragma unroll
        for (int i = 0; i < PER_THREAD; ++i) {
            if (first + i < blocks) row[first + i] = sum;
            sum += values[i];
        }
        before += whole;
    }
    if (threadIdx.x == 0) totals[blockIdx.x] = before;
}

// The lanes with the same digit. __match_any_sync takes a turn for each different one.
__device__ inline unsigned lanes_alike(int digit) {
    unsigned alike = ALL_LANES;
#pragma unroll
    for (int bit = 0; bit <= DIGIT_BITS; ++bit) {
        const bool set = (digit >> bit) & 1;
        const unsigned with = __ballot_sync(ALL_LANES, set);
        alike &= set ? with : ~with;
    }
    return alike;
}

// Without `values` they are 0, 1, 2, ...
template <class index>
__device__ inline void deal(const index* rows, const index* values, index* rows_out, index* values_out,
                            const long long* starts, const long long* totals, long long count, int shift) {
    __shared__ int seen[WARPS][DIGITS];
    __shared__ long long bases[DIGITS], of_warps[WARPS];
    __shared__ index ordered_rows[TILE], ordered_values[TILE];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    for (int w = 0; w < WARPS; ++w) seen[w][threadIdx.x] = 0;
    const long long first = (long long)blockIdx.x * TILE + warp * WARP * PER_THREAD + lane;
    index row[PER_THREAD], value[PER_THREAD];
    int place[PER_THREAD];
#pragma unroll
    for (int i = 0; i < PER_THREAD; ++i) {
        const long long from = first + i * WARP;
        row[i] = from < count ? rows[from] : index(0);
        value[i] = values && from < count ? values[from] : index(from);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < PER_THREAD; ++i) {
        const bool inside = first + i * WARP < count;
        const int digit = inside ? digit_of(row[i], shift) : DIGITS;  // lanes beyond the end are among themselves
        const unsigned same = lanes_alike(digit);
        const int before = __popc(same & ((1u << lane) - 1u));
        const int counted = inside ? seen[warp][digit] : 0;
        place[i] = counted + before;
        __syncwarp();
        if (inside && before == 0) seen[warp][digit] = counted + __popc(same);
        __syncwarp();
    }
    __syncthreads();
    long long own = 0, whole;
    for (int w = 0; w < WARPS; ++w) {
        const int here = seen[w][threadIdx.x];
        seen[w][threadIdx.x] = int(own);
        own += here;
    }
    const long long smaller = sum_before(totals[threadIdx.x], of_warps, whole);
    const long long start = sum_before(own, of_warps, whole);
    for (int w = 0; w < WARPS; ++w) seen[w][threadIdx.x] += int(start);
    bases[threadIdx.x] = smaller + starts[(long long)threadIdx.x * gridDim.x + blockIdx.x] - start;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < PER_THREAD; ++i) {
        if (first + i * WARP >= count) continue;
        const int at = seen[warp][digit_of(row[i], shift)] + place[i];
        ordered_rows[at] = row[i];
        ordered_values[at] = value[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < PER_THREAD; ++i) {
        const int at = i * BLOCK + threadIdx.x;
        if (at >= whole) continue;
        const index moved = ordered_rows[at];
        const long long to = bases[digit_of(moved, shift)] + at;
        rows_out[to] = moved;
        values_out[to] = ordered_values[at];
    }
}

// indptr[r]: the first edge whose row is r or more.
template <class index>
__device__ inline void row_starts(const index* rows, index* indptr, long long count, long long num_rows) {
    const long long row = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (row > num_rows) return;
    long long low = 0, high = count;
    while (low < high) {
        const long long middle = (low + high) / 2;
        if (rows[middle] < row) low = middle + 1;
        else high = middle;
    }
    indptr[row] = index(low);
}

// The chunks that a row is cut into: 0 unless it has more than `limit` entries.
template <class index> __device__ inline long long chunks_of(const index* indptr, long long row, long long limit) {
    const long long length = indptr[row + 1] - indptr[row];
    return length > limit ? (length + limit - 1) / limit : 0;
}

template <class index>
__device__ inline void count_chunks(const index* indptr, long long num_rows, long long limit, int* is_long, int* chunks) {
    const long long row = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (row >= num_rows) return;
    chunks[row] = int(chunks_of(indptr, row, limit));
    is_long[row] = chunks[row] > 0;
}

// List the chunks and the long rows, as `Rows` has them. There is room for more of both: rows there are -1.
template <class index>
__device__ inline void cut_rows(const index* indptr, long long num_rows, long long limit, const long long* long_before,
                                const long long* chunks_before, index* chunk_rows, index* chunk_firsts,
                                long long chunk_room, index* long_rows, index* long_chunks, long long long_room) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    const long long total = chunks_before[num_rows], num_long = long_before[num_rows];
    if (i < chunk_room && i >= total) chunk_rows[i] = index(-1);
    if (i < long_room && i >= num_long) long_rows[i] = index(-1);
    if (i <= long_room && i >= num_long) long_chunks[i] = index(total);
    if (i >= num_rows || chunks_before[i] == chunks_before[i + 1]) return;
    long_rows[long_before[i]] = index(i);
    long_chunks[long_before[i]] = index(chunks_before[i]);
    for (long long chunk = chunks_before[i]; chunk < chunks_before[i + 1]; ++chunk) {
        chunk_rows[chunk] = index(i);
        chunk_firsts[chunk] = index(indptr[i] + (chunk - chunks_before[i]) * limit);
    }
}

template <class index>
__device__ inline void pick(const index* from, const index* places, index* out, long long count) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (i < count) out[i] = from[places[i]];
}

}  // namespace dg
