// Enough of a CUDA GPU to run the kernels' own text on a CPU, for tests without a GPU: one block after the other, or
// all blocks of a launch at once, where they wait for each other.
//
// Each thread of a block is a fiber. A fiber runs until it waits: at a block's barrier, or at an exchange inside its
// warp, which is done when all 32 lanes have come to it. What real hardware leaves undefined is an error here: an
// exchange that a lane never reaches, or lanes of one warp in different exchanges.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csetjmp>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ucontext.h>

#define DG_EMULATED 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define threadIdx (emulated::running->thread)
#define blockIdx (emulated::running->block->index)
#define gridDim (emulated::grid_size)
#define blockDim (emulated::block_size)

struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };

namespace emulated {

struct Index { unsigned x = 0, y = 0, z = 0; };

constexpr int LANES = 32;
constexpr std::size_t STACK_BYTES = 1 << 17;
enum Kind { NONE, SHUFFLE, BALLOT, MATCH, WARP_BARRIER };

struct Barrier {
    unsigned generation = 0;
    int arrived = 0;
};

struct Warp {
    Barrier barrier;
    Kind kind = NONE;
    std::uint64_t slots[2][LANES];  // values of this exchange and of the one before, which a late lane may still read
};

struct Block {
    Index index;
    Barrier barrier;
    int alive = 0;
    std::vector<Warp> warps;
    std::vector<char> shared;  // what it asks for by `shared_of_block`; declared memory is one for all blocks
};

struct Fiber {
    Index thread;
    int lane = 0;
    Warp* warp = nullptr;
    Block* block = nullptr;
    bool started = false, done = false, looked = false;
    bool reusable = false;  // its stack is where a thread has ended and the next one begins
    const Barrier* waits = nullptr;
    unsigned seen = 0;
    ucontext_t context;
    jmp_buf resume;
    std::unique_ptr<char[]> stack;
};

using Invoke = void (*)(const void* kernel, const long long* words);

inline Fiber* running = nullptr;
inline Index grid_size, block_size;
inline std::vector<std::unique_ptr<Fiber>> fibers;
inline std::vector<std::unique_ptr<Block>> blocks;
inline jmp_buf scheduler;
inline Invoke invoked;
inline const void* invoked_kernel;
inline const long long* invoked_words;
inline std::string failure;

[[noreturn]] inline void leave() { longjmp(scheduler, 1); }

inline void fail(const std::string& why) {
    if (failure.empty()) failure = why;
}

inline void wait_for(const Barrier& barrier, unsigned generation) {
    Fiber* self = running;
    self->waits = &barrier;
    self->seen = generation;
    // Jumps between stacks cost a tenth of swapcontext, which asks the kernel for the signal mask every time.
    if (setjmp(self->resume) == 0) leave();
    self->waits = nullptr;
}

// Let others go on, since this thread has looked at memory and not found what it waits for.
inline void look_again_later() {
    running->looked = true;
    if (setjmp(running->resume) == 0) leave();
}

inline char* shared_of_block(std::size_t bytes) {
    std::vector<char>& shared = running->block->shared;
    if (shared.size() < bytes + 16) shared.resize(bytes + 16);
    return reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(shared.data()) + 15) / 16 * 16);
}

inline void arrive(Barrier& barrier, int expected) {
    const unsigned generation = barrier.generation;
    if (++barrier.arrived == expected) {
        barrier.arrived = 0;
        ++barrier.generation;
    } else {
        wait_for(barrier, generation);
    }
}

// Run thread after thread: another context would ask the kernel for the signal mask twice.
inline void entry() {
    for (;;) {
        invoked(invoked_kernel, invoked_words);
        running->done = running->reusable = true;
        Block& block = *running->block;
        --block.alive;
        // A block's barrier counts the threads that are left, as the hardware does.
        if (block.alive > 0 && block.barrier.arrived == block.alive) {
            block.barrier.arrived = 0;
            ++block.barrier.generation;
        }
        if (setjmp(running->resume) == 0) leave();
    }
}

// Exchange a 64-bit value: returns all lanes' values.
inline const std::uint64_t* exchange(Kind kind, unsigned mask, std::uint64_t value) {
    Warp& warp = *running->warp;
    if (mask != 0xffffffffu) fail("an exchange does not name all lanes");
    if (warp.barrier.arrived > 0 && warp.kind != kind) fail("lanes of one warp are in different exchanges");
    warp.kind = kind;
    const unsigned parity = warp.barrier.generation & 1;
    warp.slots[parity][running->lane] = value;
    arrive(warp.barrier, LANES);
    return warp.slots[parity];
}

