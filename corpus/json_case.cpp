// Reads a case from JSON; corpus/format.md documents the fields.
#include <algorithm>
#include <bit>
#include <cmath>

#include "corpus/case_error.h"
#include "corpus/case_fields.h"
#include "corpus/case_file.h"
#include "corpus/element_text.h"
#include "corpus/expected_json.h"
#include "corpus/json_document.h"
#include "corpus/limits.h"
#include "corpus/nested_list.h"
#include "corpus/score_embedding.h"

namespace attest {
namespace {

constexpr int64_t kLargestSize = int64_t{1} << 31;
constexpr int64_t kLargestStride = int64_t{1} << 40;

DType read_type(const Field& field) {
  const std::string name = field.text();
  const std::optional<DType> type = dtype_from_name(name);
  if (!type) field.fail("unknown type " + in_quotes(name) + ", known are f32, f16, bf16");
  return *type;
}

uint32_t read_element(const Field& field, DType type) {
  if (field.value().is_string()) {
    const std::string text = field.text();
    if (const std::optional<uint32_t> bits = element_from_text(type, text)) return *bits;
    field.fail(in_quotes(text) + " is neither inf, -inf, nan nor the bits of a " + std::string(name_of(type)) + " in hexadecimal");
  }
  const double value = field.number();
  if (const std::optional<uint32_t> bits = element_from_number(type, value)) return *bits;
  field.fail(field.value().dump() + " is too large for " + std::string(name_of(type)));
}

float read_float(const Field& field) { return std::bit_cast<float>(read_element(field, DType::f32)); }

float read_finite_float(const Field& field) {
  field.number();  // the words inf and nan are refused with what was expected
  return read_float(field);
}

std::array<int64_t, 4> read_four(const Field& field, int64_t most) {
  if (field.size() != 4) field.fail("must have 4 numbers, has " + std::to_string(field.size()));
  std::array<int64_t, 4> four{};
  for (size_t k = 0; k < 4; ++k) four[k] = field.item(k).integer(0, most);
  return four;
}

void read_stride_and_offset(const Field& field, Layout& layout) {
  layout.stride = read_four(field.at("stride"), kLargestStride);
  layout.offset = 0;
  if (auto f = field.find("offset")) layout.offset = f->integer(0, kLargestStride);
}

// Row-major; an error where a stride would leave the contract's range, which only an empty layout can do.
Layout packed(const Field& field, std::array<int64_t, 4> extent) {
  if (!has_packed_layout(extent)) field.fail("shape: its sizes are too large");
  return Layout::packed(extent);
}

// Sizes are learnt from the lists and from `shape`; the two must agree.
class Sizes {
 public:
  explicit Sizes(const Field& top) : top_(top) {
    const std::optional<Field> shape = top.find("shape");
    if (!shape) return;
    shape->only({"B", "Hq", "Hk", "Nq", "Nk", "D", "Dv"});
    for (size_t k = 0; k < kCount; ++k)
      if (auto f = shape->find(kNames[k])) value_[k] = f->integer(k < kD ? 0 : 1, kLargestSize);
  }

  enum Which : size_t { kB, kHq, kHk, kNq, kNk, kD, kDv, kCount };

  bool known(Which which) const { return value_[which].has_value(); }
  int64_t get(Which which) const {
    if (!value_[which]) top_.fail("shape: " + std::string(kNames[which]) + " is missing and no list tells it");
    return *value_[which];
  }
  void learn(const Field& field, Which which, int64_t value) {
    if (value_[which] && *value_[which] != value)
      field.fail(std::string(kNames[which]) + " is " + std::to_string(value) + " here and " + std::to_string(*value_[which]) + " elsewhere");
    value_[which] = value;
  }
  Shape shape() const { return {get(kB), get(kHq), get(kHk), get(kNq), get(kNk), get(kD), get(kDv)}; }

