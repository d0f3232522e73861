#include <cuda_runtime.h>

#include "kernel/cuda/hopper/tensor_map.h"

namespace attest::hopper {
namespace {

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                            const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                            CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

Encode encode_entry_point() {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
  return error == cudaSuccess && found == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(entry) : nullptr;
}

}  // namespace

bool describe(const TensorShape& tensor, int box_rows, CUtensorMap& map) {
  static const Encode encode = encode_entry_point();
  if (!encode) return false;
  cuuint64_t extent[4], stride_bytes[3];
  for (int i = 0; i < 4; ++i) extent[i] = tensor.extent[3 - i];
  for (int i = 0; i < 3; ++i) stride_bytes[i] = tensor.extent[2 - i] > 1 ? tensor.stride[2 - i] * 2 : 16;
  const cuuint32_t box[4] = {64, static_cast<cuuint32_t>(box_rows), 1, 1}, every[4] = {1, 1, 1, 1};
  return encode(&map, tensor.bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, tensor.data,
                extent, stride_bytes, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace attest::hopper
