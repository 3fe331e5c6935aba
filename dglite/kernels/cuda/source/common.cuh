// What every kernel is written with: value types, loads of several values at once, exchanges inside a warp, and the
// functions that the operator table calls. No header is included, so NVRTC needs nothing but the text.
//
// Kernels stay together: no thread of a warp returns before the others, and loops whose body exchanges values run as
// often as the longest of the warp's threads needs. So every exchange may name all 32 lanes.

namespace dg {

constexpr unsigned ALL_LANES = 0xffffffffu;
constexpr int WARP = 32;
constexpr int BLOCK = 256, WARPS = BLOCK / WARP;

// -- values -----------------------------------------------------------------------------------------------------------
struct alignas(2) f16 { unsigned short bits; };
struct alignas(2) bf16 { unsigned short bits; };

template <class T> struct compute_of { using type = T; };
template <> struct compute_of<f16> { using type = float; };
template <> struct compute_of<bf16> { using type = float; };
template <class T> using compute_t = typename compute_of<T>::type;

__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }
__device__ inline float widen(bf16 x) { return __uint_as_float(unsigned(x.bits) << 16); }
__device__ inline float widen(f16 x) {
#ifdef DG_EMULATED
    return emulated::from_half(x.bits);
#else
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
    return result;
#endif
}

template <class T> struct narrowing { __device__ static T from(T x) { return x; } };
template <> struct narrowing<f16> {
    __device__ static f16 from(float x) {
#ifdef DG_EMULATED
        return f16{emulated::to_half(x)};
#else
        f16 result;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
        return result;
#endif
    }
};
template <> struct narrowing<bf16> {
    // To the nearest, ties to even; a NaN stays one.
    __device__ static bf16 from(float x) {
        unsigned bits = __float_as_uint(x);
        if (x != x) return bf16{(unsigned short)0x7fff};
        return bf16{(unsigned short)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
    }
};
template <class T> __device__ inline T narrow(compute_t<T> x) { return narrowing<T>::from(x); }

template <class C> struct limits;
template <> struct limits<float> {
    __device__ static float infinity() { return __uint_as_float(0x7f800000u); }
};
template <> struct limits<double> {
    __device__ static double infinity() { return __longlong_as_double(0x7ff0000000000000ll); }
};

// -- loads and stores -------------------------------------------------------------------------------------------------
template <class T, int N> struct alignas(sizeof(T) * N) Pack { T item[N]; };

template <int BYTES> struct word_of { using type = uint4; };
template <> struct word_of<2> { using type = unsigned short; };
template <> struct word_of<4> { using type = unsigned; };
template <> struct word_of<8> { using type = uint2; };

// Values and the words that they are loaded and stored as: left to itself the compiler may take them one by one.
template <class T, int N> union Words {
    static constexpr int BYTES = int(sizeof(T)) * N, COUNT = BYTES > 16 ? BYTES / 16 : 1;
    using word = typename word_of<BYTES>::type;
    word words[COUNT];
    Pack<T, N> pack;
    __device__ Words() : words() {}
};

// Read values that no thread of the kernel writes, by the read-only path.
template <int N, class T> __device__ inline Pack<T, N> load(const T* at) {
    Words<T, N> both;
#pragma unroll
    for (int i = 0; i < both.COUNT; ++i)
        both.words[i] = __ldg(reinterpret_cast<const typename Words<T, N>::word*>(at) + i);
    return both.pack;
}

#ifdef DG_EMULATED
template <class word> __device__ inline word ask(const word* at) { return __ldg(at); }
#else
__device__ inline unsigned short ask(const unsigned short* at) {
    unsigned short word;
    asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(word) : "l"(at));
    return word;
}
__device__ inline unsigned ask(const unsigned* at) {
    unsigned word;
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(word) : "l"(at));
    return word;
}
__device__ inline uint2 ask(const uint2* at) {
    uint2 word;
    asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(word.x), "=r"(word.y) : "l"(at));
    return word;
}
__device__ inline uint4 ask(const uint4* at) {
    uint4 word;
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                 : "l"(at));
    return word;
}
#endif

