// Neighbour sampling, and numbering of ids in the order of their first appearance, as to_block needs it.
//
// What a row draws is a function of the key and of the row's position (SplitMix64, as in kernels/cpu/counter.py), and
// the choices are made by the same steps as in kernels/cpu/choose.py: a GPU and a CPU choose the same neighbours.

namespace dg {

typedef unsigned long long word64;
constexpr word64 GOLDEN = 0x9E3779B97F4A7C15ull;

__device__ inline word64 mix(word64 z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}
__device__ inline word64 stream(word64 key, word64 i) { return mix(key ^ mix(GOLDEN * (i + 1))); }
__device__ inline word64 draw(word64 start, word64 n) { return mix(start + GOLDEN * (n + 1)); }
__device__ inline long long below(word64 bits, long long bound) { return (long long)__umul64hi(bits, word64(bound)); }

// How many entries each seed's row gives.
template <class index>
__device__ inline void sample_counts(const index* indptr, const index* seeds, long long num_seeds, long long fanout,
                                     long long replace, long long* counts) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= num_seeds) return;
    const long long degree = (long long)indptr[seeds[i] + 1] - indptr[seeds[i]];
    counts[i] = fanout < 0 || (!replace && degree < fanout) ? degree : (degree ? fanout : 0);
}

// One thread for each row. `scratch` holds 4 * fanout positions for each.
template <class index>
__device__ inline void sample_rows(const index* indptr, const index* indices, const index* edge_ids, const index* seeds,
                                   long long num_seeds, long long fanout, long long replace, word64 key,
                                   const long long* offsets, const long long* counts, int* scratch, index* far,
                                   index* near, index* edges) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= num_seeds) return;
    const index seed = seeds[i];
    const long long start = indptr[seed], degree = (long long)indptr[seed + 1] - start;
    const long long to = offsets[i], count = counts[i];
    const bool chosen = fanout >= 0 && (replace || degree > count);
    const word64 random = stream(key, word64(i));
    int* positions = scratch + i * 4 * (fanout > 0 ? fanout : 0);
    const bool shuffle = chosen && !replace && degree <= 4 * count;
    if (shuffle)
        for (int j = 0; j < int(degree); ++j) positions[j] = j;
    for (long long j = 0; j < count; ++j) {
        long long position = j;
        if (chosen && replace) {
            position = below(draw(random, j), degree);
        } else if (shuffle) {
            const long long other = j + below(draw(random, j), degree - j);
            position = positions[other];
            positions[other] = positions[j];
        } else if (chosen) {  // Floyd's method
            const long long limit = degree - count + j;
            position = below(draw(random, j), limit + 1);
            for (long long k = 0; k < j; ++k)
                if (positions[k] == position) {
                    position = limit;
                    break;
                }
            positions[j] = int(position);
        }
        const long long entry = start + position;
        far[to + j] = indices[entry];
        near[to + j] = seed;
        edges[to + j] = edge_ids ? edge_ids[entry] : index(entry);
    }
}

// -- numbering: a hash table of ids that keeps the first position of each ----------------------------------------------
__device__ inline void clear_table(word64* keys, long long* firsts, long long size) {
    const long long slot = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (slot >= size) return;
    keys[slot] = ~0ull;
    firsts[slot] = 0x7fffffffffffffffll;
}

template <class index>
__device__ inline void enter_ids(const index* ids, long long count, word64* keys, long long* firsts, long long size,
                                 long long* slots) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= count) return;
    const word64 id = word64(ids[i]);
    long long slot = (long long)(mix(id) & word64(size - 1));
    for (;;) {
        const word64 found = atomicCAS(&keys[slot], ~0ull, id);
        if (found == ~0ull || found == id) break;
        slot = (slot + 1) & (size - 1);
    }
    atomicMin(&firsts[slot], i);
    slots[i] = slot;
}

__device__ inline void flag_firsts(const long long* firsts, const long long* slots, long long count, int* flags) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (i < count) flags[i] = firsts[slots[i]] == i;
}

// `numbers_before[i]` is how many ids appeared for the first time before position i.
template <class index>
__device__ inline void number_ids(const index* ids, const long long* firsts, const long long* slots,
                                  const long long* numbers_before, long long count, index* numbers, index* distinct) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= count) return;
    const long long first = firsts[slots[i]];
    numbers[i] = index(numbers_before[first]);
    if (first == i) distinct[numbers_before[i]] = ids[i];
}

}  // namespace dg
