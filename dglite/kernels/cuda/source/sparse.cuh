// g-SpMM and g-SDDMM over a rendered message (render.py).
//
// A message M knows its types (item, index), the shape of a team (VEC values per vector, FEATURE_LANES, ENTRY_LANES,
// VECTORS of a lane, AHEAD entries under way at once) and
//     Place place(column)                       where a vector's values are in the row of each operand
//     Place place_in(group, k)                  the same, without a division
//     Near near(row, place)                     values that all entries of a row share
//     Far far(source, edge, place)              values of one entry
//     void value(near, far, result)             the expressions, a vector of each

namespace dg {

enum Reduction { SUM, MEAN, MAX, MIN };

__device__ constexpr bool selects(Reduction how) { return how == MAX || how == MIN; }

template <class C> __device__ inline C identity(Reduction how) {
    return how == MAX ? -limits<C>::infinity() : (how == MIN ? limits<C>::infinity() : C(0));
}

// Whether a value replaces the best so far. A NaN replaces what is none: it comes through, as in torch.
template <class C> __device__ inline bool better(Reduction how, C value, C best) {
    return (how == MAX ? value > best : value < best) || (value != value && best == best);
}

// Take over another lane's or chunk's result; among equals the earlier entry wins.
template <class C, class index>
__device__ inline void combine(Reduction how, C& total, index& entry, C other, index other_entry) {
    if (!selects(how)) {
        total += other;
    } else if (better(how, other, total) || (!better(how, total, other) && other_entry < entry)) {
        total = other;
        entry = other_entry;
    }
}

// A lane's part of a row's work: its columns, and the values there of the row and of several entries at a time.
template <class M> struct Lane {
    using item = typename M::item;
    using index = typename M::index;
    static constexpr int VEC = M::VEC, F = M::FEATURE_LANES, S = M::ENTRY_LANES, V = M::VECTORS, AHEAD = M::AHEAD;

    const M& message;
    const Rows<index>& rows;
    Team<F, S> team;
    Work<index> work;
    long long columns[V];
    typename M::Place places[V];
    typename M::Near near[V];
    typename M::Far far[AHEAD][V];
    long long edges[AHEAD];

    __device__ Lane(const M& message, const Rows<index>& rows, long long width)
        : message(message), rows(rows), team(), work(rows.work(team.number)) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            columns[v] = (((long long)blockIdx.y * V + v) * F + team.feature) * VEC;
            // Lanes beyond the last column read the last vector, and store nothing.
            places[v] = message.place(columns[v] < width ? columns[v] : width - VEC);
            if (work.first < work.last) near[v] = message.near(work.row, places[v]);
        }
    }

    __device__ bool has(long long j, int ahead) const { return j + ahead * S < work.last; }

    // Ask for all values of the entries j, j + S, ... before the first is used; the last stands for those beyond it.
    // Who uses them must not branch on `has` before: the compiler would put each load off until after the branch.
    template <bool EDGES> __device__ void fetch(long long j) {
        long long sources[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
            const index entry = has(j, a) ? index(j + a * S) : index(work.last - 1);
            sources[a] = M::READS_SOURCE ? (long long)load_early1(rows.indices + entry) : 0;
            edges[a] = EDGES || M::READS_EDGE ? (long long)rows.edge_early(entry) : 0;
        }
#pragma unroll
        for (int a = 0; a < AHEAD; ++a)
#pragma unroll
            for (int v = 0; v < V; ++v) far[a][v] = message.far(sources[a], edges[a], places[v]);
    }
};

