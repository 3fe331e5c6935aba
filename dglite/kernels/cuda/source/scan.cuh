// Running sums of any length: each block sums a tile, the tiles' totals are summed the same way, and added.

namespace dg {

constexpr int PER_THREAD = 8, TILE = BLOCK * PER_THREAD;

// The sum of the values of the block's threads before this one; `whole` is that of all. For every thread of the block.
__device__ inline long long sum_before(long long value, long long (&of_warps)[WARPS], long long& whole) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    long long inclusive = value;
#pragma unroll
    for (int distance = 1; distance < WARP; distance *= 2) {
        const long long before = __shfl_up_sync(ALL_LANES, inclusive, distance);
        if (lane >= distance) inclusive += before;
    }
    __syncthreads();
    if (lane == WARP - 1) of_warps[warp] = inclusive;
    __syncthreads();
    long long before = inclusive - value;
    whole = 0;
#pragma unroll
    for (int i = 0; i < WARPS; ++i) {
        if (i < warp) before += of_warps[i];
        whole += of_warps[i];
    }
    return before;
}

// out[i] = sum of in[0 .. i - 1] inside a tile; totals[b] = sum of tile b.
template <class T>
__device__ inline void scan_tiles(const T* in, long long* out, long long* totals, long long count) {
    __shared__ long long of_warps[WARPS];
    const long long first = (long long)blockIdx.x * TILE + threadIdx.x * PER_THREAD;
    long long values[PER_THREAD], own = 0, whole;
#pragma unroll
    for (int i = 0; i < PER_THREAD; ++i) {
        values[i] = own;
        if (first + i < count) own += in[first + i];
    }
    const long long before = sum_before(own, of_warps, whole);
#pragma unroll
    for (int i = 0; i < PER_THREAD; ++i)
        if (first + i < count) out[first + i] = before + values[i];
    if (threadIdx.x == 0) totals[blockIdx.x] = whole;
}

__device__ inline void scan_add(long long* out, const long long* starts, long long count) {
    const long long first = (long long)blockIdx.x * TILE + threadIdx.x;
#pragma unroll
    for (int i = 0; i < PER_THREAD; ++i)
        if (first + i * BLOCK < count) out[first + i * BLOCK] += starts[blockIdx.x];
}

}  // namespace dg
