// Gather and scatter column k of the row of element (i, k): the gradients of maximum and minimum.
//
// A scatter may hit one place from many rows. Each element is first given its place as a key; equal places are then
// neighbours after a stable sort, and each run is added up in an order of its own: no atomics, the same result every time.

namespace dg {

template <class index> __device__ inline long long row_of(const index* lookup, index entry) {
    return lookup ? (long long)lookup[entry] : (long long)entry;
}

template <class item, class index>
__device__ inline void gather_argmax(const index* argmax, const index* lookup, const item* from, item* out,
                                      long long count, long long width, double fill) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= count) return;
    const index entry = argmax[i];
    out[i] = entry < 0 ? narrow<item>(compute_t<item>(fill)) : from[row_of(lookup, entry) * width + i % width];
}

// Element (i, k) adds to place row * width + k; with -1 to none, which sorts last.
template <class index>
__device__ inline void argmax_places(const index* argmax, const index* lookup, long long* places, long long count,
                                     long long width, long long none) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= count) return;
    places[i] = argmax[i] < 0 ? none : row_of(lookup, argmax[i]) * width + i % width;
}

// The first of the sorted `places` after i that is another: looked for in steps that double, then between the last two.
__device__ inline long long end_of_run(const long long* places, long long i, long long count) {
    long long low = i, step = 1;
    while (low + step < count && places[low + step] == places[i]) {
        low += step;
        step *= 2;
    }
    for (; step > 0; step /= 2)
        if (low + step < count && places[low + step] == places[i]) low += step;
    return low + 1;
}

// A thread for each element: the first of a run adds it up, and the whole warp those of more than WARP elements.
template <class item>
__device__ inline void add_runs(const long long* places, const long long* elements, const item* from, item* out,
                                long long count, long long none) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    const bool starts = i < count && places[i] != none && (i == 0 || places[i - 1] != places[i]);
    const long long end = starts ? end_of_run(places, i, count) : i;
    compute_t<item> total = 0;
    if (end - i <= WARP) {
#pragma unroll 4
        for (long long j = i; j < end; ++j) total += widen(from[elements[j]]);
    }
    const int lane = threadIdx.x % WARP;
    for (unsigned longer = __ballot_sync(ALL_LANES, end - i > WARP); longer; longer &= longer - 1) {
        const int whose = __ffs(int(longer)) - 1;
        const long long last = from_lane(end, whose);
        compute_t<item> share = 0;
#pragma unroll 4
        for (long long j = from_lane(i, whose) + lane; j < last; j += WARP) share += widen(from[elements[j]]);
        share = sum_across<1, WARP>(share);
        if (lane == whose) total = share;
    }
    if (starts) out[places[i]] = narrow<item>(widen(out[places[i]]) + total);
}

}  // namespace dg