// Make the reductions R of the message's parts in one pass: R::COUNT, R::reduction(part), R::ARGMAX, and
// R::before(part), the number of parts before it that have an argmax. Results and argmax of a part lie behind those of the part before.
template <class M, class R>
__device__ inline void spmm(const M& message, const Rows<typename M::index>& rows, typename M::item* out,
                            typename M::index* argmax, compute_t<typename M::item>* partial,
                            typename M::index* partial_argmax, long long width) {
    using index = typename M::index;
    using compute = compute_t<typename M::item>;
    constexpr int VEC = M::VEC, F = M::FEATURE_LANES, S = M::ENTRY_LANES, V = M::VECTORS, P = R::COUNT;
    Lane<M> lane(message, rows, width);
    const Work<index>& work = lane.work;
    compute total[P][V][VEC];
    index entry[P][V][VEC];
#pragma unroll
    for (int p = 0; p < P; ++p)
#pragma unroll
        for (int v = 0; v < V; ++v)
#pragma unroll
            for (int i = 0; i < VEC; ++i) {
                total[p][v][i] = identity<compute>(R::reduction(p));
                entry[p][v][i] = work.first;
            }
    for (long long j = work.first + lane.team.entry; j < work.last; j += S * M::AHEAD) {
        lane.template fetch<false>(j);
#pragma unroll
        for (int a = 0; a < M::AHEAD; ++a) {
            const bool counts = lane.has(j, a);
#pragma unroll
            for (int v = 0; v < V; ++v) {
                compute value[P][VEC];
                message.value(lane.near[v], lane.far[a][v], value);
#pragma unroll
                for (int p = 0; p < P; ++p)
#pragma unroll
                    for (int i = 0; i < VEC; ++i) {
                        const bool replaces = counts && better(R::reduction(p), value[p][i], total[p][v][i]);
                        if (!selects(R::reduction(p))) {
                            const compute sum = total[p][v][i] + value[p][i];
                            total[p][v][i] = counts ? sum : total[p][v][i];
                        } else {
                            total[p][v][i] = replaces ? value[p][i] : total[p][v][i];
                            entry[p][v][i] = replaces ? index(j + a * S) : entry[p][v][i];
                        }
                    }
            }
        }
    }
#pragma unroll
    for (int distance = F; distance < F * S; distance *= 2)
#pragma unroll
        for (int p = 0; p < P; ++p)
#pragma unroll
            for (int v = 0; v < V; ++v)
#pragma unroll
                for (int i = 0; i < VEC; ++i) {
                    const compute other = across(total[p][v][i], distance);
                    const index other_entry = selects(R::reduction(p)) ? across(entry[p][v][i], distance) : index(0);
                    combine(R::reduction(p), total[p][v][i], entry[p][v][i], other, other_entry);
                }
    if (!work.exists || lane.team.entry != 0) return;
    const bool empty = work.first == work.last, whole = work.chunk < 0;
    const compute inverse = !empty && whole ? compute(1) / compute(work.last - work.first) : compute(1);
    const long long apart = whole ? rows.num_rows : rows.num_chunks, row = whole ? work.row : work.chunk;
#pragma unroll
    for (int p = 0; p < P; ++p)
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if (lane.columns[v] >= width) continue;
            const long long at = (p * apart + row) * width + lane.columns[v];
            const long long chosen = (R::before(p) * apart + row) * width + lane.columns[v];
#pragma unroll
            for (int i = 0; i < VEC; ++i) {
                if (R::reduction(p) == MEAN) total[p][v][i] *= inverse;
                if (empty) total[p][v][i] = compute(0);
                if (R::ARGMAX && selects(R::reduction(p)))
                    (whole ? argmax : partial_argmax)[chosen + i] = empty ? index(-1) : entry[p][v][i];
            }
            if (whole) store<VEC>(out + at, total[p][v]);
            else store<VEC>(partial + at, total[p][v]);
        }
}

// Put together what the chunks of the long rows found: a block for a row and a cut of its columns. The threads of a
// column each take every so manyth chunk, and then join in pairs.
template <class item, class index, class R>
__device__ inline void spmm_merge(const index* indptr, const index* long_rows, const index* long_chunks,
                                  long long num_long, item* out, index* argmax, const compute_t<item>* partial,
                                  const index* partial_argmax, long long width, long long num_rows,
                                  long long num_chunks) {
    using compute = compute_t<item>;
    __shared__ compute totals[BLOCK];
    __shared__ index entries[BLOCK];
    const MergeThread thread(width);
    for (long long number = blockIdx.x; number < num_long; number += gridDim.x) {
        const long long row = long_rows[number], first = long_chunks[number], last = long_chunks[number + 1];
        if (first == last) return;  // there are fewer long rows than there is room for, and no more after this
#pragma unroll
        for (int p = 0; p < R::COUNT; ++p) {
            const bool kept = R::ARGMAX && selects(R::reduction(p));
            const compute* found = partial + p * num_chunks * width + thread.column;
            const index* chosen = partial_argmax + R::before(p) * num_chunks * width + thread.column;
            compute total = identity<compute>(R::reduction(p));
            index entry = 0;
            const long long start = first + thread.slice;
            if (thread.column < width && start < last) {
                total = found[start * width];
                entry = kept ? chosen[start * width] : index(0);
#pragma unroll 8
                for (long long chunk = start + thread.slices; chunk < last; chunk += thread.slices)
                    combine(R::reduction(p), total, entry, found[chunk * width], kept ? chosen[chunk * width] : index(0));
            }
            totals[threadIdx.x] = total;
            entries[threadIdx.x] = entry;
            for (int half = thread.slices / 2; half > 0; half /= 2) {
                __syncthreads();
                if (thread.slice < half && first + thread.slice + half < last) {
                    const int other = threadIdx.x + half * thread.columns;
                    combine(R::reduction(p), totals[threadIdx.x], entries[threadIdx.x], totals[other], entries[other]);
                }
            }
            if (thread.slice == 0 && thread.column < width) {
                total = totals[threadIdx.x];
                if (R::reduction(p) == MEAN) total *= compute(1) / compute(indptr[row + 1] - indptr[row]);
                out[(p * num_rows + row) * width + thread.column] = narrow<item>(total);
                if (kept) argmax[(R::before(p) * num_rows + row) * width + thread.column] = entries[threadIdx.x];
            }
            __syncthreads();
        }
    }
}

