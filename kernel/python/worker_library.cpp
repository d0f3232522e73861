// libattest_worker.so: what attest_worker.py loads with ctypes, so that a Python process can serve a kernel. Nothing of
// Python is used here; kernel/python/attest_worker.py says what each function is for and mirrors attest_kernel.h.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "kernel/abi/attest_kernel.h"
#include "kernel/runner/plugin.h"
#include "kernel/runner/serve.h"

#define ATTEST_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kMostDimensions = 8;

// A tensor handed to a consumer of DLPack. The memory stays the harness's, this description is the consumer's to delete.
struct Handed {
  DLManagedTensor managed{};
  int64_t shape[kMostDimensions] = {}, strides[kMostDimensions] = {};
};

int64_t size_of(DLDataType type) { return int64_t{type.bits} * type.lanes / 8; }

// Copies every element of `from` to the same place of `to`, both on the CPU, of one shape and type.
void copy_elements(const DLTensor& from, const DLTensor& to, int dimension, const char* source, char* target) {
  if (dimension == to.ndim) {
    std::memcpy(target, source, static_cast<size_t>(size_of(to.dtype)));
    return;
  }
  const auto stride = [&](const DLTensor& t) {
    if (t.strides != nullptr) return t.strides[dimension];
    int64_t packed = 1;
    for (int n = dimension + 1; n < t.ndim; ++n) packed *= t.shape[n];
    return packed;
  };
  const int64_t step = stride(from) * size_of(to.dtype), to_step = stride(to) * size_of(to.dtype);
  for (int64_t n = 0; n < to.shape[dimension]; ++n) copy_elements(from, to, dimension + 1, source + n * step, target + n * to_step);
}

}  // namespace

// A DLManagedTensor that describes the memory of `tensor`; whoever takes it calls its deleter. NULL for more than eight
// dimensions.
ATTEST_EXPORT DLManagedTensor* attest_worker_hand(const DLTensor* tensor) {
  if (tensor->ndim > kMostDimensions) return nullptr;
  auto* handed = new Handed;
  handed->managed.dl_tensor = *tensor;
  int64_t packed = 1;
  for (int n = tensor->ndim; n-- > 0; packed *= tensor->shape[n]) {
    handed->shape[n] = tensor->shape[n];
    handed->strides[n] = tensor->strides != nullptr ? tensor->strides[n] : packed;
  }
  handed->managed.dl_tensor.shape = handed->shape;
  handed->managed.dl_tensor.strides = handed->strides;
  handed->managed.manager_ctx = handed;
  handed->managed.deleter = [](DLManagedTensor* self) { delete static_cast<Handed*>(self->manager_ctx); };
  return &handed->managed;
}

// Copies a returned tensor on the CPU into an output. 0, or 1 where shapes, 2 where types, 3 where devices differ.
ATTEST_EXPORT int attest_worker_copy(const DLTensor* from, const DLTensor* to) {
  if (from->ndim != to->ndim || !std::equal(from->shape, from->shape + from->ndim, to->shape)) return 1;
  if (from->dtype.code != to->dtype.code || from->dtype.bits != to->dtype.bits || from->dtype.lanes != to->dtype.lanes) return 2;
  if (from->device.device_type != kDLCPU || to->device.device_type != kDLCPU) return 3;
  for (int n = 0; n < to->ndim; ++n)
    if (to->shape[n] == 0) return 0;
  copy_elements(*from, *to, 0, static_cast<const char*>(from->data) + from->byte_offset, static_cast<char*>(to->data) + to->byte_offset);
  return 0;
}

// Serves a kernel until attest is gone. `table` is what a plug-in's attest_kernel_get would return.
ATTEST_EXPORT int attest_worker_serve(const char* ends, const attest_kernel* table) {
  return attest::serve(ends, [&]() -> std::variant<attest::FoundTable, attest::LoadError> {
    if (const std::string fault = attest::table_fault(*table); !fault.empty()) return attest::LoadError{attest::LoadError::Kind::bad_plugin, "the Python kernel " + fault};
    return attest::FoundTable{table};
  });
}

// Tells attest in one line why there is no kernel to serve.
ATTEST_EXPORT int attest_worker_refuse(const char* ends, const char* why) {
  return attest::serve(ends, [&]() -> std::variant<attest::FoundTable, attest::LoadError> { return attest::LoadError{attest::LoadError::Kind::bad_plugin, why}; });
}

// For the script to check that it mirrors the header of this library.
ATTEST_EXPORT void attest_worker_sizes(uint32_t* abi_version, uint32_t* kernel, uint32_t* args) {
  *abi_version = ATTEST_ABI_VERSION;
  *kernel = sizeof(attest_kernel);
  *args = sizeof(attest_args);
}
