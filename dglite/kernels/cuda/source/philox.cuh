// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"), as kernels/cpu/philox.py draws it.

namespace dg {

// The four words of the draw with counter (edge, group, 0) and key `seed`; word h % 4 of group h / 4 is head h's.
__device__ inline unsigned philox(unsigned long long edge, int head, unsigned long long seed) {
    unsigned c0 = unsigned(edge), c1 = unsigned(edge >> 32), c2 = unsigned(head / 4), c3 = 0;
    unsigned k0 = unsigned(seed), k1 = unsigned(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const unsigned high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        const unsigned high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    const int word = head % 4;
    return word == 0 ? c0 : (word == 1 ? c1 : (word == 2 ? c2 : c3));
}

struct Dropout {
    unsigned long long seed;
    unsigned long long threshold;
    double kept;
    template <class C> __device__ C multiplier(long long edge, int head) const {
        return philox(edge, head, seed) >= unsigned(threshold) ? C(kept) : C(0);
    }
};

}  // namespace dg
