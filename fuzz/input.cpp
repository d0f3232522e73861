#include "fuzz/input.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "properties/generate/generate.h"

namespace attest::fuzz {

namespace {

static_assert(std::endian::native == std::endian::little, "images are little-endian");

constexpr uint8_t kMagic[4] = {0xA7, 'a', 't', '1'};

enum Flag : uint16_t {
  kCausal = 1 << 0,
  kLeft = 1 << 1,
  kRight = 1 << 2,
  kLengths = 1 << 3,
  kMask = 1 << 4,
  kBias = 1 << 5,
  kBiasInputType = 1 << 6,
  kSink = 1 << 7,
  kLayouts = 1 << 8,  // layouts follow the header; otherwise all are packed
};

struct Header {
  uint8_t magic[4];
  uint16_t flags;
  uint8_t type, p_type;  // p_type: 0 none, else the type + 1
  uint8_t b, hq, hk, order;
  uint16_t nq, nk, d, dv;
  uint16_t tile, splits;
  uint32_t left, right;
  float scale, softcap;
  uint8_t mask_extents, bias_extents;  // bit k: dimension k has its full extent, else 1
  uint16_t reserved;
};
static_assert(sizeof(Header) == 44);

struct PackedLayout {
  uint32_t stride[3], offset, elements;  // the last stride is 1; elements: of the storage
};

class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : rest_(bytes) {}
  // The next bytes, zeros past the end.
  void take(void* to, size_t bytes) {
    const size_t there = std::min(bytes, rest_.size());
    if (there > 0) std::memcpy(to, rest_.data(), there);
    if (bytes > there) std::memset(static_cast<uint8_t*>(to) + there, 0, bytes - there);
    rest_ = rest_.subspan(there);
  }
  template <class T>
  T take() {
    T value;
    take(&value, sizeof value);
    return value;
  }

 private:
  std::span<const uint8_t> rest_;
};

using Extent = std::array<int64_t, 4>;

Extent broadcast_extent(const Shape& s, uint8_t full) {
  const Extent whole{s.b, s.hq, s.nq, s.nk};
  Extent extent;
  for (size_t k = 0; k < 4; ++k) extent[k] = full >> k & 1 ? whole[k] : 1;
  return extent;
}

uint8_t full_dimensions(const Extent& extent, const Shape& s) {
  const Extent whole{s.b, s.hq, s.nq, s.nk};
  uint8_t full = 0;
  for (size_t k = 0; k < 4; ++k) full |= static_cast<uint8_t>((extent[k] == whole[k]) << k);
  return full;
}

Layout unpack(const PackedLayout& from, const Extent& extent) {
  Layout l;
  l.extent = extent;
  l.stride = {from.stride[0], from.stride[1], from.stride[2], 1};
  l.offset = from.offset;
  return l;
}

PackedLayout pack(const Layout& l, size_t elements) {
  PackedLayout to;
  for (size_t k = 0; k < 3; ++k) to.stride[k] = static_cast<uint32_t>(l.stride[k]);
  to.offset = static_cast<uint32_t>(l.offset);
  to.elements = static_cast<uint32_t>(elements);
  return to;
}

bool affordable(const Layout& l) { return l.offset <= kLimits.elements && l.span() <= kLimits.elements; }

// An operand that may be absent: its memory moves to the spare and back.
template <class T>
void engage(std::optional<T>& operand, std::optional<T>& spare, bool present) {
  if (operand.has_value() == present) return;
  if (!present) {
    spare = std::move(operand);
    operand.reset();
  } else if (spare) {
    operand = std::move(spare);
  } else {
    operand.emplace();
  }
}

// Sizes of every string become sizes that can be had.
Shape clamped(const Header& h) {
  const auto most = [](int64_t value, int64_t limit) { return value > limit ? value % (limit + 1) : value; };
  Shape s;
  s.b = most(h.b, kLimits.batches);
  s.hk = most(h.hk, kLimits.heads);
  s.hq = most(h.hq, kLimits.heads);
  s.hq = s.hk == 0 ? 0 : s.hq / s.hk * s.hk;
  s.nq = most(h.nq, kLimits.rows);
  s.nk = most(h.nk, kLimits.keys);
  s.d = std::max<int64_t>(1, most(h.d, kLimits.width));
  s.dv = std::max<int64_t>(1, most(h.dv, kLimits.width));
  while (!within_limits(s)) {
    int64_t* largest = &s.nk;
    for (int64_t* size : {&s.nq, &s.d, &s.dv})
      if (*size > *largest) largest = size;
    *largest = std::max<int64_t>(1, *largest / 2);
  }
  return s;
}

}  // namespace

