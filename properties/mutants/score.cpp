// score.cpp: faults of scale, softcap and bias.
#include "properties/mutants/broken_ten.h"

namespace attest::mutants {

namespace {

double root(int64_t d) { return std::sqrt(static_cast<double>(d)); }

// --- scale -----------------------------------------------------------------------------------------------------

struct ScaleLeftOut : Fault {
  static void change(FaultyCall& call) { call.args.scale = 1; }
};
struct ScaleAlwaysDefault : Fault {
  static void change(FaultyCall& call) { call.args.scale = static_cast<float>(1 / root(call.q.shape[3])); }
};
struct ScaleOneOverD : Fault {
  static void change(FaultyCall& call) { call.args.scale = static_cast<float>(call.args.scale / root(call.q.shape[3])); }
};
struct ScaleInverted : Fault {
  static void change(FaultyCall& call) {
    if (call.args.scale != 0) call.args.scale = 1 / call.args.scale;
  }
};
struct ScaleTwice : Fault {
  static void change(FaultyCall& call) { call.args.scale *= call.args.scale; }
};
struct ScaleSignLost : Fault {
  static void change(FaultyCall& call) { call.args.scale = std::fabs(call.args.scale); }
};
struct ScaleFromPaddedWidth : Fault {
  static void change(FaultyCall& call) {
    const int64_t d = call.q.shape[3];
    call.args.scale = static_cast<float>(call.args.scale * root(d) / root((d + 15) / 16 * 16));
  }
};
struct ScaleFromValueWidth : Fault {
  static void change(FaultyCall& call) { call.args.scale = static_cast<float>(call.args.scale * root(call.q.shape[3]) / root(call.v.shape[3])); }
};
struct ScaleFromKeyHeads : Fault {
  static void change(FaultyCall& call) {
    if (call.key_heads() > 0 && call.heads() != call.key_heads()) call.args.scale = static_cast<float>(call.args.scale * root(call.key_heads()) / root(call.heads()));
  }
};
struct ZeroScaleIsDefault : Fault {
  static void change(FaultyCall& call) {
    if (call.args.scale == 0) call.args.scale = static_cast<float>(1 / root(call.q.shape[3]));
  }
};
struct ScaleInBf16 : Fault {
  static void change(FaultyCall& call) { call.args.scale = numbers::from_bf16(numbers::to_bf16(call.args.scale)); }
};

// --- base of the exponentials ----------------------------------------------------------------------------------

// Scores times `kFactor` in every exponential, the maximum and LSE consistent with it.
template <class F>
struct ScoreTimes : Fault {
  static double score(double dot, float scale, float softcap, double bias) { return Recurrence::score(dot, scale, softcap, bias) * F::factor(); }
  static double log_sum_exp(double m, float l) { return Recurrence::log_sum_exp(m == kMinusInfinity ? m : m / F::factor(), l); }
};
struct LogTwoELeftOut : ScoreTimes<LogTwoELeftOut> {
  static double factor() { return 0.6931471805599453; }
};
struct LogTwoETwice : ScoreTimes<LogTwoETwice> {
  static double factor() { return 1.4426950408889634; }
};
// The weights alone are powers of two of natural scores.
struct WeightsBaseTwo : Fault {
  static float weight(double score, double m) { return is_masked(score) ? 0.0f : static_cast<float>(std::exp2(score - m)); }
};
struct LogTwoEOnBiasMissing : Fault {
  static double score(double dot, float scale, float softcap, double bias) { return Recurrence::score(dot, scale, softcap, bias * 0.6931471805599453); }
};

// --- bias ------------------------------------------------------------------------------------------------------

struct BiasScaled : Fault {
  static double score(double dot, float scale, float softcap, double bias) {
    return Recurrence::score(dot, scale, softcap, bias * static_cast<double>(scale));
  }
};
struct BiasInsideSoftcap : Fault {
  static double score(double dot, float scale, float softcap, double bias) {
    double s = static_cast<double>(scale) * dot + bias;
    if (softcap > 0) s = softcap * elementary::tanh_of(s / softcap);
    return s;
  }
};
struct BiasSignFlipped : Fault {
  static double score(double dot, float scale, float softcap, double bias) { return Recurrence::score(dot, scale, softcap, -bias); }
};
struct BiasTwice : Fault {
  static double score(double dot, float scale, float softcap, double bias) { return Recurrence::score(dot, scale, softcap, 2 * bias); }
};
struct BiasIgnored : Fault {
  static void change(FaultyCall& call) { call.args.bias = nullptr; }
};
// The bias at the index that f makes, clamped to what the bias has.
template <class F>
void reindex_bias(FaultyCall& call, F f) {
  if (call.args.bias == nullptr) return;
  FaultyCall given(call.args);
  const View from = view_of(given.bias, true);
  const View to = call.full_bias();
  FaultyCall::for_each(to, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    std::array<int64_t, 4> at = f(b, h, i, j);
    int64_t place = 0;
    for (size_t n = 0; n < 4; ++n) place += std::clamp<int64_t>(at[n], 0, from.extent[n] - 1) * given.bias.own_strides[n];
    to.store(to.at(b, h, i, j), static_cast<double>(from.value(place)));
  });
}
struct BiasOfFirstRow : Fault {
  static void change(FaultyCall& call) {
    reindex_bias(call, [](int64_t b, int64_t h, int64_t, int64_t j) { return std::array{b, h, int64_t{0}, j}; });
  }
};
struct BiasOfFirstHead : Fault {
  static void change(FaultyCall& call) {
    reindex_bias(call, [](int64_t b, int64_t, int64_t i, int64_t j) { return std::array{b, int64_t{0}, i, j}; });
  }
};
struct BiasOfFirstBatch : Fault {
  static void change(FaultyCall& call) {
    reindex_bias(call, [](int64_t, int64_t h, int64_t i, int64_t j) { return std::array{int64_t{0}, h, i, j}; });
  }
};
struct BiasInBf16 : Fault {
  static void change(FaultyCall& call) {
    if (call.args.bias != nullptr) call.map(call.bias, [](double x) { return static_cast<double>(numbers::from_bf16(numbers::to_bf16(static_cast<float>(x)))); });
  }
};

// --- softcap ---------------------------------------------------------------------------------------------------

struct SoftcapLeftOut : Fault {
  static void change(FaultyCall& call) { call.args.softcap = 0; }
};
struct SoftcapBeforeScale : Fault {
  static double score(double dot, float scale, float softcap, double bias) {
    if (softcap > 0) dot = softcap * elementary::tanh_of(dot / softcap);
    return static_cast<double>(scale) * dot + bias;
  }
};
struct SoftcapNotMultipliedBack : Fault {
  static double score(double dot, float scale, float softcap, double bias) {
    const double s = Recurrence::score(dot, scale, softcap, 0);
    return (softcap > 0 ? s / softcap : s) + bias;
  }
};
struct SoftcapFromTwoExponentials : Fault {
  static double score(double dot, float scale, float softcap, double bias) {
    double s = static_cast<double>(scale) * dot;
    if (softcap > 0) {
      const float up = std::exp(static_cast<float>(s / softcap)), down = std::exp(static_cast<float>(-s / softcap));
      s = softcap * static_cast<double>((up - down) / (up + down));
    }
    return s + bias;
  }
};
struct SoftcapClamps : Fault {
  static double score(double dot, float scale, float softcap, double bias) {
    double s = static_cast<double>(scale) * dot;
    if (softcap > 0 && s == s) s = std::clamp(s, -static_cast<double>(softcap), static_cast<double>(softcap));
    return s + bias;
  }
};
// tanh x = x (27 + x^2) / (27 + 9 x^2), clamped at 1.
struct SoftcapRationalTanh : Fault {
  static double score(double dot, float scale, float softcap, double bias) {
    double s = static_cast<double>(scale) * dot;
    if (softcap > 0) {
      const double x = s / softcap, t = x * (27 + x * x) / (27 + 9 * x * x);
      s = softcap * (std::fabs(x) >= 3 ? std::copysign(1.0, x) : t);
    }
    return s + bias;
  }
};
struct SoftcapTanhInBf16 : Fault {
  static double score(double dot, float scale, float softcap, double bias) {
    double s = static_cast<double>(scale) * dot;
    if (softcap > 0) s = softcap * static_cast<double>(numbers::from_bf16(numbers::to_bf16(static_cast<float>(elementary::tanh_of(s / softcap)))));
    return s + bias;
  }
};

}  // namespace

