// vector_loops.h: the two loops in which the host kernel spends its time.
//
// The order of every sum is fixed, in lanes, and nothing is contracted, so that each instruction set, compiler and
// optimisation level gives the same bits.
#pragma once

#include <cstdint>

namespace attest::host {

// sum q_d k_d. The products of 16-bit values are exact in float, those of floats in double.
float dot_narrow(const float* q, const float* k, int64_t d);
double dot_wide(const float* q, const float* k, int64_t d);

// o_d = o_d * factor, and o_d += p v_d, the product exact: in float for p and v of 16 bits, in double otherwise.
void scale_values(float* o, float factor, int64_t dv);
void scale_values(double* o, double factor, int64_t dv);
void add_value(float* o, float p, const float* v, int64_t dv);
void add_value(double* o, double p, const float* v, int64_t dv);

}  // namespace attest::host
