// Persistent processors on a card: what the blocks of one launch do while they stay.
//
// Each block is a processor and interprets a script: (case, words, who, whether rows are apart). Every block reads the
// same script and does what is its own: its share of an instruction for all, or an instruction for it alone. Warps keep
// rows of the model's matrices in registers from the beginning of a launch. Addresses are 64-bit words; strides are in
// bytes. Nothing is read by the read-only path, since all of it is written in the same launch. Khorasani et al.,
// "In-register parameter caching for dynamic neural nets with virtual persistent processor specialization" (2018).

namespace dg {

using word = long long;
constexpr int INSTRUCTION_WORDS = 4;
constexpr int SIGNALS = 0, ERROR = 1, ELAPSED = 4;  // words of the status
constexpr int SHARED_BYTES = 32768;

__device__ inline char* shared_memory() {
#ifdef DG_EMULATED
    return emulated::shared_of_block(SHARED_BYTES);
#else
    __shared__ uint4 memory[SHARED_BYTES / 16];
    return reinterpret_cast<char*>(memory);
#endif
}

__device__ inline int warp_of_block() { return threadIdx.x / WARP; }
__device__ inline int lane_of_warp() { return threadIdx.x % WARP; }
__device__ inline int warp_of_card() { return blockIdx.x * WARPS + warp_of_block(); }
template <class T> __device__ inline T* pointer(word address) { return reinterpret_cast<T*>(address); }

// -- waiting for each other -------------------------------------------------------------------------------------------
// Blocks signal by raising a counter, and wait until all have done so as often.
struct Barrier {
    unsigned long long* counter;
    word number, scratch_used;  // how often all have waited, and when what lies in the scratch memory was last read

    __device__ explicit Barrier(word* status)
        : counter(reinterpret_cast<unsigned long long*>(status + SIGNALS)), number(0), scratch_used(-1) {}

    __device__ void wait() {
        ++number;
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(counter, 1ull);
            const unsigned long long expected = (unsigned long long)number * gridDim.x;
            while (*static_cast<volatile unsigned long long*>(counter) < expected) __nanosleep(20);
            __threadfence();
        }
        __syncthreads();
    }
};

// What a block does of an instruction.
struct Share {
    word task, tasks;
    bool all, apart;  // whether every block takes part; whether no two rows of the results are the same

    __device__ Share(word who, bool rows_apart)
        : task(who < 0 ? blockIdx.x : 0),
          tasks(who < 0 ? gridDim.x : 1),
          all(who < 0 || gridDim.x == 1),
          apart(rows_apart) {}
    __device__ word first() const { return task * BLOCK + threadIdx.x; }
    __device__ word step() const { return tasks * BLOCK; }
    __device__ word warp() const { return task * WARPS + warp_of_block(); }
    __device__ word warps() const { return tasks * WARPS; }
};

// -- element-wise steps -----------------------------------------------------------------------------------------------
// Rows of an operand or a result: at equal distances, or listed. A row at 0 is not there.
template <class T> struct Place {
    word begin, distance, list;
    __device__ explicit Place(const word* words) : begin(words[0]), distance(words[1]), list(words[2]) {}
    __device__ T* row(word number) const {
        return pointer<T>(list ? pointer<const word>(list)[number] : begin + number * distance);
    }
};

// Rows that are apart are shared out by elements. Others by columns: a thread does the same ones in every step, so steps
// that follow each other without a barrier read what the thread itself has written, and no sum is raised by two.
template <class Step> __device__ inline void elements(const word* words, const Share& share) {
    const Step step(words);
    const word rows = words[1], width = words[2], count = rows * width;
    if (!share.apart) {
        for (word column = share.first(); column < width; column += share.step())
            for (word row = 0; row < rows; ++row) step.element(row, column);
    } else if (rows == 1) {
        for (word column = share.first(); column < width; column += share.step()) step.element(0, column);
    } else {
        const bool narrow = count >> 32 == 0;  // 64-bit divisions take five times as long
        for (word i = share.first(); i < count; i += share.step()) {
            const word row = narrow ? word(unsigned(i) / unsigned(width)) : i / width;
            step.element(row, i - row * width);
        }
    }
}

// Sums over the columns, one task: rows may be added to one number.
template <class Step> __device__ inline void column_sums(const word* words, const Share& share) {
    using item = typename Step::item;
    const Step step(words);
    const word rows = words[1], width = words[2];
    item* const found = reinterpret_cast<item*>(shared_memory());
    if (share.task) return;
    for (word first = 0; first < rows; first += WARPS) {
        const word row = first + warp_of_block();
        item sum = 0;
        if (row < rows && step.result(row))
            for (word column = lane_of_warp(); column < width; column += WARP) sum += step.value(row, column);
        sum = sum_across<1, WARP>(sum);
        if (lane_of_warp() == 0) found[warp_of_block()] = sum;
        __syncthreads();
        if (threadIdx.x == 0)
            for (int i = 0; i < WARPS && first + i < rows; ++i) {
                item* const result = step.result(first + i);
                if (result) *result = (Step::ADD ? *result : item(0)) + found[i];
            }
        __syncthreads();
    }
}