 private:
  static constexpr const char* kNames[kCount] = {"B", "Hq", "Hk", "Nq", "Nk", "D", "Dv"};
  const Field& top_;
  std::array<std::optional<int64_t>, kCount> value_;
};

// Nested lists, or an object with extent, stride, offset and the whole storage.
Tensor read_tensor(const Field& field, DType type) {
  const auto leaf = [type](const Field& f) { return read_element(f, type); };
  Tensor t;
  t.type = type;
  std::vector<uint32_t> elements;
  if (field.value().is_object()) {
    field.only({"extent", "stride", "offset", "storage"});
    t.layout.extent = read_four(field.at("extent"), kLargestSize);
    read_stride_and_offset(field, t.layout);
    const Field storage = field.at("storage");
    for (size_t i = 0; i < storage.size(); ++i) elements.push_back(leaf(storage.item(i)));
  } else {
    NestedList<uint32_t> list = NestedReader<uint32_t>(leaf).read(field);
    t.layout = Layout::packed(list.extent);
    elements = std::move(list.elements);
  }
  t.storage.resize(elements.size() * static_cast<size_t>(size_of(type)));
  for (size_t i = 0; i < elements.size(); ++i) t.set_bits(static_cast<int64_t>(i), elements[i]);
  return t;
}

// A tensor with four sizes of its own. An empty list tells none of them: they stand in `shape`.
Tensor read_operand(const Field& field, DType type, Sizes& sizes, std::array<Sizes::Which, 4> which) {
  Tensor t = read_tensor(field, type);
  if (field.value().is_array() && t.storage.empty()) {
    std::array<int64_t, 4> extent{};
    bool empty = false;
    for (size_t k = 0; k < 4; ++k) {
      extent[k] = sizes.get(which[k]);
      empty |= extent[k] == 0;
    }
    if (!empty) field.fail("is empty, but no size in shape is 0");
    t.layout = packed(field, extent);
    return t;
  }
  for (size_t k = 0; k < 4; ++k) sizes.learn(field, which[k], t.layout.extent[k]);
  return t;
}

double read_score(const Field& field) {
  if (!field.value().is_number()) field.fail("must be a finite number; other scores need q and k");
  return field.number();
}

void read_scores(const Field& top, Problem& p, Sizes& sizes) {
  for (const char* other : {"q", "k"})
    if (auto f = top.find(other)) f->fail("is given beside scores, which stand for q and k");
  const Field field = top.at("scores");
  EmbeddedScores scores;
  NestedList<double> list = NestedReader<double>(read_score).read(field);
  scores.score = std::move(list.elements);
  sizes.learn(field, Sizes::kB, list.extent[0]);
  sizes.learn(field, Sizes::kHq, list.extent[1]);
  sizes.learn(field, Sizes::kNq, list.extent[2]);
  sizes.learn(field, Sizes::kNk, list.extent[3]);
  p.v = read_operand(top.at("values"), p.type, sizes, {Sizes::kB, Sizes::kHk, Sizes::kNk, Sizes::kDv});

  const int64_t hq = sizes.get(Sizes::kHq), hk = sizes.get(Sizes::kHk);
  if (hk == 0 || hq % hk != 0) field.fail("Hq = " + std::to_string(hq) + " is no multiple of Hk = " + std::to_string(hk));
  // Both factors are at most 2^31.
  const int64_t needed = hq / hk * sizes.get(Sizes::kNq);
  if (!sizes.known(Sizes::kD)) sizes.learn(field, Sizes::kD, std::max<int64_t>(needed, 1));
  if (sizes.get(Sizes::kD) < needed)
    field.fail("D = " + std::to_string(sizes.get(Sizes::kD)) + " is too small: one column for each of " + std::to_string(needed) + " rows is needed");
  p.shape = sizes.shape();
  const double width = static_cast<double>(p.shape.d), batches = static_cast<double>(p.shape.b);
  const double elements = width * batches * (static_cast<double>(hq) * static_cast<double>(p.shape.nq) + static_cast<double>(hk) * static_cast<double>(p.shape.nk));
  const int64_t most = most_embedded_elements(static_cast<int64_t>(scores.score.size()));
  if (elements > static_cast<double>(most))
    field.fail("q and k would have more than " + std::to_string(most) + " elements; give q and k, or use .safetensors");

  if (auto f = top.find("score_unit")) {
    scores.unit = to_double(p.type, read_element(*f, p.type));
    int exponent = 0;
    if (!(scores.unit > 0) || std::frexp(scores.unit, &exponent) != 0.5 || scores.unit != f->number())
      f->fail("must be a power of two that " + std::string(name_of(p.type)) + " holds");
  }
  if (const std::optional<size_t> at = embed_scores(p, scores))
    field.fail("score number " + std::to_string(*at) + " divided by score_unit is too large for " + std::string(name_of(p.type)));
}

void read_mask_row(const Field& field, std::vector<uint8_t>& elements) {
  for (char c : field.text()) {
    if (c != 'x' && c != '.') field.fail(in_quotes(field.text()) + " must consist of x (masked) and . (visible)");
    elements.push_back(c == '.');
  }
}

uint8_t read_mask_element(const Field& field) {
  if (field.value().is_boolean()) return field.boolean();
  return static_cast<uint8_t>(field.integer(0, 255));
}

BoolMask read_mask(const Field& field) {
  BoolMask mask;
  if (field.value().is_object()) {
    field.only({"extent", "stride", "offset", "storage"});
    mask.layout.extent = read_four(field.at("extent"), kLargestSize);
    read_stride_and_offset(field, mask.layout);
    const Field storage = field.at("storage");
    for (size_t i = 0; i < storage.size(); ++i) mask.storage.push_back(read_mask_element(storage.item(i)));
  } else {
    NestedList<uint8_t> list = NestedReader<uint8_t>(read_mask_element, read_mask_row).read(field);
    mask.layout = Layout::packed(list.extent);
    mask.storage = std::move(list.elements);
  }
  return mask;
}

Window read_window(const Field& field) {
  field.only({"left", "right"});
  Window window;
  const auto side = [&](const char* name, std::optional<int64_t>& to) {
    const std::optional<Field> f = field.find(name);
    if (f && !f->value().is_null()) to = f->integer(0, INT64_MAX);
  };
  side("left", window.left);
  side("right", window.right);
  return window;
}

Choice read_choice(const Field& field) {
  field.only({"tile_keys", "order", "splits", "p_type"});
  Choice choice;
  if (auto f = field.find("tile_keys")) choice.tile_keys = f->integer(0, INT64_MAX);
  if (auto f = field.find("order")) {
    const std::string order = f->text();
    if (order == "ascending") choice.order = TileOrder::ascending;
    else if (order == "descending") choice.order = TileOrder::descending;
    else if (order != "any") f->fail("unknown order " + in_quotes(order) + ", known are any, ascending, descending");
  }
  if (auto f = field.find("splits")) choice.splits = static_cast<int32_t>(f->integer(0, INT32_MAX));
  if (auto f = field.find("p_type")) choice.p_type = read_type(*f);
  return choice;
}

Origin read_origin(const Field& field) {
  field.only({"regime", "values", "mask", "note"});
  Origin origin;
  if (auto f = field.find("regime")) origin.regime = f->text();
  if (auto f = field.find("values")) origin.values = f->text();
  if (auto f = field.find("mask")) origin.mask = f->text();
  if (auto f = field.find("note")) origin.note = f->text();
  return origin;
}

// Extents are the problem's; packed where the file says nothing.
Layout read_output_layout(const Field& top, const char* name, std::array<int64_t, 4> extent) {
  const std::optional<Field> field = top.find(name);
  if (!field) return packed(top, extent);
  field->only({"stride", "offset"});
  Layout layout;
  layout.extent = extent;
  read_stride_and_offset(*field, layout);
  return layout;
}

}  // namespace

Case parse_json_case(std::string_view text, const std::string& name) {
  const nlohmann::json document = parse_json(text, name, "");
  const Field top(document, name, "");
  top.only(kJsonFields);
  top.at("attest_case").integer(1, 1);
  Case c;
  Problem& p = c.problem;
  if (auto f = top.find("name")) c.name = f->text();
  if (auto f = top.find("property")) c.property = f->text();
  if (auto f = top.find("signature")) c.signature = f->text();
  if (auto f = top.find("origin")) p.origin = read_origin(*f);
  p.type = read_type(top.at("type"));

  Sizes sizes(top);
  if (top.find("scores")) {
    read_scores(top, p, sizes);
  } else {
    if (auto f = top.find("score_unit")) f->fail("is given without scores");
    p.q = read_operand(top.at("q"), p.type, sizes, {Sizes::kB, Sizes::kHq, Sizes::kNq, Sizes::kD});
    p.k = read_operand(top.at("k"), p.type, sizes, {Sizes::kB, Sizes::kHk, Sizes::kNk, Sizes::kD});
    p.v = read_operand(top.at("values"), p.type, sizes, {Sizes::kB, Sizes::kHk, Sizes::kNk, Sizes::kDv});
    p.shape = sizes.shape();
  }

  if (auto f = top.find("mask")) p.mask = read_mask(*f);
  if (auto f = top.find("bias_type"); f && !top.find("bias")) f->fail("is given without bias");
  if (auto f = top.find("bias")) {
    const auto type = top.find("bias_type");
    p.bias = read_tensor(*f, type ? read_type(*type) : DType::f32);
  }
  const Shape& s = p.shape;
  p.o = read_output_layout(top, "o_layout", {s.b, s.hq, s.nq, s.dv});
  p.lse = read_output_layout(top, "lse_layout", {s.b, s.hq, s.nq, 1});
  // Before validate() takes products of sizes in 64 bits.
  if (const std::optional<std::string> wrong = check_reach(p, kElementsAlways)) fail(name, "", *wrong);

  p.scale = default_scale(s.d);
  if (auto f = top.find("scale"); f && !(f->value().is_string() && f->text() == "default")) {
    if (!f->value().is_number()) f->fail("must be a number or \"default\"");
    p.scale = read_finite_float(*f);
  }
  if (auto f = top.find("softcap")) p.softcap = read_finite_float(*f);
  if (auto f = top.find("causal")) p.causal = f->boolean();
  if (auto f = top.find("window")) p.window = read_window(*f);
  if (auto f = top.find("key_lengths")) {
    p.key_lengths.emplace();
    for (size_t i = 0; i < f->size(); ++i) p.key_lengths->push_back(static_cast<int32_t>(f->item(i).integer(0, INT32_MAX)));
  }
  if (auto f = top.find("sink")) {
    p.sink.emplace();
    for (size_t i = 0; i < f->size(); ++i) p.sink->push_back(read_float(f->item(i)));
  }
  if (auto f = top.find("choice")) p.choice = read_choice(*f);
  if (auto f = top.find("expected")) c.expected = read_expected(*f);

  if (const std::optional<std::string> wrong = validate(p)) fail(name, "", *wrong);
  return c;
}

}  // namespace attest
