#include "reference/diagnosis/transforms.h"

#include <algorithm>
#include <cmath>

#include "reference/diagnosis/predict.h"

namespace attest {

namespace {

// Each element is what the storage holds at from(a, b, c, d); what lies outside it is 0.
Tensor gathered(const Tensor& t, auto from) {
  Tensor out = Tensor::packed(t.type, t.layout.extent);
  const int64_t stored = static_cast<int64_t>(t.storage.size()) / size_of(t.type);
  const auto& e = t.layout.extent;
  int64_t n = 0;
  for (int64_t a = 0; a < e[0]; ++a)
    for (int64_t b = 0; b < e[1]; ++b)
      for (int64_t c = 0; c < e[2]; ++c)
        for (int64_t d = 0; d < e[3]; ++d, ++n)
          if (const int64_t at = from(a, b, c, d); at >= 0 && at < stored) out.set_bits(n, t.bits(at));
  return out;
}

// The same elements read by another layout.
Tensor reread(const Tensor& t, const Layout& layout) {
  return gathered(t, [&](int64_t a, int64_t b, int64_t c, int64_t d) { return layout.at(a, b, c, d); });
}

// Each row read from f(its first element, its head's first element) on.
Tensor rows_reread(const Tensor& t, auto f) {
  return gathered(t, [&](int64_t a, int64_t b, int64_t c, int64_t d) { return f(t.layout.at(a, b, c, 0), t.layout.at(a, b, 0, 0)) + d; });
}
int64_t cut_to_16_bytes(int64_t element, DType type) { return element - element % (16 / size_of(type)); }

Layout packed_at(const Layout& l) {
  Layout out = Layout::packed(l.extent);
  out.offset = l.offset;
  return out;
}
Layout exchanged(const Layout& l) {
  Layout out = l;
  std::swap(out.stride[1], out.stride[2]);
  return out;
}
Layout with_strides(const Layout& l, const Layout& strides) {
  Layout out = l;
  out.stride = strides.stride;
  return out;
}
Layout without_offset(const Layout& l) {
  Layout out = l;
  out.offset = 0;
  return out;
}

template <class F>
void map(Tensor& t, F f) {
  for (int64_t n = 0, count = static_cast<int64_t>(t.storage.size()) / size_of(t.type); n < count; ++n) t.set_bits(n, from_double(t.type, f(to_double(t.type, t.bits(n)))));
}

void map_inputs(Problem& p, auto f) {
  map(p.q, f);
  map(p.k, f);
}

BoolMask full_mask(const Problem& p, auto index) {
  const Shape& s = p.shape;
  BoolMask out{Layout::packed({s.b, s.hq, s.nq, s.nk}), {}};
  out.storage.resize(static_cast<size_t>(out.layout.count()));
  size_t n = 0;
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t h = 0; h < s.hq; ++h)
      for (int64_t i = 0; i < s.nq; ++i)
        for (int64_t j = 0; j < s.nk; ++j) {
          const int64_t at = index(b, h, i, j);
          out.storage[n++] = at >= 0 && at < static_cast<int64_t>(p.mask->storage.size()) ? p.mask->storage[static_cast<size_t>(at)] : 0;
        }
  return out;
}

}  // namespace