// As `load`, and asked for here: left to itself the compiler puts each load off until before its use, to save registers,
// and waits for one after the other.
template <int N, class T> __device__ inline Pack<T, N> load_early(const T* at) {
    Words<T, N> both;
#pragma unroll
    for (int i = 0; i < both.COUNT; ++i)
        both.words[i] = ask(reinterpret_cast<const typename Words<T, N>::word*>(at) + i);
    return both.pack;
}
template <class T> __device__ inline T load_early1(const T* at) { return load_early<1>(at).item[0]; }
template <class T> __device__ inline compute_t<T> load1(const T* at) { return widen(load<1>(at).item[0]); }

template <int N, class T> __device__ inline void store(T* at, const compute_t<T> (&values)[N]) {
    Words<T, N> both;
#pragma unroll
    for (int i = 0; i < N; ++i) both.pack.item[i] = narrow<T>(values[i]);
#pragma unroll
    for (int i = 0; i < both.COUNT; ++i)
        __stwb(reinterpret_cast<typename Words<T, N>::word*>(at) + i, both.words[i]);
}

// -- the operator table's functions -----------------------------------------------------------------------------------
__device__ inline float erf(float x) { return ::erff(x); }
__device__ inline double erf(double x) { return ::erf(x); }
__device__ inline float exp(float x) { return ::expf(x); }
__device__ inline double exp(double x) { return ::exp(x); }
__device__ inline float expm1(float x) { return ::expm1f(x); }
__device__ inline double expm1(double x) { return ::expm1(x); }
__device__ inline float fma(float x, float y, float z) { return ::fmaf(x, y, z); }
__device__ inline double fma(double x, double y, double z) { return ::fma(x, y, z); }
__device__ inline float log(float x) { return ::logf(x); }
__device__ inline double log(double x) { return ::log(x); }
__device__ inline float sqrt(float x) { return ::sqrtf(x); }
__device__ inline double sqrt(double x) { return ::sqrt(x); }
__device__ inline float abs(float x) { return ::fabsf(x); }
__device__ inline double abs(double x) { return ::fabs(x); }
__device__ inline float tanh(float x) { return ::tanhf(x); }
__device__ inline double tanh(double x) { return ::tanh(x); }
__device__ inline float log1p(float x) { return ::log1pf(x); }
__device__ inline double log1p(double x) { return ::log1p(x); }
__device__ inline float power(float x, float y) { return ::powf(x, y); }
__device__ inline double power(double x, double y) { return ::pow(x, y); }
template <class C> __device__ inline C where(bool condition, C yes, C no) { return condition ? yes : no; }
// NaN where either is.
template <class C> __device__ inline C maximum(C x, C y) { return x > y || x != x ? x : y; }
template <class C> __device__ inline C minimum(C x, C y) { return x < y || x != x ? x : y; }
template <class C> __device__ inline C sign(C x) { return x > C(0) ? C(1) : (x < C(0) ? C(-1) : x); }
template <class C> __device__ inline C sigmoid(C x) { return C(1) / (C(1) + exp(-x)); }
template <class C> __device__ inline C softplus(C x) { return maximum(x, C(0)) + log1p(exp(-abs(x))); }

// -- exchanges --------------------------------------------------------------------------------------------------------
template <class T> __device__ inline T from_lane(T value, int lane) { return __shfl_sync(ALL_LANES, value, lane); }
template <class T> __device__ inline T across(T value, int distance) {
    return __shfl_xor_sync(ALL_LANES, value, distance);
}
__device__ inline bool any(bool condition) { return __any_sync(ALL_LANES, condition) != 0; }

// Sum over the lanes whose numbers differ in the bits from FIRST up to END; every lane gets it, in the same order.
template <int FIRST, int END, class C> __device__ inline C sum_across(C value) {
#pragma unroll
    for (int distance = FIRST; distance < END; distance *= 2) value += across(value, distance);
    return value;
}
template <int FIRST, int END, class C> __device__ inline C max_across(C value) {
#pragma unroll
    for (int distance = FIRST; distance < END; distance *= 2) value = maximum(value, across(value, distance));
    return value;
}

}  // namespace dg
