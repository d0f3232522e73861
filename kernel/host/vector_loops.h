// vector_loops.h: the loops in which the host kernel spends its time.
//
// The order of every sum is fixed, in lanes, and nothing is contracted, so that each instruction set, compiler and
// optimisation level gives the same bits.
#pragma once

#include <cstdint>

namespace attest::host {

// n values of f16 or bf16, at any address, to float.
void widen_f16(const uint8_t* from, int64_t n, float* to);
void widen_bf16(const uint8_t* from, int64_t n, float* to);

// sum q_d k_d. The products of f16 values are exact in float; those of floats need the digits of double, those of bf16
// values its range: 2^-266 times a scale of 2^127 may still tell two keys apart when others are as small.
float dot_narrow(const float* q, const float* k, int64_t d);
double dot_wide(const float* q, const float* k, int64_t d);

// o_d = o_d * factor, and o_d += p v_d, the product exact: in float for p and v of 16 bits, in double otherwise.
void scale_values(float* o, float factor, int64_t dv);
void scale_values(double* o, double factor, int64_t dv);
void add_value(float* o, float p, const float* v, int64_t dv);
void add_value(double* o, double p, const float* v, int64_t dv);

}  // namespace attest::host
