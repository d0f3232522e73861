// Reads and writes a case as .safetensors; corpus/format.md documents tensors and metadata.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "corpus/case_error.h"
#include "corpus/case_fields.h"
#include "corpus/case_file.h"
#include "corpus/element_text.h"
#include "corpus/expected_json.h"
#include "corpus/json_document.h"
#include "corpus/limits.h"
#include "corpus/safetensors.h"

namespace attest {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is little endian and is copied as it is");

constexpr int64_t kLargestSize = int64_t{1} << 31;
constexpr int64_t kLargestStride = int64_t{1} << 40;

std::string dtype_of(DType type) { return type == DType::f32 ? "F32" : type == DType::f16 ? "F16" : "BF16"; }

class Reader {
 public:
  Reader(const Safetensors& contents, const std::string& file, int64_t file_bytes) : contents_(contents), file_(file), file_bytes_(file_bytes) {}

  Case read() {
    refuse_unknown_names();
    Case c;
    Problem& p = c.problem;
    if (const std::string* version = metadata("attest_case"); version && *version != "1")
      bad("attest_case", "version " + in_quotes(*version) + " is not known, only 1 is");
    c.name = text("name");
    c.property = text("property");
    c.signature = text("signature");
    p.origin = {text("regime"), text("values"), text("mask_family"), text("note")};

    p.type = element_type(needed("q"));
    p.q = tensor(needed("q"));
    p.k = tensor(needed("k"));
    p.v = tensor(needed("v"));
    p.shape = {p.q.layout.extent[0], p.q.layout.extent[1], p.k.layout.extent[1], p.q.layout.extent[2],
               p.k.layout.extent[2], p.q.layout.extent[3], p.v.layout.extent[3]};
    if (const StoredTensor* t = contents_.find("bias")) p.bias = tensor(*t);
    if (const StoredTensor* t = contents_.find("mask")) p.mask = mask(*t);
    if (const StoredTensor* t = contents_.find("key_lengths")) p.key_lengths = key_lengths(*t);
    if (const StoredTensor* t = contents_.find("sink")) p.sink = sink(*t);
    const Shape& s = p.shape;
    p.o = output_layout("layout.o", {s.b, s.hq, s.nq, s.dv});
    p.lse = output_layout("layout.lse", {s.b, s.hq, s.nq, 1});
    // Before validate() takes products of sizes in 64 bits.
    const int64_t most = std::max(kElementsAlways, kElementsPerByte * file_bytes_);
    if (const std::optional<std::string> wrong = check_reach(p, most)) fail(file_, "", *wrong);

    const std::string* scale = metadata("scale");
    if (scale && *scale != "default") p.scale = number("scale", *scale);
    else if (s.d >= 1) p.scale = default_scale(s.d);
    if (const std::string* m = metadata("softcap")) p.softcap = number("softcap", *m);
    if (const std::string* m = metadata("causal")) p.causal = boolean("causal", *m);
    if (const std::string* m = metadata("window_left")) p.window.left = whole("window_left", *m, INT64_MAX);
    if (const std::string* m = metadata("window_right")) p.window.right = whole("window_right", *m, INT64_MAX);
    if (const std::string* m = metadata("tile_keys")) p.choice.tile_keys = whole("tile_keys", *m, INT64_MAX);
    if (const std::string* m = metadata("splits")) p.choice.splits = static_cast<int32_t>(whole("splits", *m, INT32_MAX));
    if (const std::string* m = metadata("order")) {
      if (*m == "ascending") p.choice.order = TileOrder::ascending;
      else if (*m == "descending") p.choice.order = TileOrder::descending;
      else if (*m != "any") bad("order", "unknown order " + in_quotes(*m) + ", known are any, ascending, descending");
    }
    if (const std::string* m = metadata("p_type")) {
      p.choice.p_type = dtype_from_name(*m);
      if (!p.choice.p_type) bad("p_type", "unknown type " + in_quotes(*m) + ", known are f32, f16, bf16");
    }
    if (const std::string* m = metadata("expected")) {
      const nlohmann::json document = parse_json(*m, file_, "metadata expected");
      c.expected = read_expected(Field(document, file_, "metadata expected"));
    }
    if (const std::optional<std::string> wrong = validate(p)) fail(file_, "", *wrong);
    return c;
  }

 private:
  [[noreturn]] void bad(const char* key, const std::string& what) const { fail(file_, std::string("metadata ") + key, what); }

  void refuse_unknown_names() const {
    for (const StoredTensor& t : contents_.tensors)
      if (std::find(std::begin(kTensorNames), std::end(kTensorNames), t.name) == std::end(kTensorNames))
        fail(file_, "", "unknown tensor " + in_quotes(t.name) + ", known are q, k, v, bias, mask, key_lengths, sink");
    for (const auto& [key, value] : contents_.metadata)
      if (std::find(std::begin(kMetadataKeys), std::end(kMetadataKeys), key) == std::end(kMetadataKeys))
        fail(file_, "metadata", "unknown field " + in_quotes(key));
  }

