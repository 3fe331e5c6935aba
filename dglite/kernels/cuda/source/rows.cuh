// How a compressed matrix is dealt to teams of lanes.
//
// A team is FEATURE_LANES x ENTRY_LANES neighbouring lanes of one warp: the former share a row's features, the latter
// its entries. Rows of more than `limit` entries are cut into chunks of that length, each a team's work; what the chunks
// of a row find is put together by a second kernel, in their order. So hubs do not hold a warp up, no value is added by
// an atomic, and every result is the same from run to run.

namespace dg {

template <class index> struct Work {
    long long row, chunk;  // chunk: number among all chunks, -1 for a whole row
    index first, last;     // entries
    bool exists;
};

template <class index> struct Rows {
    const index* indptr;
    const index* indices;
    const index* edge_ids;  // null: entry j is edge j
    long long num_rows;
    const index* chunk_rows;
    const index* chunk_firsts;
    long long num_chunks, limit;

    __device__ index edge(index entry) const { return edge_ids ? __ldg(edge_ids + entry) : entry; }
    __device__ index edge_early(index entry) const { return edge_ids ? load_early1(edge_ids + entry) : entry; }

    // Chunks come first: long work that starts early ends early.
    __device__ Work<index> work(long long team) const {
        Work<index> work{0, -1, 0, 0, false};
        if (team < num_chunks) {
            work.chunk = team;
            const index row = __ldg(chunk_rows + team);
            if (row < 0) return work;  // there are fewer chunks than there is room for
            work.row = row;
            work.first = __ldg(chunk_firsts + team);
            const index end = __ldg(indptr + work.row + 1);
            work.last = end - work.first > limit ? index(work.first + limit) : end;
            work.exists = true;
        } else if (team - num_chunks < num_rows) {
            work.row = team - num_chunks;
            work.first = __ldg(indptr + work.row);
            work.last = __ldg(indptr + work.row + 1);
            work.exists = work.last - work.first <= limit;
            if (!work.exists) work.last = work.first;
        }
        return work;
    }
};

template <int FEATURE_LANES, int ENTRY_LANES> struct Team {
    static constexpr int SIZE = FEATURE_LANES * ENTRY_LANES;
    long long number;
    int lane, feature, entry;  // in the warp, among the feature lanes, among the entry lanes

    __device__ Team() {
        const int thread = threadIdx.x;
        number = (long long)blockIdx.x * (BLOCK / SIZE) + thread / SIZE;
        lane = thread % WARP;
        feature = thread % FEATURE_LANES;
        entry = thread / FEATURE_LANES % ENTRY_LANES;
    }
};

// A thread of a block that puts a long row's chunks together: it has a column, up to WARP of them side by side, and
// takes the chunks `slice`, `slice + slices`, ...
struct MergeThread {
    int columns, slices, slice;
    long long column;

    __device__ MergeThread(long long width) : columns(1) {
        while (columns < WARP && columns < width) columns *= 2;
        slices = BLOCK / columns;
        slice = threadIdx.x / columns;
        column = (long long)blockIdx.y * columns + threadIdx.x % columns;
    }
};

}  // namespace dg
