#include "reference/hot_loops.h"

#define ATTEST_SET avx512
#define ATTEST_SET_NAME "avx512"
#define ATTEST_LANES 8
#ifdef __AVX512F__
#include <immintrin.h>
#define ATTEST_WIDEN(from) _mm512_maskz_cvtps_pd(0xFF, _mm256_loadu_ps(from))
#ifdef ATTEST_HAVE_SLEEF
#include <sleef.h>
#define ATTEST_EXP Sleef_expd8_u10avx512f
#define ATTEST_TANH Sleef_tanhd8_u10avx512f
#endif
#endif
#include "reference/hot_loops.inc"
