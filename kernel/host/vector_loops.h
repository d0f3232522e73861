// vector_loops.h: the loops in which the host kernel spends its time, once for each instruction set.
//
// The order of every sum is fixed, in lanes, and nothing is contracted, so that each instruction set, compiler and
// optimisation level gives the same bits (where a result is NaN, which NaN it is may differ). Rows of K, V, Q and O are
// padded to whole vectors: K and Q with zeros, the columns past the end of V and O are anything. Arrays over keys have
// room for kSlack elements more, which may be read and written.
// Example: vector_loops().dots_wide(q, k, stride, keys, width, dot);
#pragma once

#include <cstdint>

namespace attest::host {

inline constexpr int64_t kNarrowLanes = 16, kWideLanes = 8, kSlack = 8;
constexpr int64_t padded(int64_t n, int64_t lanes) { return (n + lanes - 1) / lanes * lanes; }

// s_j = scale s_j, capped, plus bias_j; -inf where the bias is -inf or the mask 0.
struct ScoreArguments {
  double* s;  // in: dot products
  int64_t n;
  float scale, softcap;
  const float* bias;    // may be NULL
  const uint8_t* mask;  // may be NULL
  int64_t mask_stride;
};

// One tile with a visible key, after its fold.
struct Tile {
  int64_t first, last;  // keys, masked ones too
  int64_t end;          // its visible keys end there in FoldArguments::key
  double m;
  float l, factor;
};

// The scalars of the recurrence over the tiles of one split; the steps are those of kernel/recurrence.h and HostSteps.
struct FoldArguments {
  const double* score;          // of the keys [begin, end)
  int64_t begin, end;           // within the split
  int64_t split_begin, split_end, tile;
  bool descending;
  int32_t p_type;
  int64_t* key;    // the visible keys, in the order in which they are taken
  double* x;       // scratch: their scores
  float* p;        // their weights, rounded to p_type
  Tile* tiles;     // those with a visible key
  double* shift;   // scratch, and the next, for each tile
  float* factor;
  int64_t tile_count;  // out
};

// O of one split: for each tile O = factor O + P V, from 0.
template <class Sum>
struct ValueArguments {
  const Tile* tiles;
  int64_t tile_count;
  const int64_t* key;
  const float* p;
  const float* v;
  int64_t stride, width;  // width: of O and V, padded
  Sum* o;
};

// O / l, within the type where the sum is finite, rounded to the type. Says whether all sums are finite.
template <class Sum>
struct FinishArguments {
  const Sum* o;
  int64_t n;
  float l;
  double largest;
  int32_t type;
  uint8_t* to;
};

struct VectorLoops {
  const char* name;
  // n values of f16 or bf16, at any address, to float.
  void (*widen_f16)(const uint8_t* from, int64_t n, float* to);
  void (*widen_bf16)(const uint8_t* from, int64_t n, float* to);
  // sum q_d k_d for n keys. The products of f16 values are exact in float; those of floats need the digits of double,
  // those of bf16 values its range: 2^-266 times a scale of 2^127 may still tell two keys apart when others are as small.
  void (*dots_narrow)(const float* q, const float* k, int64_t stride, int64_t n, int64_t width, double* dot);
  void (*dots_wide)(const double* q, const float* k, int64_t stride, int64_t n, int64_t width, double* dot);
  void (*scores)(const ScoreArguments& a);
  void (*fold)(FoldArguments& a);
  // The products are exact: in float for p and v of 16 bits, in double otherwise.
  void (*values_narrow)(const ValueArguments<float>& a);
  void (*values_wide)(const ValueArguments<double>& a);
  bool (*finish_narrow)(const FinishArguments<float>& a);
  bool (*finish_wide)(const FinishArguments<double>& a);
};

// Those that this processor runs, the plainest first and the fastest last.
struct VectorLoopSets {
  const VectorLoops* set[2];
  int count;
};
VectorLoopSets vector_loop_sets();
// The fastest, or that which ATTEST_INSTRUCTIONS names.
const VectorLoops& vector_loops();

// The steps of one key: o_d = o_d * factor, and o_d += p v_d.
void scale_values(float* o, float factor, int64_t dv);
void scale_values(double* o, double factor, int64_t dv);
void add_value(float* o, float p, const float* v, int64_t dv);
void add_value(double* o, double p, const float* v, int64_t dv);

}  // namespace attest::host