template <class M>
__device__ inline void sddmm(const M& message, const Rows<typename M::index>& rows, typename M::item* out,
                             long long width) {
    Lane<M> lane(message, rows, width);
    for (long long j = lane.work.first + lane.team.entry; j < lane.work.last; j += M::ENTRY_LANES * M::AHEAD) {
        lane.template fetch<true>(j);
#pragma unroll
        for (int a = 0; a < M::AHEAD; ++a) {
#pragma unroll
            for (int v = 0; v < M::VECTORS; ++v) {
                compute_t<typename M::item> value[1][M::VEC];
                message.value(lane.near[v], lane.far[a][v], value);
                // The last entry may come again: the same lanes store the same values.
                if (lane.columns[v] < width) store<M::VEC>(out + lane.edges[a] * width + lane.columns[v], value[0]);
            }
        }
    }
}

// Sum the message over each group's inner run. The entry lanes of a team take (entry, group) pairs, neighbouring pairs
// side by side, AHEAD of them at once; the feature lanes share a run.
template <class M>
__device__ inline void sddmm_dot(const M& message, const Rows<typename M::index>& rows, typename M::item* out,
                                 long long inner, long long groups) {
    using index = typename M::index;
    using compute = compute_t<typename M::item>;
    constexpr int VEC = M::VEC, F = M::FEATURE_LANES, S = M::ENTRY_LANES, AHEAD = M::AHEAD;
    const Team<F, S> team;
    const Work<index> work = rows.work(team.number);
    const int num_groups = int(groups), whole_step = S / num_groups, rest_step = S % num_groups;
    long long entry = (long long)work.first + team.entry / num_groups;
    int group = team.entry % num_groups;
    while (any(entry < work.last)) {
        compute total[AHEAD] = {};
        long long edges[AHEAD], sources[AHEAD];
        int group_of[AHEAD];
        bool inside[AHEAD];
        if (work.first < work.last) {
#pragma unroll
            for (int a = 0; a < AHEAD; ++a) {
                inside[a] = entry < work.last;
                const index here = inside[a] ? index(entry) : index(work.last - 1);
                sources[a] = M::READS_SOURCE ? (long long)load_early1(rows.indices + here) : 0;
                edges[a] = (long long)rows.edge_early(here);
                group_of[a] = group;
                entry += whole_step;
                group += rest_step;
                if (group >= num_groups) {
                    group -= num_groups;
                    ++entry;
                }
            }
#pragma unroll 1
            for (long long k = team.feature * VEC; k < inner; k += F * VEC) {
                typename M::Near near[M::GROUPED ? AHEAD : 1];
                typename M::Far far[AHEAD];
#pragma unroll
                for (int a = 0; a < AHEAD; ++a) {
                    const typename M::Place place = message.place_in(group_of[a], k);
                    if (a == 0 || M::GROUPED) near[M::GROUPED ? a : 0] = message.near(work.row, place);
                    far[a] = message.far(sources[a], edges[a], place);
                }
#pragma unroll
                for (int a = 0; a < AHEAD; ++a) {
                    compute value[1][VEC];
                    message.value(near[M::GROUPED ? a : 0], far[a], value);
#pragma unroll
                    for (int i = 0; i < VEC; ++i) total[a] += value[0][i];
                }
            }
        }
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
            total[a] = sum_across<1, F>(total[a]);
            if (work.first < work.last && inside[a] && team.feature == 0)
                out[edges[a] * groups + group_of[a]] = narrow<typename M::item>(total[a]);
        }
    }
}

}  // namespace dg