template <class T> std::uint64_t to_bits(T value) {
    static_assert(sizeof(T) <= 8, "at most 64 bits are exchanged");
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    return bits;
}

template <class T> T of_bits(std::uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof(T));
    return value;
}

inline float from_half(unsigned short bits) { return float(of_bits<_Float16>(bits)); }
inline unsigned short to_half(float value) { return (unsigned short)to_bits(_Float16(value)); }

inline void resume(Fiber* fiber) {
    running = fiber;
    if (setjmp(scheduler) != 0) return;
    if (fiber->started) longjmp(fiber->resume, 1);
    fiber->started = true;
    setcontext(&fiber->context);
}

inline void prepare(Fiber& fiber, Block& block, int number) {
    if (!fiber.stack) fiber.stack.reset(new char[STACK_BYTES]);
    fiber.thread.x = unsigned(number);
    fiber.lane = number % LANES;
    fiber.block = &block;
    fiber.warp = &block.warps[number / LANES];
    fiber.started = fiber.reusable;
    fiber.done = fiber.reusable = false;
    fiber.waits = nullptr;
    if (fiber.started) return;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = STACK_BYTES;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, entry, 0);
}

// Let the threads of a block take turns until none can go on; return how many have ended, or -1 if none could go on.
inline int run_threads(unsigned block, int threads, bool backwards) {
    int ended = 0;
    bool any = false;
    for (bool moved = true; moved && failure.empty();) {
        moved = false;
        for (int i = 0; i < threads; ++i) {
            Fiber* fiber = fibers[block * threads + (backwards ? threads - 1 - i : i)].get();
            if (fiber->done || (fiber->waits && fiber->waits->generation == fiber->seen)) continue;
            fiber->looked = false;
            resume(fiber);
            // Who has looked in vain has changed nothing.
            moved |= !fiber->looked;
            ended += fiber->done;
        }
        any |= moved;
    }
    return any ? ended : -1;
}

// Run blocks, from number `first` on, to their end, all at once. Each goes as far as it can before the next one does, and
// its threads take turns, from the first on or all of this `backwards`: what comes out must be the same, unless a barrier
// is missing.
inline void run_blocks(unsigned first, unsigned count, int threads, bool backwards) {
    while (blocks.size() < count) blocks.push_back(std::make_unique<Block>());
    while (fibers.size() < std::size_t(count) * threads) fibers.push_back(std::make_unique<Fiber>());
    for (unsigned b = 0; b < count; ++b) {
        Block& block = *blocks[b];
        block.index = Index{(first + b) % grid_size.x, (first + b) / grid_size.x, 0};
        block.barrier = Barrier();
        block.alive = threads;
        block.warps.assign((threads + LANES - 1) / LANES, Warp());
        std::fill(block.shared.begin(), block.shared.end(), char(0xff));
        for (int i = 0; i < threads; ++i) prepare(*fibers[b * threads + i], block, i);
    }
    for (int left = int(count) * threads; left > 0 && failure.empty();) {
        bool moved = false;
        for (unsigned b = 0; b < count && failure.empty(); ++b) {
            const int ended = run_threads(backwards ? count - 1 - b : b, threads, backwards);
            moved |= ended >= 0;
            left -= ended > 0 ? ended : 0;
        }
        if (!moved) fail("threads wait for others that never come");
    }
}

// Run a kernel; `grid` holds the blocks along x and y, the threads of a block, whether all blocks run at once, and
// whether threads take turns backwards. Returns what went wrong, or null.
inline const char* run(const void* kernel, Invoke invoke, const long long* grid, const long long* words) {
    failure.clear();
    grid_size = Index{unsigned(grid[0]), unsigned(grid[1]), 1};
    block_size = Index{unsigned(grid[2]), 1, 1};
    invoked = invoke;
    invoked_kernel = kernel;
    invoked_words = words;
    const unsigned all = grid_size.x * grid_size.y, at_once = grid[3] ? all : 1;
    for (unsigned first = 0; first < all && failure.empty(); first += at_once)
        run_blocks(first, at_once, int(grid[2]), grid[4] != 0);
    return failure.empty() ? nullptr : failure.c_str();
}

template <class A> A parameter(long long word) { return of_bits<A>(std::uint64_t(word)); }

