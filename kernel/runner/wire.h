// wire.h: what attest and a worker process tell each other through shared memory.
//
// Three memory files, made by attest: the request, which a worker can only read; the reply, which attest takes for what a
// stranger wrote; and the image of the tensors. A socket carries one byte for "asked" and one for "answered", and tells
// either side that the other is gone.
#pragma once

#include <cstdint>

#include "kernel/runner/call.h"

namespace attest::wire {

inline constexpr uint32_t kMostEntries = 64;  // of each list of a table
inline constexpr size_t kNameBytes = 128;

enum class Op : uint32_t { ask, forward, forward_two, merge, end };

struct Request {
  uint64_t sequence = 0;  // of the question; the reply repeats it
  Op op = Op::ask;
  uint32_t reserved = 0;
  uint64_t image_bytes = 0;  // present size of the image's file
  PlannedCall call;                 // ask, forward, forward_two
  PlannedCall second;               // forward_two
  PlannedMerge merging;         // merge
};

// A table as plain bytes.
struct Description {
  char name[kNameBytes] = "", version[kNameBytes] = "", device_name[kNameBytes] = "";
  char further[8 * kNameBytes] = "";  // names of the plug-in's other kernels; cut where they are too many
  int32_t device = 0, reentrant = 0, has_merge = 0, has_trace = 0, has_workspace = 0, reserved = 0;
  uint32_t features = 0;
  uint32_t type_count = 0, head_width_count = 0, tile_count = 0, split_count = 0, order_count = 0, p_type_count = 0;
  int32_t head_width_max = 0;
  int32_t types[kMostEntries] = {}, head_widths[kMostEntries] = {}, splits[kMostEntries] = {}, orders[kMostEntries] = {}, p_types[kMostEntries] = {};
  int64_t tiles[kMostEntries] = {};
  attest_conventions conventions{};
  attest_numerics numerics{};
};

struct Reply {
  uint64_t sequence = 0;
  int32_t loaded = 0;        // sequence 0: 1 where `description` is filled, otherwise `load_error` and `words`
  int32_t load_error = 0;    // LoadError::Kind
  int32_t device_lost = 0;   // 1: the device is of no use to this process any more, `words` say why
  int32_t reserved = 0;
  char words[1024] = "";
  Needs needs;
  Outcome outcome;
  Description description;
};

// The files and the socket as a worker inherits them, as text: "7,8,9,10".
struct Ends {
  int socket = -1, request = -1, reply = -1, image = -1;
};

}  // namespace attest::wire
