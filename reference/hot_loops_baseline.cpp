#include "reference/hot_loops.h"

#define ATTEST_SET baseline
#define ATTEST_SET_NAME "baseline"
#define ATTEST_LANES 2
#ifdef __SSE2__
#include <immintrin.h>
#define ATTEST_WIDEN(from) _mm_cvtps_pd(_mm_castsi128_ps(_mm_loadl_epi64((const __m128i*)(from))))
#ifdef ATTEST_HAVE_SLEEF
#include <sleef.h>
#define ATTEST_EXP Sleef_expd2_u10sse2
#define ATTEST_TANH Sleef_tanhd2_u10sse2
#endif
#endif
#include "reference/hot_loops.inc"
