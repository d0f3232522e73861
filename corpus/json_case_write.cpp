// Writes a case as JSON; corpus/format.md documents the fields.
#include <bit>
#include <functional>

#include "corpus/case_error.h"
#include "corpus/case_file.h"
#include "corpus/element_text.h"
#include "corpus/expected_json.h"
#include "corpus/json_text.h"
#include "corpus/limits.h"
#include "corpus/score_embedding.h"

namespace attest {
namespace {

using ElementText = std::function<std::string(int64_t index)>;  // JSON text of an element of storage

std::string json_element(DType type, uint32_t bits) {
  const std::string text = element_text(type, bits);
  return is_number_text(text) ? text : "\"" + text + "\"";
}

ElementText elements_of(const Tensor& t) {
  return [&t](int64_t index) { return json_element(t.type, t.bits(index)); };
}

template <class List>
std::string one_line(const List& list) {
  std::string text = "[";
  for (const auto& item : list) text += (text.size() > 1 ? ", " : "") + std::to_string(item);
  return text + "]";
}

// Lists of a packed operand, leading sizes of 1 left out, an innermost list on one line. `row` is its text.
class NestedWriter {
 public:
  NestedWriter(const std::array<int64_t, 4>& extent, std::function<std::string(int64_t first)> row) : extent_(extent), row_(std::move(row)) {}

  std::string text() {
    size_t first = 0;
    while (first < 2 && extent_[first] == 1) ++first;
    return level(first, 0, "  ");
  }

 private:
  std::string level(size_t k, int64_t index, const std::string& indent) {
    if (k == 3) return row_(index * extent_[3]);
    std::string text = "[";
    for (int64_t i = 0; i < extent_[k]; ++i)
      text += (i > 0 ? ",\n" : "\n") + indent + "  " + level(k + 1, index * extent_[k] + i, indent + "  ");
    return text + "\n" + indent + "]";
  }

  std::array<int64_t, 4> extent_;
  std::function<std::string(int64_t)> row_;
};

std::string list_row(const ElementText& element, int64_t first, int64_t count) {
  std::string text = "[";
  for (int64_t i = first; i < first + count; ++i) text += (i > first ? ", " : "") + element(i);
  return text + "]";
}

std::string nested(const std::array<int64_t, 4>& extent, const ElementText& element) {
  return NestedWriter(extent, [&](int64_t first) { return list_row(element, first, extent[3]); }).text();
}

bool is_packed(const Layout& l, size_t elements) {
  return has_packed_layout(l.extent) && l == Layout::packed(l.extent) && static_cast<int64_t>(elements) == l.count();
}

std::string strided(const Layout& l, size_t elements, const ElementText& element) {
  constexpr int64_t kPerLine = 16;
  std::string text = "{\n    \"extent\": " + one_line(l.extent) + ", \"stride\": " + one_line(l.stride) + ", \"offset\": " + std::to_string(l.offset) + ",\n    \"storage\": [";
  const auto count = static_cast<int64_t>(elements);
  for (int64_t i = 0; i < count; ++i) text += (i % kPerLine == 0 ? (i > 0 ? ",\n      " : "\n      ") : ", ") + element(i);
  return text + (count > 0 ? "\n    ]\n  }" : "]\n  }");
}

// An empty operand whose extents `shape` tells is an empty list.
std::string operand_text(const Tensor& t, bool extents_in_shape) {
  const size_t elements = t.storage.size() / static_cast<size_t>(size_of(t.type));
  if (!is_packed(t.layout, elements) || (elements == 0 && !extents_in_shape)) return strided(t.layout, elements, elements_of(t));
  return elements == 0 ? "[]" : nested(t.layout.extent, elements_of(t));
}

std::string mask_text(const BoolMask& mask) {
  const ElementText number = [&](int64_t index) { return std::to_string(mask.storage[static_cast<size_t>(index)]); };
  if (!is_packed(mask.layout, mask.storage.size()) || mask.storage.empty()) return strided(mask.layout, mask.storage.size(), number);
  for (uint8_t byte : mask.storage)
    if (byte > 1) return nested(mask.layout.extent, number);
  const int64_t width = mask.layout.extent[3];
  return NestedWriter(mask.layout.extent, [&](int64_t first) {
           std::string row = "\"";
           for (int64_t i = first; i < first + width; ++i) row += mask.storage[static_cast<size_t>(i)] ? '.' : 'x';
           return row + "\"";
         }).text();
}

std::string shape_text(const Shape& s) {
  const struct { const char* name; int64_t value; } sizes[] = {{"B", s.b}, {"Hq", s.hq}, {"Hk", s.hk}, {"Nq", s.nq}, {"Nk", s.nk}, {"D", s.d}, {"Dv", s.dv}};
  std::string text = "{";
  for (const auto& [name, value] : sizes) text += (text.size() > 1 ? ", " : "") + json_string(name) + ": " + std::to_string(value);
  return text + "}";
}

std::string window_text(const Window& w) {
  std::string text = "{";
  if (w.left) text += "\"left\": " + std::to_string(*w.left);
  if (w.right) text += std::string(w.left ? ", " : "") + "\"right\": " + std::to_string(*w.right);
  return text + "}";
}

std::string choice_text(const Choice& c) {
  std::string text;
  const auto add = [&](const char* name, const std::string& value) { text += (text.empty() ? "" : ", ") + json_string(name) + ": " + value; };
  if (c.tile_keys != 0) add("tile_keys", std::to_string(c.tile_keys));
  if (c.order != TileOrder::any) add("order", c.order == TileOrder::ascending ? "\"ascending\"" : "\"descending\"");
  if (c.splits != 0) add("splits", std::to_string(c.splits));
  if (c.p_type) add("p_type", json_string(std::string(name_of(*c.p_type))));
  return "{" + text + "}";
}

std::string origin_text(const Origin& o) {
  std::string text;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) text += (text.empty() ? "" : ", ") + json_string(name) + ": " + json_string(value);
  };
  add("regime", o.regime);
  add("values", o.values);
  add("mask", o.mask);
  add("note", o.note);
  return text.empty() ? "" : "{" + text + "}";
}

