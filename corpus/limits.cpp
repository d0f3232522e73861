#include "corpus/limits.h"

#include <algorithm>

namespace attest {
namespace {

// In double: products of four sizes leave 63 bits. A size of 0 counts as 1: who walks the other sizes of an empty
// operand shall not walk for ever, and no product of them overflows.
bool exceeds(const Layout& l, int64_t most) {
  double count = 1, last = static_cast<double>(l.offset);
  bool empty = false;
  for (size_t k = 0; k < 4; ++k) {
    const auto extent = static_cast<double>(l.extent[k]);
    count *= std::max(extent, 1.0);
    last += (extent - 1) * static_cast<double>(l.stride[k]);
    empty |= l.extent[k] == 0;
  }
  return count > static_cast<double>(most) || (!empty && last >= static_cast<double>(most));
}

}  // namespace

std::optional<std::string> check_reach(const Problem& p, int64_t most) {
  const struct { const char* name; const Layout* layout; } operands[] = {
      {"q", &p.q.layout}, {"k", &p.k.layout}, {"v", &p.v.layout}, {"bias", p.bias ? &p.bias->layout : nullptr},
      {"mask", p.mask ? &p.mask->layout : nullptr}, {"o", &p.o}, {"lse", &p.lse}};
  for (const auto& [name, layout] : operands)
    if (layout && exceeds(*layout, most))
      return std::string(name) + ": has or reaches more than " + std::to_string(most) + " elements, the most that a case file of this format and size may declare";
  return std::nullopt;
}

bool has_packed_layout(const std::array<int64_t, 4>& extent) {
  double stride = 1;
  for (size_t k = 3; k > 0; --k) stride *= static_cast<double>(extent[k]);
  // A 0 hides the products to its right.
  const double inner = static_cast<double>(extent[2]) * static_cast<double>(extent[3]);
  return std::max(stride, inner) <= 0x1p40;
}

}  // namespace attest
