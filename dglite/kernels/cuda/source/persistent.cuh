// Persistent processors on a GPU: what the blocks of one launch do while they stay.
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
__device__ inline int warp_of_gpu() { return blockIdx.x * WARPS + warp_of_block(); }
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
