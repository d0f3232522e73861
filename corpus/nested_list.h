// nested_list.h: rectangular nested lists of JSON, as rank-4 operands.
//
// A list of rank 1 to 4; missing leading sizes are 1. `elements` holds the leaves in order, or, for a mask, the
// characters of its row strings. Errors name the element: "values[3]: has 1 items, its neighbours have 2".
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "corpus/json_document.h"

namespace attest {

template <class Element>
struct NestedList {
  std::array<int64_t, 4> extent{1, 1, 1, 1};
  std::vector<Element> elements;  // empty: some size is 0, and sizes inside an empty list are not known
};

// Walks the lists; `leaf` converts what is no list. Where `row` is given, a string stands for a whole innermost list,
// and `row` appends its elements.
template <class Element>
class NestedReader {
 public:
  using Leaf = std::function<Element(const Field&)>;
  using Row = std::function<void(const Field&, std::vector<Element>&)>;

  explicit NestedReader(Leaf leaf, Row row = {}) : leaf_(std::move(leaf)), row_(std::move(row)) {}

  NestedList<Element> read(const Field& field) {
    walk(field, 0);
    const size_t rank = sizes_.size();
    for (size_t k = 0; k < rank; ++k) list_.extent[4 - rank + k] = sizes_[k].value_or(0);
    return std::move(list_);
  }

 private:
  static constexpr size_t kHighestRank = 4;

  void walk(const Field& field, size_t depth) {
    const bool is_row = row_ && field.value().is_string();
    if (!is_row && !field.value().is_array()) {
      if (depth == 0) field.fail("must be a list, is " + std::string(kind_of(field.value())));
      if (depth < sizes_.size() || (leaf_depth_ && *leaf_depth_ != depth)) field.fail("must be a list like its neighbours, is " + std::string(kind_of(field.value())));
      leaf_depth_ = depth;
      list_.elements.push_back(leaf_(field));
      return;
    }
    if (depth >= kHighestRank) field.fail("nested more than 4 deep");
    if (leaf_depth_ && depth >= *leaf_depth_) field.fail("must be a number like its neighbours, is a list");
    if (sizes_.size() <= depth) sizes_.resize(depth + 1);
    const size_t before = list_.elements.size();
    if (is_row) {
      if (leaf_depth_ && *leaf_depth_ != depth + 1) field.fail("must be a list like its neighbours, is a string");
      row_(field, list_.elements);
      leaf_depth_ = depth + 1;
    }
    const auto size = static_cast<int64_t>(is_row ? list_.elements.size() - before : field.size());
    if (!sizes_[depth]) sizes_[depth] = size;
    if (*sizes_[depth] != size)
      field.fail("has " + std::to_string(size) + " items, its neighbours have " + std::to_string(*sizes_[depth]));
    if (!is_row)
      for (size_t i = 0; i < field.size(); ++i) walk(field.item(i), depth + 1);
  }

  Leaf leaf_;
  Row row_;
  NestedList<Element> list_;
  std::vector<std::optional<int64_t>> sizes_;  // by depth
  std::optional<size_t> leaf_depth_;
};

}  // namespace attest