bool within_limits(const Shape& s) {
  const auto elements = [](int64_t b, int64_t h, int64_t n, int64_t d) { return b * h * n * d <= kLimits.elements; };
  return s.b <= kLimits.batches && s.hq <= kLimits.heads && s.hk <= kLimits.heads && s.nq <= kLimits.rows &&
         s.nk <= kLimits.keys && s.d <= kLimits.width && s.dv <= kLimits.width && elements(s.b, s.hq, s.nq, s.d) &&
         elements(s.b, s.hk, s.nk, s.d) && elements(s.b, s.hk, s.nk, s.dv) && elements(s.b, s.hq, s.nq, s.dv) &&
         elements(s.b, s.hq, s.nq, s.nk) && s.b * s.hq * s.nq * s.nk * (s.d + s.dv) <= kLimits.work;
}

Problem& ProblemReader::read(std::span<const uint8_t> bytes) {
  if (bytes.size() >= sizeof kMagic && std::memcmp(bytes.data(), kMagic, sizeof kMagic) == 0) {
    read_image(bytes);
    return problem_;
  }
  Choices choices = Choices::bytes(bytes);
  const Recipe small{.min_keys = 0, .max_keys = 200, .max_width = 64, .work = 2e4};
  Problem made = generate(choices, target_, small).problem;
  if (!within_limits(made.shape)) made = generate(choices, target_, {.max_keys = 64, .max_width = 32, .work = 1e3}).problem;
  made.origin = {};
  problem_ = std::move(made);
  return problem_;
}

void ProblemReader::read_image(std::span<const uint8_t> bytes) {
  Reader in(bytes);
  const auto h = in.take<Header>();
  Problem& p = problem_;
  const Shape s = p.shape = clamped(h);
  const DType type = p.type = kAllDTypes[h.type % 3];
  p.causal = (h.flags & kCausal) != 0;
  p.window.left = p.window.right = std::nullopt;
  if (h.flags & kLeft) p.window.left = h.left;
  if (h.flags & kRight) p.window.right = h.right;
  p.scale = std::isfinite(h.scale) ? h.scale : default_scale(s.d);
  p.softcap = std::isfinite(h.softcap) && h.softcap > 0 ? h.softcap : 0.0f;
  p.choice.tile_keys = std::min<int64_t>(h.tile, kLimits.keys);
  p.choice.splits = std::min<int32_t>(h.splits, kLimits.splits);
  p.choice.order = static_cast<TileOrder>(h.order % 3);
  p.choice.p_type = h.p_type % 4 == 0 ? std::nullopt : std::optional(kAllDTypes[h.p_type % 4 - 1]);
  if (p.choice.p_type && *p.choice.p_type != DType::f32 && *p.choice.p_type != type) p.choice.p_type = std::nullopt;
  engage(p.key_lengths, spare_lengths_, (h.flags & kLengths) != 0);
  engage(p.mask, spare_mask_, (h.flags & kMask) != 0);
  engage(p.bias, spare_bias_, (h.flags & kBias) != 0);
  engage(p.sink, spare_sink_, (h.flags & kSink) != 0);
  if (p.bias) p.bias->type = h.flags & kBiasInputType ? type : DType::f32;
  p.q.type = p.k.type = p.v.type = type;

  // Layouts, and how many elements each storage has.
  const bool given = (h.flags & kLayouts) != 0;
  bool usable = true;
  const auto place = [&](Layout& layout, const Extent& extent) -> int64_t {
    layout = Layout::packed(extent);
    if (!given) return layout.span();
    const auto packed = in.take<PackedLayout>();
    const bool small = std::all_of(packed.stride, packed.stride + 3, [](uint32_t x) { return x <= kLimits.elements; });
    const Layout wanted = unpack(packed, extent);
    if (!small || !affordable(wanted)) {
      usable = false;
      return layout.span();
    }
    layout = wanted;
    return std::max<int64_t>(layout.span(), std::min<int64_t>(packed.elements, kLimits.elements));
  };
  const int64_t q = place(p.q.layout, {s.b, s.hq, s.nq, s.d}), k = place(p.k.layout, {s.b, s.hk, s.nk, s.d});
  const int64_t v = place(p.v.layout, {s.b, s.hk, s.nk, s.dv});
  place(p.o, {s.b, s.hq, s.nq, s.dv});
  place(p.lse, {s.b, s.hq, s.nq, 1});
  const int64_t mask = p.mask ? place(p.mask->layout, broadcast_extent(s, h.mask_extents)) : 0;
  const int64_t bias = p.bias ? place(p.bias->layout, broadcast_extent(s, h.bias_extents)) : 0;

  const auto fill = [&](Tensor& t, int64_t elements) {
    t.storage.resize(static_cast<size_t>(elements * size_of(t.type)));
    in.take(t.storage.data(), t.storage.size());
  };
  fill(p.q, q);
  fill(p.k, k);
  fill(p.v, v);
  if (p.key_lengths) {
    p.key_lengths->resize(static_cast<size_t>(s.b));
    for (int32_t& n : *p.key_lengths) n = static_cast<int32_t>(std::min<int64_t>(in.take<uint16_t>(), s.nk));
  }
  if (p.sink) {
    p.sink->resize(static_cast<size_t>(s.hq));
    for (float& x : *p.sink) {
      x = in.take<float>();
      if (std::isnan(x) || x == INFINITY) x = 0;
    }
  }
  if (p.mask) {
    p.mask->storage.resize(static_cast<size_t>(mask));
    in.take(p.mask->storage.data(), p.mask->storage.size());
  }
  if (p.bias) fill(*p.bias, bias);

  if (!given || (usable && !validate(p))) return;
  // A layout is not valid: all become packed, over the contents as far as they go.
  const auto repack = [](Tensor& t) {
    t.layout = Layout::packed(t.layout.extent);
    t.storage.resize(static_cast<size_t>(t.layout.span() * size_of(t.type)));
  };
  repack(p.q);
  repack(p.k);
  repack(p.v);
  p.o = Layout::packed(p.o.extent);
  p.lse = Layout::packed(p.lse.extent);
  if (p.bias) repack(*p.bias);
  if (p.mask) {
    p.mask->layout = Layout::packed(p.mask->layout.extent);
    p.mask->storage.resize(static_cast<size_t>(p.mask->layout.span()));
  }
}

