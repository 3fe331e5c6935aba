// g-SpMM and g-SDDMM over a rendered message (render.py).
//
// A message M knows its types (item, index), the shape of a team (VEC values per vector, FEATURE_LANES, ENTRY_LANES,
// VECTORS of a lane, AHEAD entries under way at once) and
//     Place place(column)                       where a vector's values are in the row of each operand
//     Place place_in(group, k)                  the same, without a division
//     Near near(row, place)                     values that all entries of a row share
//     Far far(source, edge, place)              values of one entry
//     void value(near, far, result)             the expression

namespace dg {

enum Reduction { SUM, MEAN, MAX, MIN };

template <int HOW> constexpr bool selects = HOW == MAX || HOW == MIN;

template <int HOW, class C> __device__ inline C identity() {
    return HOW == MAX ? -limits<C>::infinity() : (HOW == MIN ? limits<C>::infinity() : C(0));
}

// Whether a value replaces the best so far. A NaN replaces what is none: it comes through, as in torch.
template <int HOW, class C> __device__ inline bool better(C value, C best) {
    return (HOW == MAX ? value > best : value < best) || (value != value && best == best);
}

// Take over another lane's or chunk's result; among equals the earlier entry wins.
template <int HOW, class C, class index>
__device__ inline void combine(C& total, index& winner, C other, index other_winner) {
    if (!selects<HOW>) {
        total += other;
    } else if (better<HOW>(other, total) || (!better<HOW>(total, other) && other_winner < winner)) {
        total = other;
        winner = other_winner;
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
    template <bool EDGES> __device__ void fetch(long long j) {
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
            const index entry = has(j, a) ? index(j + a * S) : index(work.last - 1);
            const long long source = M::READS_SOURCE ? (long long)__ldg(rows.indices + entry) : 0;
            edges[a] = EDGES || M::READS_EDGE ? (long long)rows.edge(entry) : 0;
#pragma unroll
            for (int v = 0; v < V; ++v) far[a][v] = message.far(source, edges[a], places[v]);
        }
    }
};

template <class M, int HOW, bool WINNERS>
__device__ inline void spmm(const M& message, const Rows<typename M::index>& rows, typename M::item* out,
                            typename M::index* winners, compute_t<typename M::item>* partial,
                            typename M::index* partial_winners, long long width) {
    using index = typename M::index;
    using compute = compute_t<typename M::item>;
    constexpr int VEC = M::VEC, F = M::FEATURE_LANES, S = M::ENTRY_LANES, V = M::VECTORS;
    Lane<M> lane(message, rows, width);
    const Work<index>& work = lane.work;
    compute total[V][VEC];
    index winner[V][VEC];
#pragma unroll
    for (int v = 0; v < V; ++v)
#pragma unroll
        for (int i = 0; i < VEC; ++i) {
            total[v][i] = identity<HOW, compute>();
            winner[v][i] = work.first;
        }
    for (long long j = work.first + lane.team.entry; j < work.last; j += S * M::AHEAD) {
        lane.template fetch<false>(j);
#pragma unroll
        for (int a = 0; a < M::AHEAD; ++a) {
            if (!lane.has(j, a)) break;
#pragma unroll
            for (int v = 0; v < V; ++v) {
                compute value[VEC];
                message.value(lane.near[v], lane.far[a][v], value);
#pragma unroll
                for (int i = 0; i < VEC; ++i) {
                    if (!selects<HOW>) {
                        total[v][i] += value[i];
                    } else if (better<HOW>(value[i], total[v][i])) {
                        total[v][i] = value[i];
                        winner[v][i] = index(j + a * S);
                    }
                }
            }
        }
    }
#pragma unroll
    for (int distance = F; distance < F * S; distance *= 2)
#pragma unroll
        for (int v = 0; v < V; ++v)
#pragma unroll
            for (int i = 0; i < VEC; ++i) {
                const compute other = across(total[v][i], distance);
                const index other_winner = selects<HOW> ? across(winner[v][i], distance) : index(0);
                combine<HOW>(total[v][i], winner[v][i], other, other_winner);
            }
    if (!work.exists || lane.team.entry != 0) return;
    const bool empty = work.first == work.last;
    const compute scale = HOW == MEAN && !empty && work.chunk < 0 ? compute(1) / compute(work.last - work.first) : 1;
#pragma unroll
    for (int v = 0; v < V; ++v) {
        if (lane.columns[v] >= width) continue;
        const long long at = (work.chunk < 0 ? work.row : work.chunk) * width + lane.columns[v];
#pragma unroll
        for (int i = 0; i < VEC; ++i) {
            total[v][i] = empty ? compute(0) : total[v][i] * scale;
            if (WINNERS) (work.chunk < 0 ? winners : partial_winners)[at + i] = empty ? index(-1) : winner[v][i];
        }
        if (work.chunk < 0) store<VEC>(out + at, total[v]);
        else store<VEC>(partial + at, total[v]);
    }
}

// Put together what the chunks of the long rows found. One thread for each element.
template <class item, class index, int HOW, bool WINNERS>
__device__ inline void spmm_merge(const index* indptr, const index* long_rows, const index* long_chunks,
                                  long long num_long, item* out, index* winners, const compute_t<item>* partial,
                                  const index* partial_winners, long long width) {
    using compute = compute_t<item>;
    const long long element = (long long)blockIdx.x * BLOCK + threadIdx.x;
    const long long number = element / width, column = element % width;
    if (number >= num_long) return;
    const long long row = long_rows[number], first = long_chunks[number], last = long_chunks[number + 1];
    compute total = partial[first * width + column];
    index winner = WINNERS ? partial_winners[first * width + column] : index(0);
    for (long long chunk = first + 1; chunk < last; ++chunk) {
        const long long at = chunk * width + column;
        combine<HOW>(total, winner, partial[at], WINNERS ? partial_winners[at] : index(0));
    }
    if (HOW == MEAN) total *= compute(1) / compute(indptr[row + 1] - indptr[row]);
    out[row * width + column] = narrow<item>(total);
    if (WINNERS) winners[row * width + column] = winner;
}

template <class M>
__device__ inline void sddmm(const M& message, const Rows<typename M::index>& rows, typename M::item* out,
                             long long width) {
    Lane<M> lane(message, rows, width);
    for (long long j = lane.work.first + lane.team.entry; j < lane.work.last; j += M::ENTRY_LANES * M::AHEAD) {
        lane.template fetch<true>(j);
#pragma unroll
        for (int a = 0; a < M::AHEAD; ++a) {
            if (!lane.has(j, a)) break;
#pragma unroll
            for (int v = 0; v < M::VECTORS; ++v) {
                if (lane.columns[v] >= width) continue;
                compute_t<typename M::item> value[M::VEC];
                message.value(lane.near[v], lane.far[a][v], value);
                store<M::VEC>(out + lane.edges[a] * width + lane.columns[v], value);
            }
        }
    }
}

// Sum the message over each group's inner run. The entry lanes of a team take (entry, group) pairs, neighbouring pairs
// side by side; the feature lanes share a run.
template <class M>
__device__ inline void sddmm_dot(const M& message, const Rows<typename M::index>& rows, typename M::item* out,
                                 long long inner, long long groups) {
    using index = typename M::index;
    using compute = compute_t<typename M::item>;
    constexpr int VEC = M::VEC, F = M::FEATURE_LANES, S = M::ENTRY_LANES;
    const Team<F, S> team;
    const Work<index> work = rows.work(team.number);
    const int num_groups = int(groups), whole_step = S / num_groups, rest_step = S % num_groups;
    long long entry = (long long)work.first + team.entry / num_groups;
    int group = team.entry % num_groups;
    while (any(entry < work.last)) {
        compute total = 0;
        const bool inside = entry < work.last;
        const long long edge = inside ? (long long)rows.edge(index(entry)) : 0;
        if (inside) {
            const long long source = M::READS_SOURCE ? (long long)__ldg(rows.indices + entry) : 0;
#pragma unroll 4
            for (long long k = team.feature * VEC; k < inner; k += F * VEC) {
                const typename M::Place place = message.place_in(group, k);
                compute value[VEC];
                message.value(message.near(work.row, place), message.far(source, edge, place), value);
#pragma unroll
                for (int i = 0; i < VEC; ++i) total += value[i];
            }
        }
        total = sum_across<1, F>(total);
        if (inside && team.feature == 0) out[edge * groups + group] = narrow<typename M::item>(total);
        entry += whole_step;
        group += rest_step;
        if (group >= num_groups) {
            group -= num_groups;
            ++entry;
        }
    }
}

}  // namespace dg
