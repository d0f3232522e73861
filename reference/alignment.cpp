#include "reference/alignment.h"

#include <algorithm>
#include <numeric>

namespace attest {

std::vector<Alignment> alignment_class(const Problem& p) {
  std::vector<Alignment> out;
  const auto add = [&](const Layout& l, int64_t size) {
    Alignment a;
    a.all = a.used = std::gcd(int64_t{16}, l.offset * size);
    for (size_t k = 0; k < 3; ++k) {
      const int64_t here = std::gcd(int64_t{16}, l.stride[k] * size);  // gcd(16, 0) = 16: broadcast costs nothing
      a.all = std::min(a.all, here);
      if (l.extent[k] > 1) a.used = std::min(a.used, here);
    }
    out.push_back(a);
  };
  add(p.q.layout, size_of(p.type));
  add(p.k.layout, size_of(p.type));
  add(p.v.layout, size_of(p.type));
  add(p.o, size_of(p.type));
  if (p.bias) add(p.bias->layout, size_of(p.bias->type));
  return out;
}

}  // namespace attest