std::string output_text(const Layout& l) { return "{\"stride\": " + one_line(l.stride) + ", \"offset\": " + std::to_string(l.offset) + "}"; }

}  // namespace

std::string to_json(const Case& c) {
  const Problem& p = c.problem;
  if (const std::optional<std::string> wrong = check_reach(p, kElementsAlways)) fail("", "", *wrong + "; write it as .safetensors");
  if (const std::optional<std::string> wrong = validate(p)) fail("", "", *wrong);
  std::string text = "{\n  \"attest_case\": 1";
  const auto add = [&](const char* name, const std::string& value) { text += ",\n  " + json_string(name) + ": " + value; };
  const auto add_text = [&](const char* name, const std::string& value) {
    if (!value.empty()) add(name, json_string(value));
  };
  add_text("name", c.name);
  add_text("property", c.property);
  add_text("signature", c.signature);
  if (const std::string origin = origin_text(p.origin); !origin.empty()) add("origin", origin);
  add("type", json_string(std::string(name_of(p.type))));
  add("shape", shape_text(p.shape));
  add("scale", float_text(p.scale));
  if (p.softcap != 0) add("softcap", float_text(p.softcap));
  if (const std::optional<EmbeddedScores> scores = embedded_scores(p)) {
    const double unit = scores->unit;
    if (unit != 1) add("score_unit", shortest_decimal(unit, [&](double back) { return back == unit; }));  // read as it stands, not rounded to the type
    const ElementText element = [&](int64_t i) {
      const double score = scores->score[static_cast<size_t>(i)];
      const uint32_t stored = from_double(p.type, score / unit);
      return shortest_decimal(score, [&](double back) { return from_double(p.type, back / unit) == stored; });
    };
    add("scores", nested({p.shape.b, p.shape.hq, p.shape.nq, p.shape.nk}, element));
  } else {
    add("q", operand_text(p.q, true));
    add("k", operand_text(p.k, true));
  }
  add("values", operand_text(p.v, true));
  if (p.causal) add("causal", "true");
  if (p.window.left || p.window.right) add("window", window_text(p.window));
  if (p.key_lengths) add("key_lengths", one_line(*p.key_lengths));
  if (p.mask) add("mask", mask_text(*p.mask));
  if (p.bias) {
    add("bias_type", json_string(std::string(name_of(p.bias->type))));
    add("bias", operand_text(*p.bias, false));
  }
  if (p.sink) {
    const ElementText element = [&](int64_t i) { return json_element(DType::f32, std::bit_cast<uint32_t>((*p.sink)[static_cast<size_t>(i)])); };
    add("sink", list_row(element, 0, static_cast<int64_t>(p.sink->size())));
  }
  if (!has_packed_layout(p.o.extent) || p.o != Layout::packed(p.o.extent)) add("o_layout", output_text(p.o));
  if (!has_packed_layout(p.lse.extent) || p.lse != Layout::packed(p.lse.extent)) add("lse_layout", output_text(p.lse));
  if (p.choice != Choice{}) add("choice", choice_text(p.choice));
  if (c.expected) add("expected", expected_text(*c.expected, "  "));
  return text + "\n}\n";
}

}  // namespace attest
