#include "reference/hot_loops.h"

#define ATTEST_SET avx2
#define ATTEST_SET_NAME "avx2"
#define ATTEST_LANES 4
#ifdef __AVX2__
#include <immintrin.h>
#define ATTEST_WIDEN(from) _mm256_cvtps_pd(_mm_loadu_ps(from))
#ifdef ATTEST_HAVE_SLEEF
#include <sleef.h>
#define ATTEST_EXP Sleef_expd4_u10avx2
#define ATTEST_TANH Sleef_tanhd4_u10avx2
#endif
#endif
#include "reference/hot_loops.inc"
