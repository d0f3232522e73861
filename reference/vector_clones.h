// vector_clones.h: four doubles at a time, and hot loops compiled for AVX-512, AVX2 and the baseline, chosen at run
// time.
//
// The results may differ between the three in the last bits; the enclosure covers every one of them. Under a
// sanitizer and on other compilers there is one version: the resolver runs before a sanitizer is ready.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) && defined(__OPTIMIZE__)
#define ATTEST_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define ATTEST_VECTOR_CLONES
#endif

namespace attest {

inline constexpr int kLanes = 4;
typedef double Lanes __attribute__((vector_size(kLanes * sizeof(double))));
typedef float FloatLanes __attribute__((vector_size(kLanes * sizeof(float))));

// Macros, not functions: a vector may not cross a call between code for different instruction sets.
#define ATTEST_ABS(x) ((x) < 0 ? -(x) : (x))

// n values of f16, unaligned, to float.
void widen_f16(const uint8_t* from, int64_t n, float* to);

}  // namespace attest
