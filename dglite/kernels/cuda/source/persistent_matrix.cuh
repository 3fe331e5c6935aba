// What persistent processors do to matrices: products with those in memory and those in registers, and gradients.

namespace dg {

// -- matrices in memory -----------------------------------------------------------------------------------------------
// Words of a product: see kernels/render_matrix.py.
template <class T> struct Product {
    word rows, height, width;
    word x, x_stride, m, m_stride, y, y_stride, start, start_stride;
    __device__ explicit Product(const word* w)
        : rows(w[1]), height(w[2]), width(w[3]), x(w[4]), x_stride(w[5]), m(w[6]), m_stride(w[7]), y(w[8]),
          y_stride(w[9]), start(w[10]), start_stride(w[11]) {}
    __device__ const T* input(word row) const { return pointer<const T>(x + row * x_stride); }
    __device__ const T* matrix(word row) const { return pointer<const T>(m + row * m_stride); }
    __device__ void write(word row, word column, T sum) const {
        if (start) sum += pointer<const T>(start + row * start_stride)[column];
        pointer<T>(y + row * y_stride)[column] = sum;
    }
};

// y = start + x M', a warp for each row of M and every fourth of x: a row of the matrix meets four of x on its way.
template <class T> __device__ inline void dots(const word* words, const Share& share) {
    constexpr int ROWS = 4;
    const Product<T> p(words);
    const word groups = (p.rows + ROWS - 1) / ROWS;
    for (word work = share.warp(); work < p.height * groups; work += share.warps()) {
        const word i = work / groups, first = work % groups * ROWS;
        const T* const m = p.matrix(i);
        T sums[ROWS] = {};
        for (word k = lane_of_warp(); k < p.width; k += WARP) {
            const T value = m[k];
#pragma unroll
            for (int r = 0; r < ROWS; ++r)
                if (first + r < p.rows) sums[r] += value * p.input(first + r)[k];
        }
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            const T sum = sum_across<1, WARP>(sums[r]);
            if (lane_of_warp() == 0 && first + r < p.rows) p.write(first + r, i, sum);
        }
    }
}

// y = start + x M, a block for 32 columns and four rows of x: warps share the rows of M, and what they find is added up
// in their order.
template <class T> __device__ inline void sums(const word* words, const Share& share) {
    constexpr int ROWS = 4;
    const Product<T> p(words);
    T(*const found)[ROWS][WARP] = reinterpret_cast<T(*)[ROWS][WARP]>(shared_memory());
    const word groups = (p.rows + ROWS - 1) / ROWS, wide = (p.width + WARP - 1) / WARP;
    for (word work = share.task; work < wide * groups; work += share.tasks) {
        const word column = work / groups * WARP + lane_of_warp(), first = work % groups * ROWS;
        T part[ROWS] = {};
        if (column < p.width)
#pragma unroll 4
            for (word i = warp_of_block(); i < p.height; i += WARPS) {
                const T value = p.matrix(i)[column];
#pragma unroll
                for (int r = 0; r < ROWS; ++r)
                    if (first + r < p.rows) part[r] += p.input(first + r)[i] * value;
            }
#pragma unroll
        for (int r = 0; r < ROWS; ++r) found[warp_of_block()][r][lane_of_warp()] = part[r];
        __syncthreads();
        const int r = warp_of_block();
        if (r < ROWS && first + r < p.rows && column < p.width) {
            T sum = 0;
            for (int i = 0; i < WARPS; ++i) sum += found[i][r][lane_of_warp()];
            p.write(first + r, column, sum);
        }
        __syncthreads();
    }
}