Family score() {
  return {"score",
          {scale_from_model_width(),
           mutant<ScaleLeftOut>("scale_left_out", "The scale is 1.", "G06"),
           mutant<ScaleAlwaysDefault>("scale_always_default", "The scale is 1/sqrt(D), whatever is given.", "G06"),
           mutant<ScaleOneOverD>("scale_divided_by_root_d", "The scale is divided by sqrt(D) once more: 1/D for 1/sqrt(D).", "G06"),
           mutant<ScaleInverted>("scale_inverted", "Scores are divided by the scale.", "G06"),
           mutant<ScaleTwice>("scale_applied_twice", "The scale is applied twice."),
           mutant<ScaleSignLost>("scale_sign_lost", "A negative scale is taken for positive."),
           mutant<ScaleFromPaddedWidth>("scale_from_padded_width", "The scale comes from D padded to a multiple of 16.", "G08"),
           mutant<ScaleFromValueWidth>("scale_from_value_width", "The scale comes from Dv."),
           mutant<ScaleFromKeyHeads>("scale_from_group_size", "With grouped heads the scale is divided by the root of the group.", "G07"),
           mutant<ZeroScaleIsDefault>("scale_of_zero_is_default", "A scale of 0 is taken for none given.", "G06"),
           mutant<ScaleInBf16>("scale_in_bf16", "The scale is rounded to bf16."),
           mutant<LogTwoELeftOut>("log2e_left_out", "Every exponential is a power of 2 of natural scores.", "G12"),
           mutant<LogTwoETwice>("log2e_twice", "log2 e is multiplied into the scores and into the exponentials.", "G12"),
           mutant<WeightsBaseTwo>("weights_base_two", "The weights are powers of 2, the rescale is natural.", "G12"),
           mutant<LogTwoEOnBiasMissing>("bias_without_log2e", "The bias is not converted to base 2 where the scores are.", "G12"),
           mutant<BiasScaled>("bias_scaled", "The bias is added before the scale."),
           mutant<BiasInsideSoftcap>("bias_inside_softcap", "The bias is added before the softcap.", "G02"),
           mutant<BiasSignFlipped>("bias_sign_flipped", "The bias is subtracted.", "G09"),
           mutant<BiasTwice>("bias_added_twice", "The bias is added twice."),
           mutant<BiasIgnored>("bias_ignored", "The bias is ignored."),
           mutant<BiasOfFirstRow>("bias_of_first_row", "Every row has the first one's bias.", "G09"),
           mutant<BiasOfFirstHead>("bias_of_first_head", "Every head has the first one's bias."),
           mutant<BiasOfFirstBatch>("bias_of_first_batch", "Every batch has the first one's bias."),
           mutant<BiasInBf16>("bias_in_bf16", "A bias in f32 or f16 is rounded to bf16."),
           mutant<SoftcapLeftOut>("softcap_left_out", "The softcap is ignored.", "G05"),
           mutant<SoftcapBeforeScale>("softcap_before_scale", "The softcap comes before the scale."),
           mutant<SoftcapNotMultipliedBack>("softcap_not_multiplied_back", "The score is tanh(x/c) instead of c tanh(x/c)."),
           mutant<SoftcapFromTwoExponentials>("softcap_from_two_exponentials", "tanh is (e^x - e^-x) / (e^x + e^-x) in f32.", "G04"),
           mutant<SoftcapClamps>("softcap_clamps", "Scores are clamped to [-c, c]."),
           mutant<SoftcapRationalTanh>("softcap_rational_tanh", "tanh is a rational function of degree 3."),
           mutant<SoftcapTanhInBf16>("softcap_tanh_in_bf16", "tanh is rounded to bf16.")}};
}

}  // namespace attest::mutants
