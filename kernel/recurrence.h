// recurrence.h: the online softmax, once, for host and device.
//
// A row's state is (m, l, O): the running maximum of the visible scores, the sum of exp(s_j - m), and the unnormalised
// output sum exp(s_j - m) v_j. It starts as (-inf, 0, 0). For each tile with a visible key
//
//     m_new = max(m, max S)      factor = exp(m - m_new)      P = exp(S - m_new)
//     l = l * factor + sum P     O = O * factor + P V
//
// and at the end O / l, LSE = m + ln l. Two states merge by the same rule, with (-inf, 0, 0) as the identity; a sink is
// the state (sink, 1, 0), merged once, at the end. -inf - -inf is never formed: a tile without a visible key is
// skipped, and the factor of a state that has seen none is 0.
//
// Steps are static functions of a struct, so that a test can replace one of them. Scores and m are doubles in score
// units (natural logarithm): with f32 factors the product of scale and dot product is exact, so that scores as large
// as the interface allows keep their differences. Source: Milakov and Gimelshein, "Online normalizer calculation for
// softmax" (2018); Dao et al., "FlashAttention" (2022).
#pragma once

#include <stdint.h>

#include "kernel/elementary.h"

namespace attest {

struct Recurrence {
  static constexpr double kMinusInfinity = -__builtin_huge_val();

  // First and one past the last key that length, causal mask and window leave to a query row.
  struct KeyRange {
    int64_t begin, end;
  };

  // `length` keys count; the query stands at key position row + length - rows (bottom right). window < 0: unlimited.
  ATTEST_HOST_DEVICE static KeyRange key_range(int64_t row, int64_t rows, int64_t length, bool causal, int64_t left, int64_t right) {
    const int64_t position = row + length - rows;
    KeyRange keys{0, length};
    if (causal && position + 1 < keys.end) keys.end = position + 1;
    if (right >= 0 && right < keys.end - 1 - position) keys.end = position + right + 1;
    if (left >= 0 && left < position) keys.begin = position - left;
    if (keys.end < keys.begin) keys.end = keys.begin;
    return keys;
  }

  // The score of a visible key.
  ATTEST_HOST_DEVICE static double score(double dot, float scale, float softcap, double bias) {
    double s = static_cast<double>(scale) * dot;
    if (softcap > 0) s = softcap * elementary::tanh_of(s / softcap);
    return s + bias;
  }
  // The score of a masked key, whatever K and bias hold.
  ATTEST_HOST_DEVICE static double masked_score() { return kMinusInfinity; }
  ATTEST_HOST_DEVICE static bool is_masked(double score) { return score == kMinusInfinity; }

  // The maximum of two; NaN if either is NaN.
  ATTEST_HOST_DEVICE static double maximum(double a, double b) { return a >= b || a != a ? a : b; }
  // The reference point after a tile.
  ATTEST_HOST_DEVICE static double new_maximum(double m, double tile_maximum) { return maximum(m, tile_maximum); }

  // e^x for x <= 0 to f32: within 2^-24 relative, e^0 = 1, 0 below 2^-126.
  ATTEST_HOST_DEVICE static float exponential(double x) { return static_cast<float>(elementary::exp_nonpositive(x)); }

  // exp(m_old - m_new): what a state from before a rise of the maximum is multiplied by.
  ATTEST_HOST_DEVICE static float rescale(double m_old, double m_new) {
    return m_old == kMinusInfinity ? 0.0f : exponential(m_old - m_new);
  }
  ATTEST_HOST_DEVICE static float rescale_l(double m_old, double m_new) { return rescale(m_old, m_new); }
  ATTEST_HOST_DEVICE static float rescale_o(double m_old, double m_new) { return rescale(m_old, m_new); }

  // P before it is rounded.
  ATTEST_HOST_DEVICE static float weight(double score, double m) { return is_masked(score) ? 0.0f : exponential(score - m); }

  // One element of O, before it is rounded to the output type. A row that saw no key is 0.
  ATTEST_HOST_DEVICE static double normalise(double o, float l) { return l == 0.0f ? 0.0 : o / static_cast<double>(l); }
  // O lies between the values, so what the sums left finite stays within the output type: rounding P and l may have
  // taken a value beside the type's limit over it.
  ATTEST_HOST_DEVICE static double within_type(double quotient, bool finite_sums, double largest) {
    if (!finite_sums) return quotient;
    return quotient > largest ? largest : quotient < -largest ? -largest : quotient;
  }
  ATTEST_HOST_DEVICE static double log_sum_exp(double m, float l) { return l == 0.0f ? kMinusInfinity : m + elementary::ln_of(static_cast<double>(l)); }
};

}  // namespace attest
