// call.h: one call of a kernel as plain bytes: everything of a Problem but the contents of its tensors, and where each
// tensor lies in one image of memory.
//
// A PlannedCall holds no pointers, so that it means the same in another process: `begin` of a tensor counts bytes from the base of
// the image, which is aligned to 256 bytes. Guard bands stand before, between and after the tensors.
// Arguments turns a PlannedCall into what attest_kernel.forward takes; it keeps its own shapes and strides and must outlive
// the call, at one address.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "kernel/abi/attest_kernel.h"
#include "reference/problem.h"

namespace attest {

inline constexpr uint8_t kGuardByte = 0xFF;  // NaN in every format: an over-read shows
inline constexpr size_t kMessageBytes = 256;  // of a kernel's one-line reason

int32_t abi_type(DType type);
DLDataType dl_type(DType type);

// Bytes of an image.
struct Region {
  uint64_t begin = 0, bytes = 0;
};

// The regions of an image, one after the other between guard bands, in the order in which they are added.
struct Plan {
  static constexpr uint64_t kGuard = 256;  // bytes of guard band on either side, at least
  std::array<Region, 12> regions{};
  uint64_t count = 0;
  uint64_t size = kGuard;  // of the whole image
  Region add(uint64_t bytes);
};

struct CallTensor {
  int32_t present = 0, ndim = 0;
  DLDataType type{};
  int32_t reserved = 0;      // no padding: calls are compared as bytes
  Region region;             // all zero while nothing is placed
  uint64_t byte_offset = 0;  // of the first element, from region.begin
  int64_t shape[4] = {}, strides[4] = {};
};

struct PlannedCall {
  CallTensor q, k, v, o, lse, lengths, mask, bias, sink;
  float scale = 1, softcap = 0;
  int32_t causal = 0, order = 0, splits = 0, p_type = 0;
  int64_t window_left = -1, window_right = -1, tile_keys = 0;
  int32_t want_trace = 0;
  int32_t asked = 0;  // 1: the kernel was asked and takes it; a worker asks by itself otherwise
  int32_t captured = 0, reserved = 0;  // 1: as RunOptions::captured
  Region workspace, records, record_count;
  uint64_t record_capacity = 0;
  Plan plan;  // what was placed
};

// merge(a, b, out): three pairs of O and LSE.
struct PlannedMerge {
  CallTensor o[3], lse[3];
  Plan plan;
};

// What a kernel says about a PlannedCall before it is made.
struct Needs {
  int32_t supported = 0, reserved = 0;
  char reason[kMessageBytes] = "";  // why it is not supported; always terminated
  uint64_t workspace = 0;           // bytes
  uint64_t records = 0;             // of a trace, 0 where none is wanted
};

// The end of forward or merge.
struct Outcome {
  int32_t status = ATTEST_OK, reserved = 0;
  char message[kMessageBytes] = "";  // where the status is not ATTEST_OK; always terminated
  double seconds = 0;                // of the call, synchronisation included
};

// The call that a problem asks for, with nothing placed yet.
PlannedCall describe(const Problem& problem, bool want_lse, bool want_trace);
// Places every tensor, and what the kernel needs beside them. Throws std::bad_alloc where that is absurdly much.
void place_tensors(PlannedCall& call, const Problem& problem, const Needs& needs);
// Where the image of a second call lies behind that of the first.
uint64_t second_image(const PlannedCall& first);
PlannedMerge describe_merge(int64_t rows, int64_t width);

class Arguments {
 public:
  // Tensors lie at `base` + begin on `device` (kDLCPU, kDLCUDA); `base` NULL gives data that is NULL throughout.
  Arguments(const PlannedCall& call, uint8_t* base, int32_t device);
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  const attest_args* get() const { return &args_; }

 private:
  struct Tensor {
    DLTensor t{};
    int64_t shape[4] = {}, strides[4] = {};
  };
  friend class MergeArguments;
  static const DLTensor* make(Tensor& tensor, const CallTensor& from, uint8_t* base, int32_t device);

  Tensor q_, k_, v_, o_, lse_, lengths_, mask_, bias_, sink_;
  attest_trace trace_{};
  attest_args args_{};
};

class MergeArguments {
 public:
  MergeArguments(const PlannedMerge& call, uint8_t* base, int32_t device);
  MergeArguments(const MergeArguments&) = delete;
  MergeArguments& operator=(const MergeArguments&) = delete;
  const attest_state* state(int n) const { return &states_[n]; }

 private:
  Arguments::Tensor o_[3], lse_[3];
  attest_state states_[3] = {};
};

}  // namespace attest
