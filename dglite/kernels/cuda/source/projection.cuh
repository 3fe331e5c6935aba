// Products of each head's features with a vector for the source's score and one for the destination's.

namespace dg {

// LANES lanes take one head of one row; scores (rows, 2, heads).
template <int VEC, int LANES, class item>
__device__ inline void project_heads(const item* x, const item* left, const item* right, item* scores, long long rows,
                                     long long heads, long long features) {
    using compute = compute_t<item>;
    const long long place = ((long long)blockIdx.x * BLOCK + threadIdx.x) / LANES;
    const bool exists = place < rows * heads;
    const long long row = exists ? place / heads : 0, head = exists ? place % heads : 0;
    const item *mine = x + (row * heads + head) * features, *vectors[2] = {left + head * features, right + head * features};
    compute sums[2] = {0, 0};
    for (long long k = threadIdx.x % LANES * VEC; k < features; k += LANES * VEC) {
        const Pack<item, VEC> values = load<VEC>(mine + k);
#pragma unroll
        for (int side = 0; side < 2; ++side) {
            const Pack<item, VEC> vector = load<VEC>(vectors[side] + k);
#pragma unroll
            for (int i = 0; i < VEC; ++i) sums[side] += widen(values.item[i]) * widen(vector.item[i]);
        }
    }
#pragma unroll
    for (int side = 0; side < 2; ++side) {
        const compute total = sum_across<1, LANES>(sums[side]);
        if (exists && threadIdx.x % LANES == 0) scores[(row * 2 + side) * heads + head] = narrow<item>(total);
    }
}

}  // namespace dg
