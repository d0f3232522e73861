#include "corpus/safetensors.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "corpus/case_error.h"
#include "corpus/json_document.h"
#include "corpus/json_text.h"

namespace attest {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kLongestHeader = 100'000'000;  // as in the library
constexpr size_t kHighestRank = 16;

std::optional<int64_t> element_bytes(std::string_view dtype) {
  if (dtype == "F32" || dtype == "I32") return 4;
  if (dtype == "F16" || dtype == "BF16") return 2;
  if (dtype == "U8" || dtype == "BOOL") return 1;
  if (dtype == "I64") return 8;
  return std::nullopt;
}

struct Entry {
  StoredTensor tensor;
  int64_t begin = 0, end = 0;
};

Entry read_entry(const Field& field, const std::string& name, int64_t data_bytes) {
  field.only({"dtype", "shape", "data_offsets"});
  Entry e;
  e.tensor.name = name;
  const Field dtype = field.at("dtype");
  e.tensor.dtype = dtype.text();
  const std::optional<int64_t> width = element_bytes(e.tensor.dtype);
  if (!width) dtype.fail("unknown type " + in_quotes(e.tensor.dtype) + ", known are F32, F16, BF16, I64, I32, U8, BOOL");

  const Field shape = field.at("shape");
  if (shape.size() > kHighestRank) shape.fail("has " + std::to_string(shape.size()) + " dimensions");
  int64_t bytes = *width;
  bool too_large = false;
  for (size_t k = 0; k < shape.size(); ++k) {
    e.tensor.shape.push_back(shape.item(k).integer(0, INT64_MAX));
    too_large |= __builtin_mul_overflow(bytes, e.tensor.shape.back(), &bytes);
  }
  // A zero after the overflow makes the product 0 again.
  if (std::find(e.tensor.shape.begin(), e.tensor.shape.end(), 0) != e.tensor.shape.end()) bytes = 0, too_large = false;
  if (too_large) shape.fail("the product of its sizes is too large");

  const Field offsets = field.at("data_offsets");
  if (offsets.size() != 2) offsets.fail("must be two numbers, is " + std::to_string(offsets.size()));
  e.begin = offsets.item(0).integer(0, data_bytes);
  e.end = offsets.item(1).integer(e.begin, data_bytes);
  if (e.end - e.begin != bytes)
    offsets.fail("span " + std::to_string(e.end - e.begin) + " bytes, the shape needs " + std::to_string(bytes));
  return e;
}

}  // namespace

const StoredTensor* Safetensors::find(std::string_view name) const {
  for (const StoredTensor& t : tensors)
    if (t.name == name) return &t;
  return nullptr;
}

Safetensors parse_safetensors(std::span<const uint8_t> bytes, const std::string& file) {
  if (bytes.size() < kLengthBytes)
    fail(file, "header length", "the file has " + std::to_string(bytes.size()) + " bytes, too few for the 8 of the length");
  uint64_t length = 0;
  for (uint64_t i = 0; i < kLengthBytes; ++i) length |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  if (length > kLongestHeader)
    fail(file, "header length", std::to_string(length) + " is more than the " + std::to_string(kLongestHeader) + " allowed");
  if (length > bytes.size() - kLengthBytes)
    fail(file, "header length", std::to_string(length) + " reaches past the end of the file of " + std::to_string(bytes.size()) + " bytes");
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  if (!header.starts_with('{')) fail(file, "header", "does not begin with {");
  const std::span<const uint8_t> data = bytes.subspan(kLengthBytes + length);

  const nlohmann::json document = parse_json(header, file, "header");
  const Field top(document, file, "");
  Safetensors contents;
  std::vector<Entry> entries;
  for (const auto& [name, value] : document.items())
    if (name != "__metadata__")
      entries.push_back(read_entry(Field(value, file, name.substr(0, 60)), name, static_cast<int64_t>(data.size())));
  if (const std::optional<Field> metadata = top.find("__metadata__")) {
    if (!metadata->value().is_object()) metadata->fail("must be an object, is " + std::string(kind_of(metadata->value())));
    for (const auto& [key, value] : metadata->value().items()) {
      if (!value.is_string()) metadata->fail(in_quotes(key) + " must be a string, is " + std::string(kind_of(value)));
      contents.metadata[key] = value.get<std::string>();
    }
  }

  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  int64_t covered = 0;
  for (Entry& e : entries) {
    if (e.begin != covered)
      fail(file, e.tensor.name + ".data_offsets",
           "begin at " + std::to_string(e.begin) + ", where the tensors before it end at " + std::to_string(covered));
    covered = e.end;
    e.tensor.data = data.subspan(static_cast<size_t>(e.begin), static_cast<size_t>(e.end - e.begin));
    contents.tensors.push_back(std::move(e.tensor));
  }
  if (covered != static_cast<int64_t>(data.size()))
    fail(file, "data", std::to_string(data.size()) + " bytes follow the header, the tensors cover " + std::to_string(covered));
  return contents;
}

std::vector<uint8_t> safetensors_bytes(Safetensors contents) {
  std::sort(contents.tensors.begin(), contents.tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    const int64_t wa = element_bytes(a.dtype).value(), wb = element_bytes(b.dtype).value();
    return wa != wb ? wa > wb : a.name < b.name;
  });
  std::string header = "{";
  if (!contents.metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : contents.metadata) {
      if (header.back() != '{') header += ',';
      header += json_string(key) + ":" + json_string(value);
    }
    header += "}";
  }
  size_t at = 0;
  for (const StoredTensor& t : contents.tensors) {
    if (header.size() > 1) header += ',';
    header += json_string(t.name) + ":{\"dtype\":" + json_string(t.dtype) + ",\"shape\":[";
    for (size_t k = 0; k < t.shape.size(); ++k) {
      if (k > 0) header += ',';
      header += std::to_string(t.shape[k]);
    }
    header += "],\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(at + t.data.size()) + "]}";
    at += t.data.size();
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');

  std::vector<uint8_t> bytes;
  bytes.reserve(kLengthBytes + header.size() + at);
  for (uint64_t i = 0; i < kLengthBytes; ++i) bytes.push_back(static_cast<uint8_t>(header.size() >> (8 * i)));
  bytes.insert(bytes.end(), header.begin(), header.end());
  for (const StoredTensor& t : contents.tensors) bytes.insert(bytes.end(), t.data.begin(), t.data.end());
  return bytes;
}

}  // namespace attest
