#include "kernel/host/vector_loops.h"

#define ATTEST_SET avx2
#define ATTEST_SET_NAME "avx2"
#if defined(__AVX2__) && defined(__F16C__)
#include <immintrin.h>
#define ATTEST_AVX2 1
#endif
#include "kernel/host/vector_loops.inc"