template <class... A, std::size_t... I>
void call(void (*kernel)(A...), const long long* words, std::index_sequence<I...>) {
    kernel(parameter<A>(words[I])...);
}

template <class... A> const char* start(void (*kernel)(A...), const long long* grid, const long long* words, int count) {
    if (count != int(sizeof...(A))) return "wrong number of arguments";
    using Kernel = void (*)(A...);
    const Invoke invoke = [](const void* address, const long long* given) {
        call(Kernel(address), given, std::index_sequence_for<A...>());
    };
    return run(reinterpret_cast<const void*>(kernel), invoke, grid, words);
}

}  // namespace emulated

#define DG_EMULATE(PREFIX, KERNEL)                                                                      \
    extern "C" const char* emulate_##KERNEL(const long long* grid, const long long* words, int count) { \
        return emulated::start(dg::PREFIX::KERNEL, grid, words, count);                                 \
    }

// -- what CUDA gives every thread -------------------------------------------------------------------------------------
inline void __syncthreads() {
    emulated::Block& block = *emulated::running->block;
    emulated::arrive(block.barrier, block.alive);
}
inline void __threadfence() {}
inline void __nanosleep(unsigned) { emulated::look_again_later(); }
inline long long clock64() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { emulated::exchange(emulated::WARP_BARRIER, mask, 0); }

template <class T> T __shfl_sync(unsigned mask, T value, int lane) {
    return emulated::of_bits<T>(
        emulated::exchange(emulated::SHUFFLE, mask, emulated::to_bits(value))[lane % emulated::LANES]);
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int distance) {
    const int lane = emulated::running->lane ^ distance;
    return emulated::of_bits<T>(emulated::exchange(emulated::SHUFFLE, mask, emulated::to_bits(value))[lane]);
}
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned distance) {
    const int lane = emulated::running->lane - int(distance);
    const T found =
        emulated::of_bits<T>(emulated::exchange(emulated::SHUFFLE, mask, emulated::to_bits(value))[lane < 0 ? 0 : lane]);
    return lane < 0 ? value : found;
}
inline unsigned __ballot_sync(unsigned mask, bool condition) {
    const std::uint64_t* slots = emulated::exchange(emulated::BALLOT, mask, condition);
    unsigned bits = 0;
    for (int lane = 0; lane < emulated::LANES; ++lane) bits |= unsigned(slots[lane]) << lane;
    return bits;
}
inline int __any_sync(unsigned mask, bool condition) { return __ballot_sync(mask, condition) != 0; }
inline unsigned __match_any_sync(unsigned mask, unsigned value) {
    const std::uint64_t* slots = emulated::exchange(emulated::MATCH, mask, value);
    unsigned bits = 0;
    for (int lane = 0; lane < emulated::LANES; ++lane) bits |= unsigned(slots[lane] == value) << lane;
    return bits;
}

template <class T> T __ldg(const T* at) {
    if (reinterpret_cast<std::uintptr_t>(at) % sizeof(T)) emulated::fail("a load is not aligned to its size");
    T value;
    std::memcpy(&value, at, sizeof(T));
    return value;
}
template <class T> void __stwb(T* at, T value) {
    if (reinterpret_cast<std::uintptr_t>(at) % sizeof(T)) emulated::fail("a store is not aligned to its size");
    std::memcpy(at, &value, sizeof(T));
}
inline float __uint_as_float(unsigned bits) { return emulated::of_bits<float>(bits); }
inline unsigned __float_as_uint(float value) { return unsigned(emulated::to_bits(value)); }
inline double __longlong_as_double(long long bits) { return emulated::of_bits<double>(std::uint64_t(bits)); }
inline long long __double_as_longlong(double value) { return (long long)(emulated::to_bits(value)); }
inline double __dmul_rn(double a, double b) { return a * b; }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((std::uint64_t(a) * b) >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }

// Fibers change places at exchanges only, so plain code is atomic.
template <class T> T atomicAdd(T* at, T value) { return std::exchange(*at, T(*at + value)); }
template <class T> T atomicMin(T* at, T value) { return std::exchange(*at, std::min(*at, value)); }
template <class T> T atomicMax(T* at, T value) { return std::exchange(*at, std::max(*at, value)); }
template <class T> T atomicCAS(T* at, T compare, T value) {
    const T old = *at;
    if (old == compare) *at = value;
    return old;
}
