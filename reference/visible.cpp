#include "reference/visible.h"

#include <algorithm>

namespace attest {

void visible_keys(const Problem& p, const Conventions& conventions, int64_t b, int64_t h, int64_t i,
                  std::vector<int64_t>& keys) {
  keys.clear();
  const int64_t length = p.key_lengths ? (*p.key_lengths)[static_cast<size_t>(b)] : p.shape.nk;
  // The query's position among the keys: aligned at the last key (bottom right) or at the first.
  const int64_t position = conventions.causal_top_left ? i : i + length - p.shape.nq;
  int64_t first = 0, last = length - 1;
  if (p.causal) last = std::min(last, position);
  if (p.window.left && *p.window.left < position) first = std::max(first, position - *p.window.left);
  if (p.window.right && *p.window.right < last - position) last = position + *p.window.right;
  for (int64_t j = first; j <= last; ++j)
    if (!p.mask || p.mask->storage[static_cast<size_t>(broadcast_at(p.mask->layout, b, h, i, j))] != 0) keys.push_back(j);
}

}  // namespace attest