  const std::string* metadata(const char* key) const {
    const auto it = contents_.metadata.find(key);
    return it == contents_.metadata.end() ? nullptr : &it->second;
  }
  std::string text(const char* key) const {
    const std::string* m = metadata(key);
    return m ? *m : "";
  }
  float number(const char* key, const std::string& m) const {
    if (const std::optional<float> value = float_from_text(m)) return *value;
    bad(key, in_quotes(m) + " is no finite number that f32 holds");
  }
  int64_t whole(const char* key, const std::string& m, int64_t most) const {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(m.data(), m.data() + m.size(), value);
    if (error != std::errc{} || end != m.data() + m.size() || value < 0 || value > most)
      bad(key, in_quotes(m) + " is no whole number from 0 to " + std::to_string(most));
    return value;
  }
  // Python writes str(True).
  bool boolean(const char* key, const std::string& m) const {
    if (m == "true" || m == "True" || m == "1") return true;
    if (m == "false" || m == "False" || m == "0") return false;
    bad(key, in_quotes(m) + " is neither true nor false");
  }

  const StoredTensor& needed(const char* name) const {
    if (const StoredTensor* t = contents_.find(name)) return *t;
    fail(file_, name, "tensor is missing");
  }
  [[noreturn]] void bad_dtype(const StoredTensor& t, const char* expected) const { fail(file_, t.name + ".dtype", "is " + t.dtype + ", must be " + expected); }

  DType element_type(const StoredTensor& t) const {
    if (t.dtype == "F32") return DType::f32;
    if (t.dtype == "F16") return DType::f16;
    if (t.dtype == "BF16") return DType::bf16;
    bad_dtype(t, "F32, F16 or BF16");
  }

  // Packed, missing leading sizes are 1; or, with a layout in the metadata, one dimension of storage.
  Layout layout(const StoredTensor& t) const {
    const std::string key = "layout." + t.name;
    if (const std::string* m = metadata(key.c_str())) {
      if (t.shape.size() != 1) fail(file_, t.name + ".shape", "must have one dimension, the storage, because metadata " + key + " gives the layout");
      return read_layout(key, *m, std::nullopt);
    }
    if (t.shape.empty() || t.shape.size() > 4) fail(file_, t.name + ".shape", "has " + std::to_string(t.shape.size()) + " dimensions, must have 1 to 4");
    std::array<int64_t, 4> extent{1, 1, 1, 1};
    for (size_t k = 0; k < t.shape.size(); ++k) {
      if (t.shape[k] > kLargestSize) fail(file_, t.name + ".shape", std::to_string(t.shape[k]) + " is more than 2^31");
      extent[4 - t.shape.size() + k] = t.shape[k];
    }
    return packed(t.name + ".shape", extent);
  }

  Layout packed(const std::string& field, const std::array<int64_t, 4>& extent) const {
    if (!has_packed_layout(extent)) fail(file_, field, "the product of its sizes is too large");
    return Layout::packed(extent);
  }

  // `extent` is read from the text unless it is given.
  Layout read_layout(const std::string& key, const std::string& m, std::optional<std::array<int64_t, 4>> extent) const {
    const nlohmann::json document = parse_json(m, file_, "metadata " + key);
    const Field field(document, file_, "metadata " + key);
    const auto four = [&](const char* name, int64_t most) {
      const Field list = field.at(name);
      if (list.size() != 4) list.fail("must have 4 numbers, has " + std::to_string(list.size()));
      std::array<int64_t, 4> values{};
      for (size_t k = 0; k < 4; ++k) values[k] = list.item(k).integer(0, most);
      return values;
    };
    if (extent) field.only({"stride", "offset"});
    else field.only({"extent", "stride", "offset"});
    Layout l;
    l.extent = extent ? *extent : four("extent", kLargestSize);
    l.stride = four("stride", kLargestStride);
    l.offset = field.at("offset").integer(0, kLargestStride);
    return l;
  }

  Layout output_layout(const char* key, const std::array<int64_t, 4>& extent) const {
    const std::string* m = metadata(key);
    return m ? read_layout(key, *m, extent) : packed(key, extent);
  }

  Tensor tensor(const StoredTensor& t) const {
    Tensor out;
    out.type = element_type(t);
    out.layout = layout(t);
    out.storage.assign(t.data.begin(), t.data.end());
    return out;
  }

  BoolMask mask(const StoredTensor& t) const {
    if (t.dtype != "U8" && t.dtype != "BOOL") bad_dtype(t, "U8 or BOOL");
    BoolMask out;
    out.layout = layout(t);
    out.storage.assign(t.data.begin(), t.data.end());
    return out;
  }

  // Integers of Python have 64 bits, those of the contract 32.
  std::vector<int32_t> key_lengths(const StoredTensor& t) const {
    if (t.shape.size() != 1) fail(file_, "key_lengths.shape", "must have one dimension");
    std::vector<int32_t> lengths;
    if (t.dtype == "I32") {
      lengths.resize(t.data.size() / 4);
      if (!lengths.empty()) std::memcpy(lengths.data(), t.data.data(), t.data.size());
    } else if (t.dtype == "I64") {
      for (size_t i = 0; i < t.data.size() / 8; ++i) {
        int64_t length = 0;
        std::memcpy(&length, t.data.data() + 8 * i, 8);
        if (length < 0 || length > INT32_MAX) fail(file_, "key_lengths", std::to_string(length) + " is out of range");
        lengths.push_back(static_cast<int32_t>(length));
      }
    } else {
      bad_dtype(t, "I32 or I64");
    }
    return lengths;
  }

