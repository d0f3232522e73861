#include "kernel/host/vector_loops.h"

#define ATTEST_SET baseline
#define ATTEST_SET_NAME "baseline"
#include "kernel/host/vector_loops.inc"
