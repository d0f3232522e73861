// sink.cpp: faults of the sink.
#include "properties/mutants/fault.h"

#include <algorithm>

namespace attest::mutants {

namespace {

// f(sink, h) in place of each sink.
template <class F>
void map_sink(FaultyCall& call, F f) {
  if (call.args.sink == nullptr) return;
  float* sink = call.own_sink();
  const std::vector<float> given(sink, sink + call.heads());
  for (int64_t h = 0; h < call.heads(); ++h) sink[h] = static_cast<float>(f(given, h));
}
double at(const std::vector<float>& sink, int64_t h) { return static_cast<double>(sink[static_cast<size_t>(h)]); }

struct LeftOut : Fault {
  static void change(FaultyCall& call) { call.args.sink = nullptr; }
};
struct LeftOutWithoutSplits : Fault {
  static void change(FaultyCall& call) {
    if (call.splits() == 1) call.args.sink = nullptr;
  }
};
struct LeftOutWithWindow : Fault {
  static void change(FaultyCall& call) {
    if (call.args.window_left >= 0) call.args.sink = nullptr;
  }
};
struct LeftOutIn16Bits : Fault {
  static void change(FaultyCall& call) {
    if (call.q.dtype.bits == 16) call.args.sink = nullptr;
  }
};
struct Twice : Fault {
  static void change(FaultyCall& call) {
    map_sink(call, [](const auto& sink, int64_t h) { return at(sink, h) + 0.6931471805599453; });
  }
};
struct PerSplit : Fault {
  static void change(FaultyCall& call) {
    const double more = std::log(static_cast<double>(call.splits()));
    map_sink(call, [&](const auto& sink, int64_t h) { return at(sink, h) + more; });
  }
};
struct Scaled : Fault {
  static void change(FaultyCall& call) {
    const double scale = static_cast<double>(call.args.scale);
    map_sink(call, [&](const auto& sink, int64_t h) { return at(sink, h) == Recurrence::kMinusInfinity ? at(sink, h) : at(sink, h) * scale; });
  }
};
struct Capped : Fault {
  static void change(FaultyCall& call) {
    const double c = static_cast<double>(call.args.softcap);
    map_sink(call, [&](const auto& sink, int64_t h) { return c > 0 ? c * std::tanh(at(sink, h) / c) : at(sink, h); });
  }
};
struct OfKeyHead : Fault {
  static void change(FaultyCall& call) {
    const int64_t group = call.key_heads() > 0 ? call.heads() / call.key_heads() : 1;
    map_sink(call, [&](const auto& sink, int64_t h) { return at(sink, h / group); });
  }
};
struct OfFirstHead : Fault {
  static void change(FaultyCall& call) {
    map_sink(call, [](const auto& sink, int64_t) { return at(sink, 0); });
  }
};
struct MinusInfinityIsZero : Fault {
  static void change(FaultyCall& call) {
    map_sink(call, [](const auto& sink, int64_t h) { return at(sink, h) == Recurrence::kMinusInfinity ? 0 : at(sink, h); });
  }
};
struct LogTwoEMissing : Fault {
  static void change(FaultyCall& call) {
    map_sink(call, [](const auto& sink, int64_t h) { return at(sink, h) * 0.6931471805599453; });
  }
};

// Replaces what one of two runs wrote: LSE, or the rows without keys.
template <class F>
void correct_then(const attest_args& args, F f) {
  correct(args);
  if (args.sink != nullptr) f();
}
void lse_alone(const attest_args& args, FaultyCall& other) {
  if (args.lse == nullptr) return;
  const View o = view_of(*args.o);
  const int64_t extent[4] = {o.extent[0], o.extent[1], o.extent[2], o.extent[3]};
  other.make(other.o, other.o.dtype, 4, extent);
  other.args.trace = nullptr;
  correct(other.args);
}
struct NotInLse : Fault {
  static void forward(const attest_args& args) {
    correct_then(args, [&] {
      FaultyCall other(args);
      other.args.sink = nullptr;
      lse_alone(args, other);
    });
  }
};
struct InLseAlone : Fault {
  static void forward(const attest_args& args) {
    FaultyCall without(args);
    without.args.sink = nullptr;
    correct(without.args);
    if (args.sink == nullptr) return;
    FaultyCall other(args);
    lse_alone(args, other);
  }
};
// Its mass takes the first key's value along.
struct HasFirstValue : Fault {
  static void forward(const attest_args& args) {
    correct_then(args, [&] {
      FaultyCall without(args);
      without.args.sink = nullptr;
      without.args.trace = nullptr;
      const View o = view_of(*args.o), v = view_of(*args.v);
      if (o.extent[0] * o.extent[1] * o.extent[2] == 0 || v.extent[2] == 0) return;
      const int64_t lse_extent[3] = {o.extent[0], o.extent[1], o.extent[2]};
      Descriptor with, bare;
      without.make(with, {kDLFloat, 32, 1}, 3, lse_extent);
      without.make(bare, {kDLFloat, 32, 1}, 3, lse_extent);
      FaultyCall both(args);
      const int64_t extent[4] = {o.extent[0], o.extent[1], o.extent[2], o.extent[3]};
      for (auto [call, lse] : {std::pair{&both, &with}, {&without, &bare}}) {
        call->make(call->o, call->o.dtype, 4, extent);
        call->args.trace = nullptr;
        call->args.lse = lse;
        correct(call->args);
      }
      const View a = view_of(with), b = view_of(bare);
      const int64_t group = args.q->shape[1] / args.k->shape[1];
      FaultyCall::for_each(o, [&](int64_t n, int64_t h, int64_t i, int64_t d) {
        const double mass = -std::expm1(static_cast<double>(b.value(b.at(n, h, i, 0))) - static_cast<double>(a.value(a.at(n, h, i, 0))));
        const double value = static_cast<double>(v.value(v.at(n, h / group, 0, d)));
        if (mass > 0) o.store(o.at(n, h, i, d), static_cast<double>(o.value(o.at(n, h, i, d))) + mass * value);
      });
    });
  }
};

}  // namespace

Family sink() {
  return {"sink",
          {mutant<LeftOut>("sink_left_out", "The sink is ignored.", "C05 C07 C08"),
           mutant<LeftOutWithoutSplits>("sink_left_out_without_splits", "The sink counts only where the keys are split.", "C06"),
           mutant<LeftOutWithWindow>("sink_left_out_with_window", "The sink is ignored where a window is given.", "C08"),
           mutant<LeftOutIn16Bits>("sink_left_out_in_16_bits", "The sink is ignored for inputs of 16 bits.", "C07"),
           mutant<Twice>("sink_counted_twice", "The sink is merged in twice.", "C05"),
           mutant<PerSplit>("sink_counted_per_split", "Every split merges the sink in.", "C05"),
           mutant<Scaled>("sink_scaled", "The scale is applied to the sink."),
           mutant<Capped>("sink_capped", "The softcap is applied to the sink."),
           mutant<OfKeyHead>("sink_of_key_head", "The sink is read at the key head's index."),
           mutant<OfFirstHead>("sink_of_first_head", "Every head has the first one's sink."),
           mutant<MinusInfinityIsZero>("sink_minus_infinity_is_zero", "A sink of -inf is taken for 0."),
           mutant<LogTwoEMissing>("sink_without_log2e", "The sink is not converted to base 2 where the scores are.", "G12"),
           mutant<NotInLse>("lse_without_sink", "LSE leaves the sink out, O does not."),
           mutant<InLseAlone>("sink_in_lse_alone", "LSE has the sink, O does not.", "C06"),
           mutant<HasFirstValue>("sink_has_value", "The sink's mass carries the first key's value.")}};
}

}  // namespace attest::mutants
