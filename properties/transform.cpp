#include "properties/transform.h"

#include <algorithm>
#include <cmath>

#include "properties/generate/choices.h"
#include "reference/visible.h"

namespace attest {

namespace {

// A rank-4 array of elements of `size` bytes, wherever it lies.
struct View {
  const Layout& layout;
  const std::vector<uint8_t>& bytes;
  int64_t size;
};

// Copies the view into a packed array; index `n` of `axis` comes from source[n]. An axis of the view that is
// broadcast (extent 1 where `extent` asks for more) keeps its extent 1.
void gather(const View& from, int axis, std::span<const int64_t> source, Layout& layout, std::vector<uint8_t>& bytes) {
  std::array<int64_t, 4> extent = from.layout.extent;
  if (axis >= 0) extent[static_cast<size_t>(axis)] = static_cast<int64_t>(source.size());
  const Layout to = Layout::packed(extent);
  std::vector<uint8_t> out(static_cast<size_t>(to.count() * from.size));
  size_t at = 0;
  const auto index = [&](int k, int64_t n) { return k == axis ? source[static_cast<size_t>(n)] : n; };
  for (int64_t a = 0; a < extent[0]; ++a)
    for (int64_t b = 0; b < extent[1]; ++b)
      for (int64_t c = 0; c < extent[2]; ++c) {
        const int64_t row = from.layout.at(index(0, a), index(1, b), index(2, c), 0);
        if (axis != 3) {
          const auto length = static_cast<size_t>(extent[3] * from.size);
          if (length > 0) std::memcpy(out.data() + at, from.bytes.data() + row * from.size, length);
          at += length;
          continue;
        }
        for (int64_t d = 0; d < extent[3]; ++d, at += static_cast<size_t>(from.size))
          std::memcpy(out.data() + at, from.bytes.data() + (row + index(3, d)) * from.size, static_cast<size_t>(from.size));
      }
  layout = to;
  bytes = std::move(out);
}

Tensor take(const Tensor& t, int axis, std::span<const int64_t> source) {
  Tensor out;
  out.type = t.type;
  gather({t.layout, t.storage, size_of(t.type)}, axis, source, out.layout, out.storage);
  return out;
}

BoolMask take(const BoolMask& m, int axis, std::span<const int64_t> source) {
  BoolMask out;
  gather({m.layout, m.storage, 1}, axis, source, out.layout, out.storage);
  return out;
}

// Mask or bias: an axis of extent 1 that stands for `full` places is left alone.
template <class Operand>
void take_operand(std::optional<Operand>& operand, int axis, int64_t full, std::span<const int64_t> source) {
  if (!operand) return;
  const bool broadcast = axis < 0 || (operand->layout.extent[static_cast<size_t>(axis)] == 1 && full != 1);
  operand = take(*operand, broadcast ? -1 : axis, source);
}

void pack_outputs(Problem& p) {
  p.o = Layout::packed({p.shape.b, p.shape.hq, p.shape.nq, p.shape.dv});
  p.lse = Layout::packed({p.shape.b, p.shape.hq, p.shape.nq, 1});
}

std::vector<int64_t> query_heads_of(const Shape& s, std::span<const int64_t> key_heads) {
  const int64_t group = s.hk == 0 ? 0 : s.hq / s.hk;
  std::vector<int64_t> heads;
  for (int64_t g : key_heads)
    for (int64_t h = 0; h < group; ++h) heads.push_back(g * group + h);
  return heads;
}

// Everything but the large tensors.
Problem without_tensors(const Problem& p) {
  Problem out;
  out.shape = p.shape;
  out.type = p.type;
  out.scale = p.scale;
  out.softcap = p.softcap;
  out.causal = p.causal;
  out.window = p.window;
  out.key_lengths = p.key_lengths;
  out.sink = p.sink;
  out.choice = p.choice;
  out.origin = p.origin;
  return out;
}

}  // namespace

Problem packed(const Problem& p) {
  Problem out = without_tensors(p);
  out.q = take(p.q, -1, {});
  out.k = take(p.k, -1, {});
  out.v = take(p.v, -1, {});
  if (p.mask) out.mask = take(*p.mask, -1, {});
  if (p.bias) out.bias = take(*p.bias, -1, {});
  pack_outputs(out);
  return out;
}

Problem take_keys(const Problem& p, std::span<const int64_t> keys) {
  Problem out = without_tensors(p);
  out.shape.nk = static_cast<int64_t>(keys.size());
  out.q = take(p.q, -1, {});
  out.k = take(p.k, 2, keys);
  out.v = take(p.v, 2, keys);
  out.mask = p.mask;
  out.bias = p.bias;
  take_operand(out.mask, 3, p.shape.nk, keys);
  take_operand(out.bias, 3, p.shape.nk, keys);
  pack_outputs(out);
  return out;
}

Problem take_batches(const Problem& p, std::span<const int64_t> batches) {
  Problem out = without_tensors(p);
  out.shape.b = static_cast<int64_t>(batches.size());
  out.q = take(p.q, 0, batches);
  out.k = take(p.k, 0, batches);
  out.v = take(p.v, 0, batches);
  out.mask = p.mask;
  out.bias = p.bias;
  take_operand(out.mask, 0, p.shape.b, batches);
  take_operand(out.bias, 0, p.shape.b, batches);
  if (p.key_lengths) {
    out.key_lengths->clear();
    for (int64_t b : batches) out.key_lengths->push_back((*p.key_lengths)[static_cast<size_t>(b)]);
  }
  pack_outputs(out);
  return out;
}

Problem take_key_heads(const Problem& p, std::span<const int64_t> key_heads) {
  Problem out = without_tensors(p);
  const std::vector<int64_t> heads = query_heads_of(p.shape, key_heads);
  out.shape.hk = static_cast<int64_t>(key_heads.size());
  out.shape.hq = static_cast<int64_t>(heads.size());
  out.q = take(p.q, 1, heads);
  out.k = take(p.k, 1, key_heads);
  out.v = take(p.v, 1, key_heads);
  out.mask = p.mask;
  out.bias = p.bias;
  take_operand(out.mask, 1, p.shape.hq, heads);
  take_operand(out.bias, 1, p.shape.hq, heads);
  if (p.sink) {
    out.sink->clear();
    for (int64_t h : heads) out.sink->push_back((*p.sink)[static_cast<size_t>(h)]);
  }
  pack_outputs(out);
  return out;
}

Problem repeat_key_heads(const Problem& p) {
  Problem out = packed(p);
  std::vector<int64_t> source;
  for (int64_t h = 0; h < p.shape.hq; ++h) source.push_back(p.shape.key_head(h));
  out.shape.hk = p.shape.hq;
  out.k = take(p.k, 1, source);
  out.v = take(p.v, 1, source);
  return out;
}

BoolMask visible_mask(const Problem& p, const Conventions& conventions) {
  const Shape& s = p.shape;
  BoolMask out;
  out.layout = Layout::packed({s.b, s.hq, s.nq, s.nk});
  out.storage.assign(static_cast<size_t>(out.layout.count()), 0);
  std::vector<int64_t> keys;
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t h = 0; h < s.hq; ++h)
      for (int64_t i = 0; i < s.nq; ++i) {
        visible_keys(p, conventions, b, h, i, keys);
        for (int64_t j : keys) out.storage[static_cast<size_t>(out.layout.at(b, h, i, j))] = 1;
      }
  return out;
}