// -- matrices in registers --------------------------------------------------------------------------------------------
// Rows of a matrix, `R` at a time, are dealt to the GPU's warps round-robin. A warp keeps the first `SLOTS` of its
// groups in registers, each lane every 32nd column; unless these are the `WHOLE` matrix, it reads others from memory when
// they are needed.
template <class T, int HEIGHT, int WIDTH, int R, int SLOTS, bool WHOLE> struct Held {
    static constexpr int CHUNKS = (WIDTH + WARP - 1) / WARP, GROUPS = (HEIGHT + R - 1) / R;
    T value[SLOTS][R][CHUNKS];

    __device__ static word group(int slot) { return word(slot) * gridDim.x * WARPS + warp_of_gpu(); }

    __device__ static void read(T (&rows)[R][CHUNKS], word first, word m, word stride) {
#pragma unroll
        for (int q = 0; q < R; ++q)
#pragma unroll
            for (int c = 0; c < CHUNKS; ++c) {
                const int column = c * WARP + lane_of_warp();
                rows[q][c] = first + q < HEIGHT && column < WIDTH
                                 ? pointer<const T>(m + (first + q) * stride)[column]
                                 : T(0);
            }
    }

    __device__ Held(const word* matrix) {
#pragma unroll
        for (int slot = 0; slot < SLOTS; ++slot) read(value[slot], group(slot) * R, matrix[0], matrix[1]);
    }

    __device__ static void dots_of(const T (&rows)[R][CHUNKS], word first, const Product<T>& p) {
        for (word row = 0; row < p.rows; ++row) {
            const T* const x = p.input(row);
            T sums[R] = {};
#pragma unroll
            for (int c = 0; c < CHUNKS; ++c) {
                const int column = c * WARP + lane_of_warp();
                const T value = column < WIDTH ? x[column] : T(0);
#pragma unroll
                for (int q = 0; q < R; ++q) sums[q] += rows[q][c] * value;
            }
#pragma unroll
            for (int q = 0; q < R; ++q) {
                const T sum = sum_across<1, WARP>(sums[q]);
                if (lane_of_warp() == q && first + q < HEIGHT) p.write(row, first + q, sum);
            }
        }
    }

    // y = start + x M'
    __device__ void dots(const word* words, const Share& share) const {
        if (!share.all) return dg::dots<T>(words, share);
        const Product<T> p(words);
#pragma unroll
        for (int slot = 0; slot < SLOTS; ++slot)
            if (group(slot) < GROUPS) dots_of(value[slot], group(slot) * R, p);
        T others[R][CHUNKS];
        for (int slot = SLOTS; !WHOLE && group(slot) < GROUPS; ++slot) {
            read(others, group(slot) * R, p.m, p.m_stride);
            dots_of(others, group(slot) * R, p);
        }
    }

    __device__ static void add(
        T (&part)[CHUNKS], const T (&rows)[R][CHUNKS], word first, const T* x) {
#pragma unroll
        for (int q = 0; q < R; ++q) {
            const T factor = first + q < HEIGHT ? x[first + q] : T(0);
#pragma unroll
            for (int c = 0; c < CHUNKS; ++c) part[c] += factor * rows[q][c];
        }
    }

    // y = start + x M. Each block adds up what its rows give; blocks wait for each other, and add up what all have found,
    // in their order. Where that does not fit the scratch memory, the matrix is read from memory.
    __device__ void sums(const word* words, const Share& share, Barrier& barrier, word scratch, word bytes) const {
        const Product<T> p(words);
        const int blocks = (GROUPS + WARPS - 1) / WARPS < int(gridDim.x) ? (GROUPS + WARPS - 1) / WARPS : gridDim.x;
        if (!share.all || p.rows * blocks * WIDTH * word(sizeof(T)) > bytes) return dg::sums<T>(words, share);
        if (barrier.scratch_used == barrier.number) barrier.wait();
        T* const found = pointer<T>(scratch);
        if (int(blockIdx.x) < blocks)
            for (word row = 0; row < p.rows; ++row) add_block(p, row, found + (row * blocks + blockIdx.x) * WIDTH);
        barrier.wait();
        for (word i = share.first(); i < p.rows * WIDTH; i += share.step()) {
            const word row = i / WIDTH, column = i % WIDTH;
            T sum = 0;
            for (int block = 0; block < blocks; ++block) sum += found[(row * blocks + block) * WIDTH + column];
            p.write(row, column, sum);
        }
        barrier.scratch_used = barrier.number;
    }

    __device__ void add_block(const Product<T>& p, word row, T* result) const {
        T(*const found)[CHUNKS * WARP] = reinterpret_cast<T(*)[CHUNKS * WARP]>(shared_memory());
        T part[CHUNKS] = {};
        const T* const x = p.input(row);
#pragma unroll
        for (int slot = 0; slot < SLOTS; ++slot) add(part, value[slot], group(slot) * R, x);
        T others[R][CHUNKS];
        for (int slot = SLOTS; !WHOLE && group(slot) < GROUPS; ++slot) {
            read(others, group(slot) * R, p.m, p.m_stride);
            add(part, others, group(slot) * R, x);
        }
#pragma unroll
        for (int c = 0; c < CHUNKS; ++c) found[warp_of_block()][c * WARP + lane_of_warp()] = part[c];
        __syncthreads();
        for (int column = threadIdx.x; column < WIDTH; column += BLOCK) {
            T sum = 0;
            for (int warp = 0; warp < WARPS; ++warp) sum += found[warp][column];
            result[column] = sum;
        }
        __syncthreads();
    }
};

