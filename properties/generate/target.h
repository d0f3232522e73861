// target.h: what the kernel under test offers, as plain data, so that generators stay inside it.
//
// The lists guide; a kernel's `supports` has the last word about a problem.
// Example: Target target = Target::from_table(kernel.table());
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/abi/attest_kernel.h"
#include "reference/numerics.h"
#include "reference/problem.h"

namespace attest {

struct Target {
  std::string name;
  std::vector<DType> types;     // never empty
  std::vector<int64_t> widths;  // D = Dv from this list; empty: any D, Dv from 1 to max_width
  int64_t max_width = 256;
  uint32_t features = 0;          // attest_feature bits
  std::vector<int64_t> tiles;     // empty: the kernel's own choice
  std::vector<int32_t> splits;    // empty: the kernel's own choice
  std::vector<TileOrder> orders;  // empty: the kernel's own choice
  std::vector<DType> p_types;     // empty: the kernel's own choice
  Conventions conventions;
  int64_t own_tile = 0;  // keys per tile that the kernel declares for itself; 0: not declared

  bool has(uint32_t feature_bits) const { return (features & feature_bits) == feature_bits; }

  static Target from_table(const attest_kernel& table);
  // A kernel that offers everything of the contract; for tests and for generating without a kernel.
  static Target everything();
};

}  // namespace attest