std::vector<uint8_t> unseen_keys(const Problem& p, const Conventions& conventions, int64_t b, int64_t key_head) {
  std::vector<uint8_t> unseen(static_cast<size_t>(p.shape.nk), 1);
  std::vector<int64_t> keys;
  for (int64_t h = 0; h < p.shape.hq; ++h) {
    if (p.shape.key_head(h) != key_head) continue;
    for (int64_t i = 0; i < p.shape.nq; ++i) {
      visible_keys(p, conventions, b, h, i, keys);
      for (int64_t j : keys) unseen[static_cast<size_t>(j)] = 0;
    }
  }
  return unseen;
}

BoolMask expanded(const BoolMask& mask, const Shape& s) {
  BoolMask out;
  out.layout = Layout::packed({s.b, s.hq, s.nq, s.nk});
  out.storage.resize(static_cast<size_t>(out.layout.count()));
  size_t at = 0;
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t h = 0; h < s.hq; ++h)
      for (int64_t i = 0; i < s.nq; ++i)
        for (int64_t j = 0; j < s.nk; ++j) out.storage[at++] = mask.storage[static_cast<size_t>(broadcast_at(mask.layout, b, h, i, j))];
  return out;
}

Tensor expanded(const Tensor& bias, const Shape& s) {
  Tensor out = Tensor::packed(bias.type, {s.b, s.hq, s.nq, s.nk});
  int64_t at = 0;
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t h = 0; h < s.hq; ++h)
      for (int64_t i = 0; i < s.nq; ++i)
        for (int64_t j = 0; j < s.nk; ++j) out.set_bits(at++, bias.bits(broadcast_at(bias.layout, b, h, i, j)));
  return out;
}

Problem negate_values(const Problem& p) {
  Problem out = p;
  const uint32_t sign = p.type == DType::f32 ? 0x80000000u : 0x8000u;
  const int64_t count = static_cast<int64_t>(out.v.storage.size()) / size_of(p.type);
  for (int64_t at = 0; at < count; ++at) out.v.set_bits(at, out.v.bits(at) ^ sign);
  return out;
}

std::optional<Problem> scale_values(const Problem& p, int exponent) {
  Problem out = packed(p);
  const double least = std::ldexp(1.0, min_normal_exponent(p.type)), largest = largest_finite(p.type);
  const int64_t count = out.v.layout.count();
  for (int64_t at = 0; at < count; ++at) {
    const double value = to_double(p.type, out.v.bits(at)), scaled = std::ldexp(value, exponent);
    if (value == 0 || !std::isfinite(value)) continue;
    if (std::fabs(scaled) < least || std::fabs(scaled) > largest || std::fabs(value) < least) return std::nullopt;
    out.v.set_bits(at, from_double(p.type, scaled));
  }
  return out;
}

