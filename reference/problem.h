// problem.h: one attention problem, as data: shapes, tensors with their layout, masks, scale, and choices
// that the kernel is asked to make.
//
// A Problem owns its memory and says exactly which bits the kernel is given; nothing is derived from a seed.
// Equality of two problems is equality of everything but `origin`.
// Errors: validate() returns the first thing that is wrong, in one line that names the field.
// Example: see reference/problem_test.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "reference/formats.h"

namespace attest {

// Sizes of a problem. D, Dv >= 1, the others >= 0; hq % hk == 0 (hk may be 0 only with hq = 0).
struct Shape {
  int64_t b = 1;   // batches
  int64_t hq = 1;  // query heads
  int64_t hk = 1;  // key heads; query head h reads key head h / (hq / hk)
  int64_t nq = 1;  // query rows per head
  int64_t nk = 1;  // keys per head
  int64_t d = 1;   // width of Q and K
  int64_t dv = 1;  // width of V and O

  int64_t rows() const { return b * hq * nq; }
  int64_t key_head(int64_t h) const { return h / (hq / hk); }
  bool operator==(const Shape&) const = default;
};

// A rank-4 layout over some storage: element (i0,i1,i2,i3) lies at offset + sum i_k * stride_k, in elements.
struct Layout {
  std::array<int64_t, 4> extent{1, 1, 1, 1};
  std::array<int64_t, 4> stride{0, 0, 0, 1};  // in elements, >= 0, the last one 1; 0 broadcasts
  int64_t offset = 0;                         // in elements from the start of the storage

  static Layout packed(std::array<int64_t, 4> extent);
  int64_t at(int64_t i0, int64_t i1, int64_t i2, int64_t i3) const {
    return offset + i0 * stride[0] + i1 * stride[1] + i2 * stride[2] + i3 * stride[3];
  }
  int64_t count() const { return extent[0] * extent[1] * extent[2] * extent[3]; }
  // Elements of storage that the layout reaches, from the start: offset + last index + 1, or 0 if empty.
  int64_t span() const;
  bool operator==(const Layout&) const = default;
};

// A tensor of f32, f16 or bf16. `storage` may hold more than the layout reaches (padding between rows);
// those bytes are given to the kernel as they are.
struct Tensor {
  DType type = DType::f32;
  Layout layout;
  std::vector<uint8_t> storage;

  static Tensor packed(DType type, std::array<int64_t, 4> extent);  // zeros
  uint32_t bits(int64_t index) const {                              // index in elements of storage
    if (type == DType::f32) {
      uint32_t u;
      std::memcpy(&u, storage.data() + 4 * index, 4);
      return u;
    }
    uint16_t u;
    std::memcpy(&u, storage.data() + 2 * index, 2);
    return u;
  }
  void set_bits(int64_t index, uint32_t bits) {
    if (type == DType::f32) {
      std::memcpy(storage.data() + 4 * index, &bits, 4);
    } else {
      const auto u = static_cast<uint16_t>(bits);
      std::memcpy(storage.data() + 2 * index, &u, 2);
    }
  }
  double get(int64_t i0, int64_t i1, int64_t i2, int64_t i3) const {
    return to_double(type, bits(layout.at(i0, i1, i2, i3)));
  }
  // Stores the nearest value of the tensor's type.
  void set(int64_t i0, int64_t i1, int64_t i2, int64_t i3, double value) {
    set_bits(layout.at(i0, i1, i2, i3), from_double(type, value));
  }
  bool operator==(const Tensor&) const = default;
};

// Boolean mask [B|1, Hq|1, Nq|1, Nk|1], nonzero is visible.
struct BoolMask {
  Layout layout;
  std::vector<uint8_t> storage;
  bool operator==(const BoolMask&) const = default;
};

// Window around the query's position, both ends included; nullopt: unlimited on that side.
struct Window {
  std::optional<int64_t> left, right;
  bool operator==(const Window&) const = default;
};

enum class TileOrder : uint8_t { any, ascending, descending };

// Choices that the kernel is asked to make; 0, any and nullopt leave them to the kernel.
struct Choice {
  int64_t tile_keys = 0;
  TileOrder order = TileOrder::any;
  int32_t splits = 0;
  std::optional<DType> p_type;  // type that P is rounded to before P V
  bool operator==(const Choice&) const = default;
};

// Where a problem comes from; for reports, never for judging.
struct Origin {
  std::string regime;  // name of the score regime (properties/generate/regimes.h), "" if none
  std::string values;  // name of the value probe, "" if none
  std::string mask;    // name of the mask family, "" if none
  std::string note;    // free text: a report id, a seed
};

struct Problem {
  Shape shape;
  DType type = DType::f32;  // of q, k, v and the output O
  Tensor q;                 // [B, Hq, Nq, D]
  Tensor k;                 // [B, Hk, Nk, D]
  Tensor v;                 // [B, Hk, Nk, Dv]
  float scale = 1.0f;       // finite, any sign
  float softcap = 0.0f;     // finite, >= 0; 0: none
  bool causal = false;
  Window window;
  std::optional<std::vector<int32_t>> key_lengths;  // [B], 0 <= len <= Nk
  std::optional<BoolMask> mask;
  std::optional<Tensor> bias;                // f32 or `type`, [B|1, Hq|1, Nq|1, Nk|1]
  std::optional<std::vector<float>> sink;    // [Hq], finite or -inf
  Layout o;                                  // layout of O in its buffer; never overlapping
  Layout lse;                                // [B, Hq, Nq, 1]
  Choice choice;
  Origin origin;

  // All zeros, packed, scale 1/sqrt(D), no masks, packed outputs.
  static Problem make(const Shape& shape, DType type);
};

// Element of a broadcastable [B|1, Hq|1, Nq|1, Nk|1] operand: indices are clamped where the extent is 1.
inline int64_t broadcast_at(const Layout& l, int64_t b, int64_t h, int64_t i, int64_t j) {
  return l.at(l.extent[0] == 1 ? 0 : b, l.extent[1] == 1 ? 0 : h, l.extent[2] == 1 ? 0 : i,
              l.extent[3] == 1 ? 0 : j);
}

// Default scale of the contract: 1/sqrt(D), rounded to f32.
float default_scale(int64_t d);

// nullopt if the problem is well formed, otherwise what is wrong: "k: storage of 64 bytes is shorter than ...".
std::optional<std::string> validate(const Problem& problem);

// Same mathematics and same bits given to the kernel; origins may differ.
bool same(const Problem& a, const Problem& b);

}  // namespace attest
