// evaluate.h: the primitives that kernels compute with, each as a function of the bits of one input, for host and device.
//
// Results are widened to double, which is exact. The last ones exist on the device alone: its own instructions.
#pragma once

#include "kernel/numbers.h"
#include "kernel/recurrence.h"

namespace attest::primitives {

enum class Function {
  exp_double,    // elementary::exp_nonpositive
  exp_f32,       // Recurrence::exponential
  ln,            // elementary::ln_of
  tanh,          // elementary::tanh_of
  reciprocal,    // Recurrence::normalise(1, l), rounded to f32
  from_f16,      // numbers::, 16 bits
  from_bf16,
  to_f16,        // numbers::, of f32
  to_bf16,
  to_f16_above,  // numbers::to_f16(to_odd(x)) of the double next to an f32, away from 0
  to_bf16_above,
  to_f16_below,  // of the double next to it toward 0
  to_bf16_below,
  ex2_approx,    // ex2.approx.ftz.f32
  rcp_approx,    // rcp.approx.ftz.f32
  log2_device,   // log2f
  cvt_f16,       // cvt.rn.f16.f32
  cvt_bf16,      // cvt.rn.bf16.f32
};

// The double one unit in the last place further out, or closer in; x not 0, infinite or NaN.
ATTEST_HOST_DEVICE double beside(double x, int outward) {
  return x == 0 || !(fabs(x) <= 1.7e308) ? x : elementary::double_of(elementary::bits_of(x) + static_cast<uint64_t>(static_cast<int64_t>(outward)));
}

template <Function f>
ATTEST_HOST_DEVICE double evaluate(uint32_t bits) {
  const float x = numbers::float_of(bits);
  if constexpr (f == Function::exp_double) return elementary::exp_nonpositive(x);
  if constexpr (f == Function::exp_f32) return Recurrence::exponential(x);
  if constexpr (f == Function::ln) return elementary::ln_of(x);
  if constexpr (f == Function::tanh) return elementary::tanh_of(x);
  if constexpr (f == Function::reciprocal) return static_cast<float>(Recurrence::normalise(1.0, x));
  if constexpr (f == Function::from_f16) return numbers::from_f16(static_cast<uint16_t>(bits));
  if constexpr (f == Function::from_bf16) return numbers::from_bf16(static_cast<uint16_t>(bits));
  if constexpr (f == Function::to_f16) return numbers::from_f16(numbers::to_f16(x));
  if constexpr (f == Function::to_bf16) return numbers::from_bf16(numbers::to_bf16(x));
  if constexpr (f == Function::to_f16_above) return numbers::from_f16(numbers::to_f16(numbers::to_odd(beside(x, 1))));
  if constexpr (f == Function::to_bf16_above) return numbers::from_bf16(numbers::to_bf16(numbers::to_odd(beside(x, 1))));
  if constexpr (f == Function::to_f16_below) return numbers::from_f16(numbers::to_f16(numbers::to_odd(beside(x, -1))));
  if constexpr (f == Function::to_bf16_below) return numbers::from_bf16(numbers::to_bf16(numbers::to_odd(beside(x, -1))));
#ifdef __CUDA_ARCH__
  if constexpr (f == Function::log2_device) return log2f(x);
  if constexpr (f == Function::ex2_approx || f == Function::rcp_approx) {
    float y;
    if constexpr (f == Function::ex2_approx) asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    else asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  if constexpr (f == Function::cvt_f16 || f == Function::cvt_bf16) {
    uint16_t y;
    if constexpr (f == Function::cvt_f16) asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    else asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return f == Function::cvt_f16 ? numbers::from_f16(y) : numbers::from_bf16(y);
  }
#endif
  return 0;
}

// Calls body.operator()<f>().
template <class Body>
void dispatch(Function f, Body body) {
  switch (f) {
#define ATTEST_CASE(name) case Function::name: body.template operator()<Function::name>(); break;
    ATTEST_CASE(exp_double) ATTEST_CASE(exp_f32) ATTEST_CASE(ln) ATTEST_CASE(tanh) ATTEST_CASE(reciprocal) ATTEST_CASE(from_f16)
    ATTEST_CASE(from_bf16) ATTEST_CASE(to_f16) ATTEST_CASE(to_bf16) ATTEST_CASE(to_f16_above) ATTEST_CASE(to_bf16_above)
    ATTEST_CASE(to_f16_below) ATTEST_CASE(to_bf16_below) ATTEST_CASE(ex2_approx) ATTEST_CASE(rcp_approx) ATTEST_CASE(log2_device)
    ATTEST_CASE(cvt_f16) ATTEST_CASE(cvt_bf16)
#undef ATTEST_CASE
  }
}

// On the device: results of the inputs first .. first + n - 1 into `out`. One thread at a time. Returns an error's text, or "".
const char* evaluate_on_device(Function f, uint32_t first, uint32_t n, double* out);
const char* device_name();  // "" where there is none

}  // namespace attest::primitives