namespace {

// value + c where that is a number of `type`, exactly; non-finite values stay what they are.
std::optional<double> exact_sum(DType type, double value, double c) {
  if (!std::isfinite(value)) return value;
  const double sum = value + c;
  if (sum - c != value || sum - value != c) return std::nullopt;  // rounded in double
  return round_to(type, sum) == sum ? std::optional<double>(sum) : std::nullopt;
}

}  // namespace

std::optional<Problem> shift_scores(const Problem& p, float c) {
  Problem out = p;
  if (!out.bias) {
    out.bias = Tensor::packed(DType::f32, {1, 1, 1, 1});
    out.bias->set(0, 0, 0, 0, c);
  } else {
    Tensor& bias = *out.bias;
    const int64_t count = static_cast<int64_t>(bias.storage.size()) / size_of(bias.type);
    for (int64_t at = 0; at < count; ++at) {
      const double value = to_double(bias.type, bias.bits(at));
      const std::optional<double> sum = exact_sum(bias.type, value, c);
      if (!sum) return std::nullopt;
      if (std::isfinite(value)) bias.set_bits(at, from_double(bias.type, *sum));
    }
  }
  if (out.sink)
    for (float& x : *out.sink) {
      const std::optional<double> sum = exact_sum(DType::f32, x, c);
      if (!sum) return std::nullopt;
      x = static_cast<float>(*sum);
    }
  return out;
}

namespace {

// Puts a packed array into a layout whose rows and dimensions are padded; `unit` elements are 16 bytes.
void relay(Layout& layout, std::vector<uint8_t>& bytes, int64_t size, Choices& choices, uint8_t fill) {
  const int64_t unit = std::max<int64_t>(1, 16 / size);
  const Layout from = layout;
  Layout to = from;
  std::array<int, 3> order{0, 1, 2};  // from the outermost in memory to the innermost
  for (size_t n = 2; n > 0; --n) std::swap(order[n], order[choices.below(n + 1)]);
  int64_t stride = from.extent[3] + unit * choices.between(0, 2);
  for (size_t n = 3; n-- > 0;) {
    const auto k = static_cast<size_t>(order[n]);
    to.stride[k] = stride;
    stride *= std::max<int64_t>(1, from.extent[k]);
    stride += to.stride[static_cast<size_t>(order[2])] % unit == 0 ? unit * choices.between(0, 1) : 0;
  }
  to.offset = unit * choices.between(0, 3);
  std::vector<uint8_t> out(static_cast<size_t>((to.span() + unit) * size), fill);
  for (int64_t a = 0; a < from.extent[0]; ++a)
    for (int64_t b = 0; b < from.extent[1]; ++b)
      for (int64_t c = 0; c < from.extent[2]; ++c)
        if (from.extent[3] > 0 && !bytes.empty())
          std::memcpy(out.data() + to.at(a, b, c, 0) * size, bytes.data() + from.at(a, b, c, 0) * size, static_cast<size_t>(from.extent[3] * size));
  layout = to;
  bytes = std::move(out);
}

void shift_by_one(Tensor& t) {
  const auto size = static_cast<size_t>(size_of(t.type));
  // One element before, and one between rows, so that neither address nor stride keeps its alignment.
  const Layout from = t.layout;
  Layout to = Layout::packed(from.extent);
  const int64_t row = from.extent[3] + (from.extent[3] % 2 == 0 ? 1 : 0);
  to.stride = {row * from.extent[1] * from.extent[2], row * from.extent[2], row, 1};
  to.offset = 1;
  std::vector<uint8_t> out(static_cast<size_t>(to.span()) * size, 0);
  for (int64_t a = 0; a < from.extent[0]; ++a)
    for (int64_t b = 0; b < from.extent[1]; ++b)
      for (int64_t c = 0; c < from.extent[2]; ++c)
        std::memcpy(out.data() + static_cast<size_t>(to.at(a, b, c, 0)) * size, t.storage.data() + static_cast<size_t>(from.at(a, b, c, 0)) * size,
                    static_cast<size_t>(from.extent[3]) * size);
  t.layout = to;
  t.storage = std::move(out);
}

}  // namespace

Problem relaid(const Problem& p, uint64_t seed, uint8_t fill) {
  Problem out = p;
  Choices choices = Choices::seeded(seed);
  for (Tensor* t : {&out.q, &out.k, &out.v}) relay(t->layout, t->storage, size_of(t->type), choices, fill);
  if (out.bias) relay(out.bias->layout, out.bias->storage, size_of(out.bias->type), choices, fill);
  std::vector<uint8_t> none;
  relay(out.o, none, size_of(p.type), choices, fill);
  return out;
}

Problem misaligned(const Problem& p) {
  Problem out = p;
  for (Tensor* t : {&out.q, &out.k, &out.v}) shift_by_one(*t);
  if (out.bias) shift_by_one(*out.bias);
  const int64_t row = p.shape.dv + (p.shape.dv % 2 == 0 ? 1 : 0);
  out.o.stride = {row * p.shape.hq * p.shape.nq, row * p.shape.nq, row, 1};
  out.o.offset = 1;
  return out;
}

}  // namespace attest