  std::vector<float> sink(const StoredTensor& t) const {
    if (t.dtype != "F32") bad_dtype(t, "F32");
    if (t.shape.size() != 1) fail(file_, "sink.shape", "must have one dimension");
    std::vector<float> values(t.data.size() / 4);
    if (!values.empty()) std::memcpy(values.data(), t.data.data(), t.data.size());
    return values;
  }

  const Safetensors& contents_;
  const std::string& file_;
  int64_t file_bytes_;
};

template <class T>
std::span<const uint8_t> bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)};
}

std::string layout_text(const Layout& l, bool with_extent) {
  nlohmann::ordered_json json;
  if (with_extent) json["extent"] = l.extent;
  json["stride"] = l.stride;
  json["offset"] = l.offset;
  return json.dump();
}

class Writer {
 public:
  std::vector<uint8_t> write(const Case& c) {
    const Problem& p = c.problem;
    put("attest_case", "1");
    put("name", c.name);
    put("property", c.property);
    put("signature", c.signature);
    put("regime", p.origin.regime);
    put("values", p.origin.values);
    put("mask_family", p.origin.mask);
    put("note", p.origin.note);
    put("scale", float_text(p.scale));
    if (p.softcap != 0) put("softcap", float_text(p.softcap));
    if (p.causal) put("causal", "true");
    if (p.window.left) put("window_left", std::to_string(*p.window.left));
    if (p.window.right) put("window_right", std::to_string(*p.window.right));
    if (p.choice.tile_keys != 0) put("tile_keys", std::to_string(p.choice.tile_keys));
    if (p.choice.order != TileOrder::any) put("order", p.choice.order == TileOrder::ascending ? "ascending" : "descending");
    if (p.choice.splits != 0) put("splits", std::to_string(p.choice.splits));
    if (p.choice.p_type) put("p_type", std::string(name_of(*p.choice.p_type)));
    if (c.expected) put("expected", expected_text(*c.expected, ""));
    operand("q", dtype_of(p.q.type), size_of(p.q.type), p.q.layout, p.q.storage);
    operand("k", dtype_of(p.k.type), size_of(p.k.type), p.k.layout, p.k.storage);
    operand("v", dtype_of(p.v.type), size_of(p.v.type), p.v.layout, p.v.storage);
    if (p.bias) operand("bias", dtype_of(p.bias->type), size_of(p.bias->type), p.bias->layout, p.bias->storage);
    if (p.mask) operand("mask", "U8", 1, p.mask->layout, p.mask->storage);
    if (p.key_lengths) contents_.tensors.push_back({"key_lengths", "I32", {p.shape.b}, bytes_of(*p.key_lengths)});
    if (p.sink) contents_.tensors.push_back({"sink", "F32", {p.shape.hq}, bytes_of(*p.sink)});
    output("layout.o", p.o);
    output("layout.lse", p.lse);
    return safetensors_bytes(std::move(contents_));
  }

 private:
  void put(const char* key, const std::string& value) {
    if (!value.empty()) contents_.metadata[key] = value;
  }

  void operand(const char* name, const std::string& dtype, int64_t width, const Layout& l, const std::vector<uint8_t>& storage) {
    const auto elements = static_cast<int64_t>(storage.size()) / width;
    if (has_packed_layout(l.extent) && l == Layout::packed(l.extent) && elements == l.count()) {
      contents_.tensors.push_back({name, dtype, {l.extent.begin(), l.extent.end()}, storage});
      return;
    }
    contents_.tensors.push_back({name, dtype, {elements}, storage});
    contents_.metadata[std::string("layout.") + name] = layout_text(l, true);
  }
  void output(const char* key, const Layout& l) {
    if (!has_packed_layout(l.extent) || l != Layout::packed(l.extent)) contents_.metadata[key] = layout_text(l, false);
  }

  Safetensors contents_;
};

}  // namespace

Case parse_safetensors_case(std::span<const uint8_t> bytes, const std::string& name) {
  const Safetensors contents = parse_safetensors(bytes, name);
  return Reader(contents, name, static_cast<int64_t>(bytes.size())).read();
}

std::vector<uint8_t> to_safetensors(const Case& c) {
  // Whatever its own size, so that products of sizes below stay in 64 bits; the file's size is checked at the end.
  if (const std::optional<std::string> wrong = check_reach(c.problem, int64_t{1} << 40)) fail("", "", *wrong);
  if (const std::optional<std::string> wrong = validate(c.problem)) fail("", "", *wrong);
  std::vector<uint8_t> bytes = Writer().write(c);
  const int64_t most = std::max(kElementsAlways, kElementsPerByte * static_cast<int64_t>(bytes.size()));
  if (const std::optional<std::string> wrong = check_reach(c.problem, most)) fail("", "", *wrong);
  return bytes;
}

}  // namespace attest