void write_image(const Problem& p, std::vector<uint8_t>& bytes) {
  bytes.clear();
  const auto put = [&](const void* from, size_t n) {
    const auto* first = static_cast<const uint8_t*>(from);
    bytes.insert(bytes.end(), first, first + n);
  };
  const auto is_packed = [](const Layout& l, size_t elements) {
    return l == Layout::packed(l.extent) && static_cast<int64_t>(elements) == l.span();
  };
  const auto elements = [](const Tensor& t) { return t.storage.size() / static_cast<size_t>(size_of(t.type)); };
  const bool packed = is_packed(p.q.layout, elements(p.q)) && is_packed(p.k.layout, elements(p.k)) &&
                      is_packed(p.v.layout, elements(p.v)) && p.o == Layout::packed(p.o.extent) &&
                      p.lse == Layout::packed(p.lse.extent) &&
                      (!p.mask || is_packed(p.mask->layout, p.mask->storage.size())) &&
                      (!p.bias || is_packed(p.bias->layout, elements(*p.bias)));
  Header h{};
  std::memcpy(h.magic, kMagic, sizeof kMagic);
  const auto flag = [&](bool set, Flag f) { h.flags |= set ? f : 0; };
  flag(p.causal, kCausal);
  flag(p.window.left.has_value(), kLeft);
  flag(p.window.right.has_value(), kRight);
  flag(p.key_lengths.has_value(), kLengths);
  flag(p.mask.has_value(), kMask);
  flag(p.bias.has_value(), kBias);
  flag(p.bias && p.bias->type == p.type, kBiasInputType);
  flag(p.sink.has_value(), kSink);
  flag(!packed, kLayouts);
  const Shape& s = p.shape;
  h.type = static_cast<uint8_t>(p.type);
  h.p_type = p.choice.p_type ? static_cast<uint8_t>(static_cast<int>(*p.choice.p_type) + 1) : uint8_t{0};
  h.b = static_cast<uint8_t>(s.b);
  h.hq = static_cast<uint8_t>(s.hq);
  h.hk = static_cast<uint8_t>(s.hk);
  h.order = static_cast<uint8_t>(p.choice.order);
  h.nq = static_cast<uint16_t>(s.nq);
  h.nk = static_cast<uint16_t>(s.nk);
  h.d = static_cast<uint16_t>(s.d);
  h.dv = static_cast<uint16_t>(s.dv);
  h.tile = static_cast<uint16_t>(p.choice.tile_keys);
  h.splits = static_cast<uint16_t>(p.choice.splits);
  h.left = static_cast<uint32_t>(p.window.left.value_or(0));
  h.right = static_cast<uint32_t>(p.window.right.value_or(0));
  h.scale = p.scale;
  h.softcap = p.softcap;
  if (p.mask) h.mask_extents = full_dimensions(p.mask->layout.extent, s);
  if (p.bias) h.bias_extents = full_dimensions(p.bias->layout.extent, s);
  put(&h, sizeof h);
  const auto put_layout = [&](const Layout& l, size_t n) {
    const PackedLayout to = pack(l, n);
    put(&to, sizeof to);
  };
  if (!packed) {
    put_layout(p.q.layout, elements(p.q));
    put_layout(p.k.layout, elements(p.k));
    put_layout(p.v.layout, elements(p.v));
    put_layout(p.o, 0);
    put_layout(p.lse, 0);
    if (p.mask) put_layout(p.mask->layout, p.mask->storage.size());
    if (p.bias) put_layout(p.bias->layout, elements(*p.bias));
  }
  for (const Tensor* t : {&p.q, &p.k, &p.v}) put(t->storage.data(), t->storage.size());
  if (p.key_lengths)
    for (int32_t n : *p.key_lengths) {
      const auto length = static_cast<uint16_t>(n);
      put(&length, sizeof length);
    }
  if (p.sink)
    for (float x : *p.sink) put(&x, sizeof x);
  if (p.mask) put(p.mask->storage.data(), p.mask->storage.size());
  if (p.bias) put(p.bias->storage.data(), p.bias->storage.size());
}

}  // namespace attest::fuzz
