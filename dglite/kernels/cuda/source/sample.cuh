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

// At most ``room`` rows: as many as ``*count`` says, all where it is null.
__device__ inline bool is_row(long long i, long long room, const long long* count) {
    return i < room && (!count || i < *count);
}

// How many entries each seed's row gives; 0 beyond the last. A seed that is no row sets ``*missing``.
template <class index, class node>
__device__ inline void sample_counts(const index* indptr, long long num_rows, const node* seeds, long long room,
                                     const long long* num_seeds, long long fanout, long long replace,
                                     long long* counts, long long* missing) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= room) return;
    long long count = 0;
    if (is_row(i, room, num_seeds)) {
        const long long seed = seeds[i];
        if (seed < 0 || seed >= num_rows) {
            *missing = 1;
        } else {
            const long long degree = (long long)indptr[seed + 1] - indptr[seed];
            count = fanout < 0 || (!replace && degree < fanout) ? degree : (degree ? fanout : 0);
        }
    }
    counts[i] = count;
}

// `count` positions below `degree`, as choose_uniform of kernels/cpu/sample/choose.py writes them; room for 4 * count.
__device__ inline void choose_uniform(long long degree, long long count, bool replace, word64 random, int* positions) {
    if (replace) {
        for (long long j = 0; j < count; ++j) positions[j] = int(below(draw(random, j), degree));
    } else if (degree <= 4 * count) {
        for (int j = 0; j < int(degree); ++j) positions[j] = j;
        for (long long j = 0; j < count; ++j) {
            const long long other = j + below(draw(random, j), degree - j);
            const int position = positions[other];
            positions[other] = positions[j];
            positions[j] = position;
        }
    } else {  // Floyd's method
        for (long long j = 0; j < count; ++j) {
            const long long limit = degree - count + j;
            long long position = below(draw(random, j), limit + 1);
            for (long long k = 0; k < j; ++k)
                if (positions[k] == position) {
                    position = limit;
                    break;
                }
            positions[j] = int(position);
        }
    }
}

// What a sample lists of its entries: far ends, the seeds, or, if `numbered`, the rows' numbers, and edge ids.
template <class index, class node>
struct Listed {
    const index* indices;
    const index* edge_ids;
    long long numbered;
    node *far, *near;
    index* edges;

    __device__ void write(long long to, long long entry, long long row, node seed) const {
        far[to] = node(indices[entry]);
        near[to] = numbered ? node(row) : seed;
        edges[to] = edge_ids ? edge_ids[entry] : index(entry);
    }
};

// One thread for each row. `scratch` holds 4 * fanout positions for each; `*total` gets the number of entries.
template <class index, class node>
__device__ inline void sample_rows(const index* indptr, const node* seeds, long long room, long long fanout,
                                   long long replace, word64 key, const long long* offsets, int* scratch,
                                   Listed<index, node> out, long long* total) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (i == 0 && total) *total = offsets[room];
    if (i >= room) return;
    const long long to = offsets[i], count = offsets[i + 1] - to;
    if (!count) return;
    const node seed = seeds[i];
    const long long start = indptr[seed], degree = (long long)indptr[seed + 1] - start;
    const bool chosen = fanout >= 0 && (replace || degree > count);
    int* positions = scratch + i * 4 * (fanout > 0 ? fanout : 0);
    if (chosen) choose_uniform(degree, count, replace, stream(key, word64(i)), positions);
    for (long long j = 0; j < count; ++j) out.write(to + j, start + (chosen ? positions[j] : j), i, seed);
}

// Write all entries of the rows: one thread for each, so that long rows take no longer.
template <class index, class node>
__device__ inline void list_all(const index* indptr, const node* seeds, long long room, const long long* offsets,
                                long long entries, Listed<index, node> out, long long* total) {
    const long long at = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (at == 0 && total) *total = entries;
    if (at >= entries) return;
    long long row = 0, high = room;  // the first row that ends after this entry
    while (row < high) {
        const long long middle = (row + high) >> 1;
        if (offsets[middle + 1] > at)
            high = middle;
        else
            row = middle + 1;
    }
    out.write(at, (long long)indptr[seeds[row]] + at - offsets[row], row, seeds[row]);
}