// -- rows: softmax and losses -----------------------------------------------------------------------------------------
enum class Form { cross_entropy, nll_loss, softmax, log_softmax };

template <class T> __device__ inline T log_sum_of(const T* x, word width) {
    T high = -limits<T>::infinity(), sum = 0;
    for (word k = lane_of_warp(); k < width; k += WARP) high = maximum(high, x[k]);
    high = max_across<1, WARP>(high);
    for (word k = lane_of_warp(); k < width; k += WARP) sum += exp(x[k] - high);
    return high + log(sum_across<1, WARP>(sum));
}

// A warp for each row. Words: see kernels/render_rowwise.py.
template <Form FORM, bool GRADIENT, int IGNORED, class T>
__device__ inline void rowwise(const word* words, const Share& share) {
    constexpr bool LABELLED = FORM == Form::cross_entropy || FORM == Form::nll_loss;
    const word rows = words[1], width = words[2];
    for (word row = share.warp(); row < rows; row += share.warps()) {
        const T* const x = pointer<const T>(words[3] + row * words[4]);
        T* const y = pointer<T>(words[7] + row * words[8]);
        word label = -1;
        if (LABELLED) {
            label = *pointer<const word>(words[5] + row * words[6]);
            if ((label < 0 || label >= width) && label != IGNORED) *pointer<word>(words[14]) = 2 * label + 1;
        }
        const bool known = label >= 0 && label < width;
        T log_sum = 0;
        if (FORM == Form::cross_entropy || (!GRADIENT && FORM != Form::nll_loss)) log_sum = log_sum_of(x, width);
        if (!GRADIENT && LABELLED) {
            if (lane_of_warp() == 0) *y = known ? log_sum - x[label] : T(0);
        } else if (!GRADIENT) {
            for (word k = lane_of_warp(); k < width; k += WARP)
                y[k] = FORM == Form::softmax ? exp(x[k] - log_sum) : x[k] - log_sum;
        } else {
            const T* const g = pointer<const T>(words[9] + row * words[10]);
            T* const d = pointer<T>(words[11] + row * words[12]);
            T total = 0;
            if (!LABELLED) {
                for (word k = lane_of_warp(); k < width; k += WARP)
                    total += FORM == Form::softmax ? g[k] * y[k] : g[k];
                total = sum_across<1, WARP>(total);
            }
            for (word k = lane_of_warp(); k < width; k += WARP) {
                T change = 0;
                if (FORM == Form::softmax) change = y[k] * (g[k] - total);
                if (FORM == Form::log_softmax) change = g[k] - exp(y[k]) * total;
                if (FORM == Form::cross_entropy) change = exp(x[k] - log_sum) * (known ? *g : *g * T(0));
                if (LABELLED && known && k == label) change -= *g;
                d[k] = words[13] ? d[k] + change : change;
            }
        }
    }
}

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
// Rows of a matrix, `R` at a time, are dealt to the card's warps round-robin. A warp keeps the first `SLOTS` of its
// groups in registers, each lane every 32nd column; unless these are the `WHOLE` matrix, it reads others from memory when
// they are needed.
template <class T, int HEIGHT, int WIDTH, int R, int SLOTS, bool WHOLE> struct Held {
    static constexpr int CHUNKS = (WIDTH + WARP - 1) / WARP, GROUPS = (HEIGHT + R - 1) / R;
    T value[SLOTS][R][CHUNKS];

    __device__ static word group(int slot) { return word(slot) * gridDim.x * WARPS + warp_of_card(); }

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

// -- memory and losses ------------------------------------------------------------------------------------------------
// Words: 1 address, 2 bytes, a multiple of 8.
__device__ inline void clear(const word* words, const Share& share) {
    for (word i = share.first(); i < words[2] / 8; i += share.step()) pointer<word>(words[1])[i] = 0;
}

// Sum up losses and start their gradients, one task. Words: 1 address of the sum, a double, to which it is added, 2
// number of losses, 3 bytes of one, 4 and 5 lists of addresses: of losses, and of gradients, to which 1 is added; by one
// thread if 6 says that some are repeated.
template <class T> __device__ inline void losses_of(const word* words, double& sum) {
    const bool repeated = words[6] != 0;
    for (word i = threadIdx.x; i < words[2]; i += BLOCK) {
        sum += double(*pointer<const T>(pointer<const word>(words[4])[i]));
        if (!repeated) *pointer<T>(pointer<const word>(words[5])[i]) += T(1);
    }
    if (repeated && threadIdx.x == 0)
        for (word i = 0; i < words[2]; ++i) *pointer<T>(pointer<const word>(words[5])[i]) += T(1);
}

__device__ inline void losses(const word* words, const Share& share) {
    double* const found = reinterpret_cast<double*>(shared_memory());
    if (share.task) return;
    double sum = 0;
    if (words[3] == 4)
        losses_of<float>(words, sum);
    else
        losses_of<double>(words, sum);
    sum = sum_across<1, WARP>(sum);
    if (lane_of_warp() == 0) found[warp_of_block()] = sum;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int i = 0; i < WARPS; ++i) *pointer<double>(words[1]) += found[i];
}

}  // namespace dg
