#include "properties/generate/select.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "properties/generate/layouts.h"
#include "reference/visible.h"

namespace attest {

namespace {

// New layout and, for every index of it, copy(from, to) in elements of storage.
template <class Copy>
void gather(const Layout& from, const Layout& to, int dim, std::span<const int64_t> indices, Copy copy) {
  std::array<int64_t, 4> at{};
  for (at[0] = 0; at[0] < to.extent[0]; ++at[0])
    for (at[1] = 0; at[1] < to.extent[1]; ++at[1])
      for (at[2] = 0; at[2] < to.extent[2]; ++at[2])
        for (at[3] = 0; at[3] < to.extent[3]; ++at[3]) {
          std::array<int64_t, 4> source = at;
          source[dim] = indices[static_cast<size_t>(at[dim])];
          copy(from.at(source[0], source[1], source[2], source[3]), to.at(at[0], at[1], at[2], at[3]));
        }
}

Layout selected(const Layout& l, int dim, std::span<const int64_t> indices) {
  std::array<int64_t, 4> extent = l.extent;
  extent[dim] = static_cast<int64_t>(indices.size());
  return like(l, extent);
}

void select(Tensor& t, int dim, std::span<const int64_t> indices) {
  Tensor out{t.type, selected(t.layout, dim, indices), {}};
  out.storage.assign(static_cast<size_t>(out.layout.span() * size_of(t.type)), uint8_t{0xFF});
  gather(t.layout, out.layout, dim, indices, [&](int64_t from, int64_t to) { out.set_bits(to, t.bits(from)); });
  t = std::move(out);
}

void select(BoolMask& m, int dim, std::span<const int64_t> indices) {
  BoolMask out{selected(m.layout, dim, indices), {}};
  out.storage.assign(static_cast<size_t>(out.layout.span()), uint8_t{0xFF});
  gather(m.layout, out.layout, dim, indices, [&](int64_t from, int64_t to) {
    out.storage[static_cast<size_t>(to)] = m.storage[static_cast<size_t>(from)];
  });
  m = std::move(out);
}

// Mask and bias, where they do not broadcast over the dimension (`full` is its size before).
void select_masks(Problem& p, int dim, int64_t full, std::span<const int64_t> indices) {
  if (p.mask && (p.mask->layout.extent[dim] == full && full != 1)) select(*p.mask, dim, indices);
  if (p.bias && (p.bias->layout.extent[dim] == full && full != 1)) select(*p.bias, dim, indices);
}

void select_outputs(Problem& p, int dim, std::span<const int64_t> indices) {
  p.o = selected(p.o, dim, indices);
  p.lse = selected(p.lse, dim, indices);
}

// Query heads chosen, key heads chosen.
Problem with_heads(const Problem& p, std::span<const int64_t> query_heads, std::span<const int64_t> key_heads) {
  Problem out = p;
  out.shape.hq = static_cast<int64_t>(query_heads.size());
  out.shape.hk = static_cast<int64_t>(key_heads.size());
  select(out.q, 1, query_heads);
  select(out.k, 1, key_heads);
  select(out.v, 1, key_heads);
  select_masks(out, 1, p.shape.hq, query_heads);
  select_outputs(out, 1, query_heads);
  if (p.sink) {
    out.sink->clear();
    for (int64_t h : query_heads) out.sink->push_back((*p.sink)[static_cast<size_t>(h)]);
  }
  return out;
}

}  // namespace

std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> indices(static_cast<size_t>(std::max<int64_t>(end - begin, 0)));
  std::iota(indices.begin(), indices.end(), begin);
  return indices;
}

Problem with_batches(const Problem& p, std::span<const int64_t> batches) {
  Problem out = p;
  out.shape.b = static_cast<int64_t>(batches.size());
  for (Tensor* t : {&out.q, &out.k, &out.v}) select(*t, 0, batches);
  select_masks(out, 0, p.shape.b, batches);
  select_outputs(out, 0, batches);
  if (p.key_lengths) {
    out.key_lengths->clear();
    for (int64_t b : batches) out.key_lengths->push_back((*p.key_lengths)[static_cast<size_t>(b)]);
  }
  return out;
}

Problem with_key_heads(const Problem& p, std::span<const int64_t> heads) {
  const int64_t ratio = p.shape.hk > 0 ? p.shape.hq / p.shape.hk : 1;
  std::vector<int64_t> query_heads;
  for (int64_t g : heads)
    for (int64_t r = 0; r < ratio; ++r) query_heads.push_back(g * ratio + r);
  return with_heads(p, query_heads, heads);
}

Problem with_group(const Problem& p, std::span<const int64_t> members) {
  const int64_t ratio = p.shape.hk > 0 ? p.shape.hq / p.shape.hk : 1;
  std::vector<int64_t> query_heads;
  for (int64_t g = 0; g < p.shape.hk; ++g)
    for (int64_t r : members) query_heads.push_back(g * ratio + r);
  return with_heads(p, query_heads, range(0, p.shape.hk));
}

Problem with_rows(const Problem& p, std::span<const int64_t> rows) {
  Problem out = p;
  out.shape.nq = static_cast<int64_t>(rows.size());
  select(out.q, 2, rows);
  select_masks(out, 2, p.shape.nq, rows);
  select_outputs(out, 2, rows);
  return out;
}

Problem with_keys(const Problem& p, std::span<const int64_t> keys) {
  Problem out = p;
  out.shape.nk = static_cast<int64_t>(keys.size());
  select(out.k, 2, keys);
  select(out.v, 2, keys);
  select_masks(out, 3, p.shape.nk, keys);
  if (out.key_lengths)
    for (int32_t& length : *out.key_lengths)
      length = static_cast<int32_t>(std::count_if(keys.begin(), keys.end(), [&](int64_t j) { return j < length; }));
  return out;
}

Problem with_columns(const Problem& p, std::span<const int64_t> columns) {
  Problem out = p;
  out.shape.d = static_cast<int64_t>(columns.size());
  select(out.q, 3, columns);
  select(out.k, 3, columns);
  return out;
}

Problem with_value_columns(const Problem& p, std::span<const int64_t> columns) {
  Problem out = p;
  out.shape.dv = static_cast<int64_t>(columns.size());
  select(out.v, 3, columns);
  out.o = selected(p.o, 3, columns);
  return out;
}

Problem with_explicit_mask(const Problem& p, const Conventions& conventions) {
  const Shape& s = p.shape;
  std::array<int64_t, 4> extent{p.key_lengths ? s.b : std::min<int64_t>(s.b, 1), std::min<int64_t>(s.hq, 1), s.nq,
                                s.nk};
  if (p.mask)
    for (int k = 0; k < 2; ++k) extent[k] = std::max(extent[k], p.mask->layout.extent[k]);
  BoolMask mask{Layout::packed(extent), {}};
  mask.storage.assign(static_cast<size_t>(mask.layout.count()), 0);
  std::vector<int64_t> keys;
  for (int64_t b = 0; b < extent[0]; ++b)
    for (int64_t h = 0; h < extent[1]; ++h)
      for (int64_t i = 0; i < s.nq; ++i) {
        visible_keys(p, conventions, b, h, i, keys);
        for (int64_t j : keys) mask.storage[static_cast<size_t>(mask.layout.at(b, h, i, j))] = 1;
      }
  Problem out = p;
  out.mask = std::move(mask);
  out.causal = false;
  out.window = {};
  out.key_lengths.reset();
  return out;
}

}  // namespace attest
