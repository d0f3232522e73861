// pytorch.cpp: PyTorch's scaled_dot_product_attention as a plug-in, each of its back ends a kernel of its own:
//
//     attest verify --kernel ./attest_pytorch.so:flash        and :cudnn, :efficient, :math
//
// Each kernel calls the operator behind its back end, so that none falls back on another, and prepares the tensors as
// scaled_dot_product_attention does (padding of D, boolean masks made additive). What that function keeps from a back end
// is refused here too: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp of PyTorch has the conditions.
// The operators are called by the names of their arguments, as their schemas give them; an operator of another shape is
// told at the first call.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/version.h>

#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attest_kernel.h"

namespace {

using Values = std::vector<c10::IValue>;

// Calls an operator; what is not given takes its default, or nothing.
class Operator {
 public:
  explicit Operator(const char* name) : operator_(c10::Dispatcher::singleton().findSchemaOrThrow(name, "")) {}
  Values operator()(std::map<std::string, c10::IValue> given) const {
    Values stack;
    for (const c10::Argument& argument : operator_.schema().arguments()) {
      const auto found = given.find(argument.name());
      if (found != given.end()) {
        stack.push_back(std::move(found->second));
        given.erase(found);
      } else if (argument.default_value()) {
        stack.push_back(*argument.default_value());
      } else {
        stack.emplace_back();
      }
    }
    TORCH_CHECK(given.empty(), "the operator has no argument '", given.empty() ? std::string() : given.begin()->first, "' in this PyTorch");
    operator_.callBoxed(&stack);
    return stack;
  }

 private:
  c10::OperatorHandle operator_;
};

const c10::Device kDevice(c10::kCUDA, 0);

// The harness's memory as a tensor.
at::Tensor view(const DLTensor& t) {
  const std::vector<int64_t> sizes(t.shape, t.shape + t.ndim);
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t n = sizes.size(); n-- > 0;)
    strides[n] = t.strides != nullptr ? t.strides[n] : n + 1 == sizes.size() ? 1 : strides[n + 1] * sizes[n + 1];
  const auto type = t.dtype.code == kDLUInt ? at::kByte : t.dtype.code == kDLBfloat ? at::kBFloat16 : t.dtype.bits == 16 ? at::kHalf : at::kFloat;
  return at::for_blob(static_cast<char*>(t.data) + t.byte_offset, sizes)
      .strides(strides)
      .options(at::TensorOptions().dtype(type).device(kDevice))
      .target_device(kDevice)
      .make_tensor();
}

// What is added to the scores: the bias, or what scaled_dot_product_attention makes of a boolean mask.
at::Tensor addend(const attest_args& a, double hidden) {
  if (a.bias != nullptr) return view(*a.bias);
  const at::Tensor unseen = view(*a.mask).to(at::kBool).logical_not();
  return at::zeros(unseen.sizes(), at::TensorOptions().dtype(view(*a.q).scalar_type()).device(kDevice)).masked_fill_(unseen, hidden);
}
bool has_addend(const attest_args& a) { return a.bias != nullptr || a.mask != nullptr; }

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

struct Output {
  at::Tensor o, lse;  // lse: undefined where the operator gives none
};

Output flash(const attest_args& a) {
  static const Operator run("aten::_scaled_dot_product_flash_attention");
  const int64_t width = a.q->shape[3], missing = (8 - width % 8) % 8;
  const auto padded = [&](const DLTensor& t) { return missing == 0 ? view(t) : at::constant_pad_nd(view(t), {0, missing}); };
  const Values out = run({{"query", padded(*a.q)}, {"key", padded(*a.k)}, {"value", padded(*a.v)}, {"is_causal", a.causal != 0}, {"scale", double{a.scale}}});
  return {out[0].toTensor().narrow(3, 0, width), out[1].toTensor()};
}

