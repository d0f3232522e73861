#include "properties/generate/layouts.h"

#include <algorithm>

namespace attest {

namespace {

template <class Copy>
void each_element(const Layout& from, const Layout& to, Copy copy) {
  for (int64_t i0 = 0; i0 < to.extent[0]; ++i0)
    for (int64_t i1 = 0; i1 < to.extent[1]; ++i1)
      for (int64_t i2 = 0; i2 < to.extent[2]; ++i2) {
        // A broadcast dimension stores index 0 only.
        if ((i0 && !to.stride[0]) || (i1 && !to.stride[1]) || (i2 && !to.stride[2])) continue;
        copy(from.at(i0, i1, i2, 0), to.at(i0, i1, i2, 0));
      }
}

}  // namespace

Tensor relayout(const Tensor& t, const Layout& layout) {
  Tensor out{t.type, layout, {}};
  const size_t size = static_cast<size_t>(size_of(t.type));
  out.storage.assign(static_cast<size_t>(layout.span()) * size, uint8_t{0xFF});
  if (layout.count() == 0) return out;
  each_element(t.layout, layout, [&](int64_t from, int64_t to) {
    std::memcpy(out.storage.data() + static_cast<size_t>(to) * size,
                t.storage.data() + static_cast<size_t>(from) * size, static_cast<size_t>(layout.extent[3]) * size);
  });
  return out;
}

BoolMask relayout(const BoolMask& m, const Layout& layout) {
  BoolMask out{layout, {}};
  out.storage.assign(static_cast<size_t>(layout.span()), uint8_t{0xFF});
  if (layout.count() == 0) return out;
  each_element(m.layout, layout, [&](int64_t from, int64_t to) {
    std::memcpy(out.storage.data() + to, m.storage.data() + from, static_cast<size_t>(layout.extent[3]));
  });
  return out;
}

Layout heads_inside(const std::array<int64_t, 4>& e) {
  Layout l;
  l.extent = e;
  l.stride = {e[1] * e[2] * e[3], e[3], e[1] * e[3], 1};
  return l;
}

Layout with_padding(const std::array<int64_t, 4>& e, int64_t row, int64_t head, int64_t batch, int64_t offset) {
  Layout l;
  l.extent = e;
  l.stride[3] = 1;
  l.stride[2] = e[3] + row;
  l.stride[1] = e[2] * l.stride[2] + head;
  l.stride[0] = e[1] * l.stride[1] + batch;
  l.offset = offset;
  return l;
}

Layout like(const Layout& old, const std::array<int64_t, 4>& extent) {
  std::array<int, 3> order{2, 1, 0};  // inner to outer in memory
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return old.stride[a] != old.stride[b] ? old.stride[a] < old.stride[b] : a > b; });
  Layout l;
  l.extent = extent;
  l.stride[3] = 1;
  l.offset = old.offset;
  int64_t old_span = old.extent[3], span = extent[3];
  for (int k : order) {
    if (old.stride[k] == 0 && old.extent[k] > 1) {
      l.stride[k] = 0;
      continue;
    }
    l.stride[k] = span + std::max<int64_t>(old.stride[k] - old_span, 0);
    old_span = old.stride[k] * std::max<int64_t>(old.extent[k], 1);
    span = l.stride[k] * std::max<int64_t>(extent[k], 1);
  }
  return l;
}

void apply_layout(Problem& p, Regime layout, bool unaligned, Choices& c) {
  const auto unit = [&](DType t) { return unaligned ? 1 : 16 / size_of(t); };
  const auto lay = [&](Tensor& t, auto make) { t = relayout(t, make(t.layout.extent, unit(t.type))); };
  const auto lay_all = [&](auto make) {
    for (Tensor* t : {&p.q, &p.k, &p.v}) lay(*t, make);
    if (p.bias && c.bits(1)) lay(*p.bias, make);
    if (p.mask && c.bits(1)) p.mask = relayout(*p.mask, make(p.mask->layout.extent, unaligned ? 1 : 16));
    p.o = make(p.o.extent, unit(p.type));
    p.lse = make(p.lse.extent, unit(DType::f32));
  };
  switch (layout) {
    case Regime::heads_inside:
      lay_all([](const std::array<int64_t, 4>& extent, int64_t) { return heads_inside(extent); });
      return;
    case Regime::padded:
      lay_all([&](const std::array<int64_t, 4>& extent, int64_t u) {
        const int64_t row = u * c.between(0, 3), head = u * c.between(0, 3), batch = u * c.between(0, 3);
        return with_padding(extent, row, row || head ? head : u, batch, u * c.between(0, 2));
      });
      return;
    case Regime::odd_offset:
      lay_all([&](const std::array<int64_t, 4>& extent, int64_t) {
        const int64_t head = c.between(0, 1), offset = 1 + 2 * c.between(0, 3);
        return with_padding(extent, extent[3] % 2 ? 0 : 1, head, 0, offset);
      });
      return;
    case Regime::broadcast_keys: {
      const bool heads = p.shape.hk > 1, batches = p.shape.b > 1;
      const uint64_t which = heads && batches ? c.below(3) : 2;
      const auto flatten = [&](const std::array<int64_t, 4>& extent, int64_t) {
        Layout l = Layout::packed(extent);
        if (heads && which != 1) l.stride[1] = 0, l.stride[0] = extent[2] * extent[3];
        if (batches && which != 0) l.stride[0] = 0;
        return l;
      };
      lay(p.k, flatten);
      lay(p.v, flatten);
      return;
    }
    default:
      return;
  }
}

}  // namespace attest