// -- gradients of matrices, and what becomes of them ------------------------------------------------------------------
// G = sum over rows of x[r, i] y[r, j] in tiles of R rows and `CHUNKS` times 32 columns, each lane's part in registers;
// `Rule` changes the parameter by it. Where there are fewer tiles than warps, a block's warps share the rows of a tile.
// With ONES, x is 1: the sums of y over the rows.
template <class Rule, int R, int CHUNKS, bool ONES> struct Outer {
    using item = typename Rule::item;
    static constexpr int WIDE = CHUNKS * WARP;
    const Rule rule;
    const word count, height, width, x, x_stride, y, y_stride;

    __device__ explicit Outer(const word* w)
        : rule(w), count(w[1]), height(w[2]), width(w[3]), x(w[4]), x_stride(w[5]), y(w[8]), y_stride(w[9]) {}

    __device__ void add_up(item (&sum)[R][CHUNKS], word row, word column, word first, word step) const {
        const int lane = lane_of_warp();
#pragma unroll 2
        for (word r = first; r < count; r += step) {
            const item* const from = pointer<const item>(x + r * x_stride) + row;
            const item* const to = pointer<const item>(y + r * y_stride) + column;
            item values[CHUNKS];
#pragma unroll
            for (int c = 0; c < CHUNKS; ++c)
                values[c] = column + c * WARP + lane < width ? to[c * WARP + lane] : item(0);
#pragma unroll
            for (int q = 0; q < R; ++q) {
                const item factor = ONES ? item(1) : row + q < height ? from[q] : item(0);
#pragma unroll
                for (int c = 0; c < CHUNKS; ++c) sum[q][c] += factor * values[c];
            }
        }
    }

    __device__ void apply(word row, word column, item gradient) const {
        if (row < height && column < width) rule.apply(row, column, gradient);
    }

    __device__ void tile_of_warp(word row, word column) const {
        item sum[R][CHUNKS] = {};
        add_up(sum, row, column, 0, 1);
#pragma unroll
        for (int q = 0; q < R; ++q)
#pragma unroll
            for (int c = 0; c < CHUNKS; ++c) apply(row + q, column + c * WARP + lane_of_warp(), sum[q][c]);
    }

    __device__ void tile_of_block(word row, word column) const {
        static_assert(WARPS * R * WIDE * sizeof(item) <= SHARED_BYTES, "a tile is too large");
        item(*const found)[R][WIDE] = reinterpret_cast<item(*)[R][WIDE]>(shared_memory());
        item sum[R][CHUNKS] = {};
        add_up(sum, row, column, warp_of_block(), WARPS);
#pragma unroll
        for (int q = 0; q < R; ++q)
#pragma unroll
            for (int c = 0; c < CHUNKS; ++c) found[warp_of_block()][q][c * WARP + lane_of_warp()] = sum[q][c];
        __syncthreads();
        for (int i = threadIdx.x; i < R * WIDE; i += BLOCK) {
            item total = 0;
            for (int warp = 0; warp < WARPS; ++warp) total += found[warp][i / WIDE][i % WIDE];
            apply(row + i / WIDE, column + i % WIDE, total);
        }
        __syncthreads();
    }

    __device__ void run(const Share& share) const {
        const word wide = (width + WIDE - 1) / WIDE, tiles = (height + R - 1) / R * wide;
        if (tiles >= share.warps()) {
            for (word tile = share.warp(); tile < tiles; tile += share.warps())
                tile_of_warp(tile / wide * R, tile % wide * WIDE);
        } else {
            for (word tile = share.task; tile < tiles; tile += share.tasks)
                tile_of_block(tile / wide * R, tile % wide * WIDE);
        }
    }
};

}  // namespace dg
