// example.cpp: a complete attest plug-in in one file. Copy it, put your kernel where attend() is, and run
//
//     attest verify --kernel ./attest_example.so
//
// The rules are in kernel/abi/attest_kernel.h; what matters most: write every element of O and LSE and nothing
// else, honour byte_offset and strides, and list in `features` only what you do: the rest is not tried on you.
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include "attest_kernel.h"

namespace {

// A tensor's element (a, b, c, d), by DLPack's rules: strides are in elements, NULL strides mean packed.
struct View {
  float* data;
  int64_t stride[4] = {0, 0, 0, 0};

  explicit View(const DLTensor& t) : data(reinterpret_cast<float*>(static_cast<char*>(t.data) + t.byte_offset)) {
    int64_t packed = 1;
    for (int k = t.ndim - 1; k >= 0; --k) {
      stride[k] = t.strides != nullptr ? t.strides[k] : packed;
      packed *= t.shape[k];
    }
  }
  float* at(int64_t a, int64_t b, int64_t c, int64_t d = 0) const {
    return data + a * stride[0] + b * stride[1] + c * stride[2] + d * stride[3];
  }
};

// One query row: the online softmax, a tile of keys at a time. Returns LSE.
float attend(const float* q, const View& k, const View& v, int64_t b, int64_t key_head, int64_t keys, float scale,
             int64_t width, float* out) {
  constexpr int64_t kTile = 64;
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  double m = kNothing, l = 0, score[kTile];
  std::vector<double> o(static_cast<size_t>(width), 0.0);
  for (int64_t first = 0; first < keys; first += kTile) {
    const int64_t count = keys - first < kTile ? keys - first : kTile;
    double m_new = m;
    for (int64_t j = 0; j < count; ++j) {
      double dot = 0;
      for (int64_t d = 0; d < width; ++d) dot += double{q[d]} * double{*k.at(b, key_head, first + j, d)};
      score[j] = double{scale} * dot;
      if (score[j] > m_new || score[j] != score[j]) m_new = score[j];  // a NaN stays
    }
    if (m_new == kNothing) continue;  // no visible key yet; -inf - -inf is never formed
    const double factor = m == kNothing ? 0.0 : std::exp(m - m_new);
    l *= factor;
    for (double& x : o) x *= factor;
    for (int64_t j = 0; j < count; ++j) {
      if (score[j] == kNothing) continue;  // a score of -inf is a masked key, whatever V holds
      const double p = std::exp(score[j] - m_new);
      l += p;
      for (int64_t d = 0; d < width; ++d) o[static_cast<size_t>(d)] += p * double{*v.at(b, key_head, first + j, d)};
    }
    m = m_new;
  }
  for (int64_t d = 0; d < width; ++d) out[d] = l == 0 ? 0.0f : static_cast<float>(o[static_cast<size_t>(d)] / l);
  return l == 0 ? static_cast<float>(kNothing) : static_cast<float>(m + std::log(l));
}

attest_status forward(const attest_args* a, void* /*stream*/, char* /*message*/, size_t /*size*/) {
  const int64_t batches = a->q->shape[0], heads = a->q->shape[1], rows = a->q->shape[2], width = a->q->shape[3];
  const int64_t key_heads = a->k->shape[1], keys = a->k->shape[2];
  const View q(*a->q), k(*a->k), v(*a->v), o(*a->o);
  for (int64_t b = 0; b < batches; ++b) {
    int64_t length = keys;
    if (a->key_lengths != nullptr)
      length = reinterpret_cast<const int32_t*>(static_cast<const char*>(a->key_lengths->data) + a->key_lengths->byte_offset)[b];
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < rows; ++i) {
        // Causal, bottom right: row i stands at key position i + length - rows and sees the keys up to there.
        int64_t visible = length;
        if (a->causal != 0 && i + length - rows + 1 < visible) visible = i + length - rows + 1;
        const float lse = attend(q.at(b, h, i), k, v, b, h / (heads / key_heads), visible, a->scale, width, o.at(b, h, i));
        if (a->lse != nullptr) *View(*a->lse).at(b, h, i) = lse;
      }
  }
  return ATTEST_OK;
}

// attest asks this before every call, and counts a refusal as "not supported" with your reason.
int32_t supports(const attest_args* a, char* reason, size_t size) {
  const auto refuse = [&](const char* why) {
    std::snprintf(reason, size, "%s", why);
    return 0;
  };
  if (a->layout != 0) return refuse("only the dense layout");
  if (a->q->dtype.code != kDLFloat || a->q->dtype.bits != 32) return refuse("only f32");
  if (a->q->shape[3] != a->v->shape[3]) return refuse("only D = Dv");
  return 1;
}

constexpr int32_t kTypes[] = {ATTEST_F32};

attest_kernel make_table() {
  attest_kernel t{};  // what stays 0 is not offered, or follows attest's contract
  t.abi_version = ATTEST_ABI_VERSION;
  t.struct_size = sizeof(attest_kernel);
  t.name = "example";
  t.version = "1";
  t.device = kDLCPU;  // kDLCUDA: tensors lie in device memory, and forward queues its work on `stream`
  t.features = ATTEST_CAUSAL | ATTEST_KEY_LENGTHS | ATTEST_GROUPED_HEADS | ATTEST_LSE | ATTEST_STRIDES | ATTEST_UNALIGNED;
  t.types = kTypes;
  t.type_count = 1;
  t.head_width_max = 256;
  t.supports = supports;
  t.forward = forward;
  t.reentrant = 1;  // no state outside the call
  return t;
}

}  // namespace

extern "C" const attest_kernel* attest_kernel_get(uint32_t index) {
  static const attest_kernel table = make_table();
  return index == 0 ? &table : nullptr;
}
