// tensor_map.h: the description of a tensor in device memory that the copy engine works from.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace attest::hopper {

struct TensorShape {
  void* data;         // 16-byte aligned
  int64_t extent[4];  // batch, head, row, column; each >= 1
  int64_t stride[3];  // batch, head, row, in elements of 2 bytes, multiples of 8; read only where extent > 1
  bool bf16;
};

// Describes boxes of `box_rows` rows x 64 columns in the 128-byte swizzle; what lies outside the tensor reads as 0.
// False if the driver refuses. The driver's entry point is looked up through the runtime: no libcuda is linked.
bool describe(const TensorShape& tensor, int box_rows, CUtensorMap& map);

}  // namespace attest::hopper