// Write the entries of rows whose positions have been chosen: those of row i begin at `firsts[i]`, or i * fanout.
template <class index, class node>
__device__ inline void list_rows(const index* indptr, const node* seeds, long long room, long long fanout,
                                 const long long* firsts, const int* positions, const long long* offsets,
                                 Listed<index, node> out, long long* total) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (i == 0 && total) *total = offsets[room];
    if (i >= room) return;
    const long long to = offsets[i], count = offsets[i + 1] - to, first = firsts ? firsts[i] : i * fanout;
    for (long long j = 0; j < count; ++j) {
        const node seed = seeds[i];
        out.write(to + j, (long long)indptr[seed] + positions[first + j], i, seed);
    }
}

// -- numbering: a hash table from ids to numbers -----------------------------------------------------------------------
// The value of an id is -1 - its number, or, before it has one, the position at which it comes up first. So the least
// value counts, and of an id that is placed twice the later number.
constexpr long long NO_VALUE = 0x7fffffffffffffffll;

__device__ inline void clear_table(word64* keys, long long* values, long long size) {
    const long long slot = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (slot >= size) return;
    keys[slot] = ~0ull;
    values[slot] = NO_VALUE;
}

__device__ inline long long enter(word64 id, long long value, word64* keys, long long* values, long long size) {
    long long slot = (long long)(mix(id) & word64(size - 1));
    for (;;) {
        const word64 found = atomicCAS(&keys[slot], ~0ull, id);
        if (found == ~0ull || found == id) break;
        slot = (slot + 1) & (size - 1);
    }
    atomicMin(&values[slot], value);
    return slot;
}

// Give the first ids the numbers 0, 1, ..., and list them.
template <class node>
__device__ inline void place_ids(const node* ids, long long room, const long long* count, word64* keys,
                                 long long* values, long long size, node* listed) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (!is_row(i, room, count)) return;
    enter(word64(ids[i]), -1 - i, keys, values, size);
    listed[i] = ids[i];
}

template <class node>
__device__ inline void enter_ids(const node* ids, long long room, const long long* count, word64* keys,
                                 long long* values, long long size, long long* slots) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (is_row(i, room, count)) slots[i] = enter(word64(ids[i]), i, keys, values, size);
}

// The number of each id; an id without one, or with one that is not below the bound, sets ``*missing``.
template <class node>
__device__ inline void find_ids(const node* ids, long long room, const long long* count, const word64* keys,
                                const long long* values, long long size, long long bound, node* numbers,
                                long long* missing) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (!is_row(i, room, count)) return;
    const word64 id = word64(ids[i]);
    long long slot = (long long)(mix(id) & word64(size - 1));
    while (keys[slot] != id && keys[slot] != ~0ull) slot = (slot + 1) & (size - 1);
    const long long number = keys[slot] == id ? -1 - values[slot] : -1;
    if (number < 0 || number >= bound) *missing = 1;
    numbers[i] = node(number);
}

__device__ inline void flag_firsts(const long long* values, const long long* slots, long long room,
                                   const long long* count, int* flags) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (i < room) flags[i] = is_row(i, room, count) && values[slots[i]] == i;
}

// `before[i]` is how many ids came up first before position i; the numbers of these follow on `num_listed` others.
// A value may be read before or after its id has got a number: either way it gives the same one.
template <class node>
__device__ inline void number_ids(const node* ids, long long room, const long long* count, volatile long long* values,
                                  const long long* slots, const long long* before, long long listed_room,
                                  const long long* num_listed, node* numbers, node* listed, long long* total) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    const long long base = num_listed ? *num_listed : listed_room;
    if (i == 0) *total = base + before[room];
    if (!is_row(i, room, count)) return;
    const long long value = values[slots[i]];
    const long long number = value < 0 ? -1 - value : base + before[value];
    numbers[i] = node(number);
    if (before[i + 1] > before[i]) {
        listed[number] = ids[i];
        values[slots[i]] = -1 - number;
    }
}

}  // namespace dg
