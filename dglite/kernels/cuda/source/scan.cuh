// Running sums of any length: each block sums a tile, the tiles' totals are summed the same way, and added.

namespace dg {

constexpr int PER_THREAD = 8, TILE = BLOCK * PER_THREAD;

// out[i] = sum of in[0 .. i - 1] inside a tile; totals[b] = sum of tile b.
template <class T>
__device__ inline void scan_tiles(const T* in, long long* out, long long* totals, long long count) {
    __shared__ long long of_warps[BLOCK / WARP];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const long long first = (long long)blockIdx.x * TILE + threadIdx.x * PER_THREAD;
    long long values[PER_THREAD], own = 0;
#pragma unroll
    for (int i = 0; i < PER_THREAD; ++i) {
        values[i] = own;
        if (first + i < count) own += in[first + i];
    }
    long long inclusive = own;
#pragma unroll
    for (int distance = 1; distance < WARP; distance *= 2) {
        const long long before = __shfl_up_sync(ALL_LANES, inclusive, distance);
        if (lane >= distance) inclusive += before;
    }
    if (lane == WARP - 1) of_warps[warp] = inclusive;
    __syncthreads();
    long long before = inclusive - own;
    for (int i = 0; i < warp; ++i) before += of_warps[i];
#pragma unroll
    for (int i = 0; i < PER_THREAD; ++i)
        if (first + i < count) out[first + i] = before + values[i];
    if (threadIdx.x == BLOCK - 1) totals[blockIdx.x] = before + own;
}

__device__ inline void scan_add(long long* out, const long long* starts, long long count) {
    const long long first = (long long)blockIdx.x * TILE + threadIdx.x;
#pragma unroll
    for (int i = 0; i < PER_THREAD; ++i)
        if (first + i * BLOCK < count) out[first + i * BLOCK] += starts[blockIdx.x];
}

}  // namespace dg
