// Gather and scatter column k of the row of element (i, k): the gradients of maximum and minimum.
//
// A scatter may hit one place from many rows. Each element is first given its place as a key; equal places are then
// neighbours after a stable sort, and one thread adds up each run in its order: no atomics, the same result every time.

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

template <class item>
__device__ inline void add_runs(const long long* places, const long long* elements, const item* from, item* out,
                                long long count, long long none) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= count || places[i] == none || (i > 0 && places[i - 1] == places[i])) return;
    compute_t<item> total = 0;
    for (long long j = i; j < count && places[j] == places[i]; ++j) total += widen(from[elements[j]]);
    out[places[i]] = narrow<item>(widen(out[places[i]]) + total);
}

}  // namespace dg
