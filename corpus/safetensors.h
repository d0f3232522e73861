// safetensors.h: the container format of the Hugging Face safetensors library, without any meaning of its tensors.
//
// A file is: the length n of the header (8 bytes, little endian); n bytes of JSON, an object that maps names to
// {"dtype", "shape", "data_offsets": [begin, end]}, with strings in "__metadata__", padded with spaces; the data,
// which the tensors cover without gap or overlap.
// Guarantees: what is parsed points into `bytes`; every shape agrees with its offsets; a header of at most 100 MB.
// Errors: CaseError, one line with the file and the tensor.
// Source: https://github.com/huggingface/safetensors, README "Format".
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace attest {

struct StoredTensor {
  std::string name;
  std::string dtype;  // "F32", "F16", "BF16", "I64", "I32", "U8", "BOOL"; others are refused
  std::vector<int64_t> shape;
  std::span<const uint8_t> data;
};

struct Safetensors {
  std::map<std::string, std::string> metadata;
  std::vector<StoredTensor> tensors;  // in the order of their data

  const StoredTensor* find(std::string_view name) const;
};

Safetensors parse_safetensors(std::span<const uint8_t> bytes, const std::string& file);

// The file's bytes; tensors are ordered by element size, largest first, then by name, so that all are aligned.
std::vector<uint8_t> safetensors_bytes(Safetensors contents);

}  // namespace attest