std::optional<Problem> transformed(const Problem& p, Transform transform) {
  Problem out = p;
  const Shape& s = p.shape;
  switch (transform) {
    case Transform::none: return std::nullopt;
    case Transform::q_packed: out.q = reread(p.q, packed_at(p.q.layout)); break;
    case Transform::k_packed: out.k = reread(p.k, packed_at(p.k.layout)); break;
    case Transform::v_packed: out.v = reread(p.v, packed_at(p.v.layout)); break;
    case Transform::kv_packed:
      out.k = reread(p.k, packed_at(p.k.layout));
      out.v = reread(p.v, packed_at(p.v.layout));
      break;
    case Transform::k_by_v_strides: out.k = reread(p.k, with_strides(p.k.layout, p.v.layout)); break;
    case Transform::v_by_k_strides: out.v = reread(p.v, with_strides(p.v.layout, p.k.layout)); break;
    case Transform::kv_exchanged:
      out.k = reread(p.k, exchanged(p.k.layout));
      out.v = reread(p.v, exchanged(p.v.layout));
      break;
    case Transform::q_exchanged: out.q = reread(p.q, exchanged(p.q.layout)); break;
    case Transform::no_offsets:
      out.q = reread(p.q, without_offset(p.q.layout));
      out.k = reread(p.k, without_offset(p.k.layout));
      out.v = reread(p.v, without_offset(p.v.layout));
      break;
    case Transform::mask_transposed: {
      if (!p.mask) return std::nullopt;
      const Layout& l = p.mask->layout;
      out.mask = full_mask(p, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
        const int64_t row = l.extent[2] == 1 ? 0 : std::min(j, l.extent[2] - 1), key = l.extent[3] == 1 ? 0 : std::min(i, l.extent[3] - 1);
        return l.at(l.extent[0] == 1 ? 0 : b, l.extent[1] == 1 ? 0 : h, row, key);
      });
      break;
    }
    case Transform::mask_of_key_head:
      if (!p.mask) return std::nullopt;
      out.mask = full_mask(p, [&](int64_t b, int64_t h, int64_t i, int64_t j) { return broadcast_at(p.mask->layout, b, s.key_head(h), i, j); });
      break;
    case Transform::mask_exchanged:
      if (!p.mask) return std::nullopt;
      out.mask = full_mask(p, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
        const Layout& l = p.mask->layout;
        return broadcast_at(l, std::min(h, l.extent[0] - 1), std::min(b, l.extent[1] - 1), i, j);
      });
      break;
    case Transform::mask_packed:
      if (!p.mask) return std::nullopt;
      out.mask = full_mask(p, [&](int64_t b, int64_t h, int64_t i, int64_t j) { return broadcast_at(packed_at(p.mask->layout), b, h, i, j); });
      break;
    case Transform::bias_packed:
      if (!p.bias) return std::nullopt;
      out.bias = reread(*p.bias, packed_at(p.bias->layout));
      break;
    case Transform::longest_length:
      if (!p.key_lengths || p.key_lengths->empty()) return std::nullopt;
      out.key_lengths->assign(p.key_lengths->size(), *std::max_element(p.key_lengths->begin(), p.key_lengths->end()));
      break;
    case Transform::zero_length_full:
      if (!p.key_lengths) return std::nullopt;
      for (int32_t& length : *out.key_lengths)
        if (length == 0) length = static_cast<int32_t>(s.nk);
      break;
    case Transform::no_window_where_zero:
      if (p.window.left && *p.window.left == 0) out.window.left.reset();
      if (p.window.right && *p.window.right == 0) out.window.right.reset();
      break;
    case Transform::bias_bf16:
      if (!p.bias) return std::nullopt;
      map(*out.bias, [](double x) { return round_to(DType::bf16, x); });
      break;
    case Transform::bias_times_log2e:
      if (!p.bias) return std::nullopt;
      map(*out.bias, [](double x) { return x * 0.69314718055994530942; });
      break;
    case Transform::v_bf16: map(out.v, [](double x) { return round_to(DType::bf16, x); }); break;
    case Transform::q_scaled:
      map(out.q, [&](double x) { return round_to(p.type, x * p.scale); });
      out.scale = 1;
      break;
    case Transform::tf32: map_inputs(out, [](double x) { return round_narrow(Narrow::tf32, x, true); }); break;
    case Transform::f16_inputs: map_inputs(out, [](double x) { return round_to(DType::f16, x); }); break;
    case Transform::bf16_inputs: map_inputs(out, [](double x) { return round_to(DType::bf16, x); }); break;
    case Transform::flushed: {
      const auto flush = [&](double x) { return std::fabs(x) < std::ldexp(1.0, min_normal_exponent(p.type)) ? 0.0 : x; };
      map_inputs(out, flush);
      map(out.v, flush);
      break;
    }
    case Transform::clamped: {
      const auto clamp = [](double x) { return std::isnan(x) ? x : std::clamp(x, -65504.0, 65504.0); };
      map_inputs(out, clamp);
      map(out.v, clamp);
      break;
    }
    case Transform::scale_bf16: out.scale = static_cast<float>(round_to(DType::bf16, p.scale)); break;
    case Transform::scale_f16: out.scale = static_cast<float>(round_to(DType::f16, p.scale)); break;
    case Transform::zero_scale_default:
      if (p.scale != 0) return std::nullopt;
      out.scale = default_scale(s.d);
      break;
    case Transform::log2e_f16: {
      const double ratio = round_to(DType::f16, 1.4426950408889634) / 1.4426950408889634;
      out.scale = static_cast<float>(p.scale * ratio);
      break;
    }
    case Transform::scale_of_value_width: out.scale = default_scale(s.dv); break;
    case Transform::k_rows_cut_to_16_bytes: out.k = rows_reread(p.k, [&](int64_t row, int64_t) { return cut_to_16_bytes(row, p.type); }); break;
    case Transform::kv_rows_cut_to_16_bytes:
      for (auto [to, from] : {std::pair{&out.k, &p.k}, {&out.v, &p.v}}) *to = rows_reread(*from, [&](int64_t row, int64_t) { return cut_to_16_bytes(row, p.type); });
      break;
    case Transform::kv_offsets_of_15_bits:
    case Transform::kv_offsets_of_16_bits: {
      const int64_t wrap = transform == Transform::kv_offsets_of_15_bits ? int64_t{1} << 15 : int64_t{1} << 16;
      for (auto [to, from] : {std::pair{&out.k, &p.k}, {&out.v, &p.v}}) *to = rows_reread(*from, [&](int64_t row, int64_t head) { return head + (row - head) % wrap; });
      break;
    }
    case Transform::k_block_of_16_repeated:
    case Transform::k_block_of_32_repeated:
    case Transform::k_block_of_64_repeated:
    case Transform::k_block_of_128_repeated: {
      const int64_t block = int64_t{16} << (static_cast<int>(transform) - static_cast<int>(Transform::k_block_of_16_repeated)), full = s.nk / block * block;
      if (full == 0 || full == s.nk) return std::nullopt;
      out.k = Tensor::packed(p.type, p.k.layout.extent);
      for (int64_t b = 0; b < s.b; ++b)
        for (int64_t g = 0; g < s.hk; ++g)
          for (int64_t j = 0; j < s.nk; ++j)
            for (int64_t d = 0; d < s.d; ++d) out.k.set_bits(out.k.layout.at(b, g, j, d), p.k.bits(p.k.layout.at(b, g, j < full ? j : j - block, d)));
      break;
    }
    case Transform::batch_zero_values:
      if (s.b < 2) return std::nullopt;
      for (int64_t b = 1; b < s.b; ++b)
        for (int64_t g = 0; g < s.hk; ++g)
          for (int64_t j = 0; j < s.nk; ++j)
            for (int64_t d = 0; d < s.dv; ++d) out.v.set_bits(out.v.layout.at(b, g, j, d), p.v.bits(p.v.layout.at(0, g, j, d)));
      break;
  }
  return same(out, p) ? std::nullopt : std::optional(std::move(out));
}

}  // namespace attest