Output cudnn(const attest_args& a) {
  static const Operator run("aten::_scaled_dot_product_cudnn_attention");
  constexpr double kHidden = -65504;  // scaled_dot_product_attention's own stand-in for minus infinity in this back end
  std::map<std::string, c10::IValue> given{{"query", view(*a.q)}, {"key", view(*a.k)}, {"value", view(*a.v)}, {"compute_log_sumexp", a.lse != nullptr}, {"is_causal", a.causal != 0}, {"scale", double{a.scale}}};
  if (has_addend(a)) given["attn_bias"] = addend(a, kHidden);
  const Values out = run(std::move(given));
  return {out[0].toTensor(), a.lse != nullptr ? out[1].toTensor() : at::Tensor()};
}

Output efficient(const attest_args& a) {
  static const Operator run("aten::_scaled_dot_product_efficient_attention");
  std::map<std::string, c10::IValue> given{{"query", view(*a.q)}, {"key", view(*a.k)}, {"value", view(*a.v)}, {"compute_log_sumexp", a.lse != nullptr}, {"is_causal", a.causal != 0}, {"scale", double{a.scale}}};
  if (has_addend(a)) {
    // Its rows start at multiples of 16 elements, and it has every batch and head.
    constexpr int64_t kRow = 16;
    const int64_t keys = a.k->shape[2];
    const at::Tensor bias = addend(a, kMinusInfinity);
    const at::Tensor rows = at::constant_pad_nd(bias.expand({bias.size(0), bias.size(1), bias.size(2), keys}), {0, kRow - keys % kRow});
    given["attn_bias"] = rows.narrow(3, 0, keys).expand({a.q->shape[0], a.q->shape[1], a.q->shape[2], keys});
  }
  const Values out = run(std::move(given));
  return {out[0].toTensor(), a.lse != nullptr ? out[1].toTensor() : at::Tensor()};
}

Output math(const attest_args& a) {
  static const Operator run("aten::_scaled_dot_product_attention_math");
  std::map<std::string, c10::IValue> given{{"query", view(*a.q)}, {"key", view(*a.k)}, {"value", view(*a.v)}, {"is_causal", a.causal != 0}, {"scale", double{a.scale}}, {"enable_gqa", a.q->shape[1] != a.k->shape[1]}};
  if (has_addend(a)) given["attn_mask"] = addend(a, kMinusInfinity);
  return {run(std::move(given))[0].toTensor(), at::Tensor()};
}

enum BackEnd : uint32_t { kFlash, kCudnn, kEfficient, kMath, kBackEnds };

constexpr int64_t kWidest = 256;

// Why scaled_dot_product_attention would not give this to the back end, or "".
const char* refusal(const attest_args& a, BackEnd by) {
  const int64_t d = a.q->shape[3], dv = a.v->shape[3], rows = a.q->shape[2], keys = a.k->shape[2];
  if (a.layout != 0) return "only the dense layout";
  if (a.mask != nullptr && a.bias != nullptr) return "either a boolean mask or a bias";
  if (a.causal != 0 && has_addend(a)) return "either causal or a mask";
  if (by == kMath) return "";
  for (const int64_t n : {a.q->shape[0], a.q->shape[1], rows, keys})
    if (n == 0) return "no size of 0";
  if (d > kWidest || dv > kWidest) return "D and Dv must be at most 256";
  if (by == kFlash) {
    if (d != dv) return "only D = Dv";
    if (a.causal != 0 && rows != keys) return "causal only where Nq = Nk";
    return "";
  }
  const int64_t unit = by == kEfficient && a.q->dtype.bits == 32 ? 4 : 8;
  if (d % unit != 0 || dv % unit != 0) return unit == 4 ? "D and Dv must be multiples of 4" : "D and Dv must be multiples of 8";
  if (by == kCudnn && keys == 1) return "more than one key";
  return "";
}

template <BackEnd by>
int32_t supports(const attest_args* a, char* reason, size_t size) {
  const char* why = refusal(*a, by);
  std::snprintf(reason, size, "%s", why);
  return why[0] == 0 ? 1 : 0;
}

template <BackEnd by>
attest_status forward(const attest_args* a, void* stream, char* message, size_t size) {
  constexpr Output (*kRun[kBackEnds])(const attest_args&) = {flash, cudnn, efficient, math};
  const auto say = [&](const std::string& words) { std::snprintf(message, size, "%s", words.substr(0, words.find('\n')).c_str()); };
  try {
    const c10::InferenceMode no_gradients;
    const c10::cuda::CUDAStreamGuard queue(c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream), kDevice.index()));
    const Output out = kRun[by](*a);
    view(*a->o).copy_(out.o);
    if (a->lse != nullptr) {
      TORCH_CHECK(out.lse.defined() && out.lse.numel() > 0, "the operator gave no LSE");
      // [B,H,rows], rows rounded up by some; cuDNN's has one more dimension.
      const at::Tensor lse = out.lse.dim() == 4 ? out.lse.squeeze(3) : out.lse;
      view(*a->lse).copy_(lse.narrow(2, 0, a->q->shape[2]));
    }
    return ATTEST_OK;
  } catch (const c10::Error& e) {
    const std::string words = e.what_without_backtrace();
    say(words);
    // What an operator checks of its arguments is a refusal; what goes wrong on the device is not.
    const bool broken = words.find("CUDA error") != std::string::npos || words.find("out of memory") != std::string::npos;
    return broken ? ATTEST_FAILED : ATTEST_UNSUPPORTED;
  } catch (const std::exception& e) {
    say(e.what());
    return ATTEST_FAILED;
  }
}

constexpr int32_t kTypes[] = {ATTEST_F16, ATTEST_BF16, ATTEST_F32};
constexpr int32_t kFlashWidths[] = {1, 3, 8, 16, 24, 32, 33, 40, 64, 72, 96, 100, 128, 129, 160, 192, 200, 256};
constexpr int32_t kWidths[] = {8, 16, 24, 32, 40, 64, 72, 96, 128, 136, 192, 256};

template <BackEnd by>
attest_kernel make_table(const char* name, uint32_t features) {
  attest_kernel t{};
  t.abi_version = ATTEST_ABI_VERSION;
  t.struct_size = sizeof(attest_kernel);
  t.name = name;
  t.version = TORCH_VERSION;
  t.device = kDLCUDA;
  t.features = features | ATTEST_CAUSAL | ATTEST_STRIDES;
  t.types = kTypes;
  t.type_count = by == kFlash || by == kCudnn ? 2 : 3;
  t.head_width_max = static_cast<int32_t>(kWidest);
  if (by == kFlash) {
    t.head_widths = kFlashWidths;
    t.head_width_count = static_cast<uint32_t>(std::size(kFlashWidths));
  } else if (by != kMath) {
    t.head_widths = kWidths;
    t.head_width_count = static_cast<uint32_t>(std::size(kWidths));
  }
  t.conventions.causal_top_left = 1;
  t.conventions.nonfinite_v_leaks = 1;  // a weight of 0 is multiplied with V all the same
  t.numerics.l_from = 1;
  if (by == kMath) {
    t.numerics.p_type = ATTEST_F32;
    t.conventions.batch_dependent = 1;  // cuBLAS chooses its kernel, and with it the order of its sums, by shape and strides
  }
  t.supports = supports<by>;
  t.forward = forward<by>;
  return t;
}

}  // namespace

extern "C" const attest_kernel* attest_kernel_get(uint32_t index) {
  static const attest_kernel tables[kBackEnds] = {
      make_table<kFlash>("flash", ATTEST_GROUPED_HEADS | ATTEST_LSE),
      make_table<kCudnn>("cudnn", ATTEST_GROUPED_HEADS | ATTEST_LSE | ATTEST_MASK | ATTEST_BIAS_INPUT_TYPE),
      make_table<kEfficient>("efficient", ATTEST_LSE | ATTEST_MASK | ATTEST_BIAS_INPUT_TYPE),
      make_table<kMath>("math", ATTEST_GROUPED_HEADS | ATTEST_MASK | ATTEST_BIAS_INPUT_TYPE | ATTEST_UNALIGNED)};
  return index < kBackEnds ? &tables[index] : nullptr;
}
