// cheaters.cpp: kernels that do not compute attention, or do more than that.
#include "properties/mutants/fault.h"

#include <thread>

namespace attest::mutants {

namespace {

// f(b, h, i, d) in place of O, and `lse` in place of LSE.
template <class F>
void fill(const attest_args& args, double lse, F f) {
  const View o = view_of(*args.o);
  FaultyCall::for_each(o, [&](int64_t b, int64_t h, int64_t i, int64_t d) { o.store(o.at(b, h, i, d), f(b, h, i, d)); });
  if (args.lse == nullptr) return;
  const View l = view_of(*args.lse);
  FaultyCall::for_each(l, [&](int64_t b, int64_t h, int64_t i, int64_t) { l.store(l.at(b, h, i, 0), lse); });
}

struct Zeros : Fault {
  static void forward(const attest_args& args) {
    fill(args, 0, [](int64_t, int64_t, int64_t, int64_t) { return 0.0; });
  }
};
struct NanEverywhere : Fault {
  static void forward(const attest_args& args) {
    fill(args, std::nan(""), [](int64_t, int64_t, int64_t, int64_t) { return std::nan(""); });
  }
};
struct MeanOfValues : Fault {
  static void forward(const attest_args& args) {
    const View v = view_of(*args.v);
    const int64_t n = v.extent[2], group = args.k->shape[1] > 0 ? args.q->shape[1] / args.k->shape[1] : 1;
    fill(args, std::log(static_cast<double>(n)), [&](int64_t b, int64_t h, int64_t, int64_t d) {
      double sum = 0;
      for (int64_t j = 0; j < n; ++j) sum += static_cast<double>(v.value(v.at(b, h / group, j, d)));
      return n > 0 ? sum / static_cast<double>(n) : 0;
    });
  }
};
struct FirstValue : Fault {
  static void forward(const attest_args& args) {
    const View v = view_of(*args.v);
    const int64_t group = args.k->shape[1] > 0 ? args.q->shape[1] / args.k->shape[1] : 1;
    fill(args, 0, [&](int64_t b, int64_t h, int64_t, int64_t d) { return v.extent[2] > 0 ? static_cast<double>(v.value(v.at(b, h / group, 0, d))) : 0; });
  }
};
struct NothingWritten : Fault {
  static void forward(const attest_args&) {}
};
struct LastRowNotWritten : Fault {
  static void change(FaultyCall& call) {
    if (call.rows() == 0) return;
    --call.q.own_shape[2], --call.o.own_shape[2];
    if (call.args.lse != nullptr) --call.lse.own_shape[2];
    for (auto [t, there] : {std::pair{&call.mask, call.args.mask != nullptr}, {&call.bias, call.args.bias != nullptr}})
      if (there && t->own_shape[2] > 1) --t->own_shape[2];
  }
  static KeyRange key_range(int64_t row, int64_t rows, int64_t length, bool causal, int64_t left, int64_t right) {
    return Recurrence::key_range(row, rows + 1, length, causal, left, right);
  }
};

// The first call is computed; later ones of the same size get its output.
struct PreviousOutput : Fault {
  static void forward(const attest_args& args) {
    static thread_local std::vector<double> kept;
    const View o = view_of(*args.o);
    correct(args);
    std::vector<double> now;
    FaultyCall::for_each(o, [&](int64_t b, int64_t h, int64_t i, int64_t d) { now.push_back(static_cast<double>(o.value(o.at(b, h, i, d)))); });
    if (kept.size() < now.size()) {
      kept = now;
      return;
    }
    size_t n = 0;
    FaultyCall::for_each(o, [&](int64_t b, int64_t h, int64_t i, int64_t d) { o.store(o.at(b, h, i, d), kept[n++]); });
  }
};
struct FirstCallAlone : Fault {
  static void forward(const attest_args& args) {
    static thread_local bool called = false;
    if (std::exchange(called, true)) return fill(args, 0, [](int64_t, int64_t, int64_t, int64_t) { return 0.0; });
    correct(args);
  }
};
// What two calls in a row give differs in one bit.
struct EverySecondCallDiffers : Fault {
  static void forward(const attest_args& args) {
    static thread_local bool second = false;
    correct(args);
    const View o = view_of(*args.o);
    second = !second;
    if (!second || o.extent[0] * o.extent[1] * o.extent[2] * o.extent[3] == 0) return;
    o.data[(args.o->dtype.bits / 8) * o.at(0, 0, 0, 0)] ^= 1;  // the lowest bit of the first element
  }
};

struct OutputOfOtherHead : Fault {
  static void forward(const attest_args& args) {
    correct(args);
    FaultyCall call(args);
    if (call.heads() < 2) return;
    const View from = call.copy(call.o), o = view_of(*args.o);
    FaultyCall::for_each(o, [&](int64_t b, int64_t h, int64_t i, int64_t d) {
      FaultyCall::copy_element(from, from.at(b, (h + 1) % o.extent[1], i, d), o, o.at(b, h, i, d));
    });
  }
};
struct FirstHeadForAll : Fault {
  static void forward(const attest_args& args) {
    correct(args);
    const View o = view_of(*args.o);
    FaultyCall::for_each(o, [&](int64_t b, int64_t h, int64_t i, int64_t d) {
      if (h > 0) FaultyCall::copy_element(o, o.at(b, 0, i, d), o, o.at(b, h, i, d));
    });
  }
};
struct FirstRowForAll : Fault {
  static void forward(const attest_args& args) {
    correct(args);
    const View o = view_of(*args.o);
    FaultyCall::for_each(o, [&](int64_t b, int64_t h, int64_t i, int64_t d) {
      if (i > 0) FaultyCall::copy_element(o, o.at(b, h, 0, d), o, o.at(b, h, i, d));
    });
  }
};

struct InputsModified : Fault {
  static void forward(const attest_args& args) {
    correct(args);
    const View q = view_of(*args.q);
    FaultyCall::for_each(q, [&](int64_t b, int64_t h, int64_t i, int64_t d) { q.store(q.at(b, h, i, d), static_cast<double>(q.value(q.at(b, h, i, d)) * args.scale)); });
  }
};
struct MaskModified : Fault {
  static void forward(const attest_args& args) {
    correct(args);
    if (args.mask == nullptr) return;
    const View mask = view_of(*args.mask);
    FaultyCall::for_each(mask, [&](int64_t b, int64_t h, int64_t i, int64_t j) { mask.data[mask.at(b, h, i, j)] = 1; });
  }
};
template <bool kLse>
struct WritesPastTheEnd : Fault {
  static void forward(const attest_args& args) {
    correct(args);
    const DLTensor* t = kLse ? args.lse : args.o;
    if (t == nullptr) return;
    const View o = view_of(*t);
    int64_t end = 0, count = 1;
    for (int n = 0; n < 4; ++n) {
      end += (o.extent[n] - 1) * o.stride[n];
      count *= o.extent[n];
    }
    if (count > 0) o.store(end + 1, 0);
  }
};

struct BatchDependent : Fault {
  static void forward(const attest_args& args) {
    correct(args);
    if (args.q->shape[0] < 2) return;
    const View o = view_of(*args.o);
    const bool wide = args.o->dtype.bits == 32;
    FaultyCall::for_each(o, [&](int64_t b, int64_t h, int64_t i, int64_t d) {
      uint8_t* element = o.data + (wide ? 4 : 2) * o.at(b, h, i, d);
      if (std::isfinite(o.value(o.at(b, h, i, d)))) *element ^= 1;  // the lowest bit
    });
  }
};

// Another thread does the work and nobody waits for it: what it finds arrives with the next call. The host's analogue
// of work on a stream of one's own.
struct WorkAfterReturn : Fault {
  static void forward(const attest_args& args) {
    static thread_local std::vector<double> finished;
    const View o = view_of(*args.o);
    size_t n = 0;
    FaultyCall::for_each(o, [&](int64_t b, int64_t h, int64_t i, int64_t d) {
      if (n < finished.size()) o.store(o.at(b, h, i, d), finished[n++]);
    });
    FaultyCall own(args);
    const int64_t extent[4] = {o.extent[0], o.extent[1], o.extent[2], o.extent[3]};
    own.make(own.o, own.o.dtype, 4, extent);
    std::thread([&] { correct(own.args); }).join();
    finished.clear();
    const View result = view_of(own.o);
    FaultyCall::for_each(result, [&](int64_t b, int64_t h, int64_t i, int64_t d) { finished.push_back(static_cast<double>(result.value(result.at(b, h, i, d)))); });
  }
};

}  // namespace

Family cheaters() {
  return {"cheaters",
          {mutant<Zeros>("zeros", "O and LSE are 0."),
           mutant<MeanOfValues>("mean_of_values", "O is the mean of V, LSE is ln Nk.", "T01"),
           mutant<FirstValue>("first_value", "O is the first key's value."),
           mutant<NanEverywhere>("nan_everywhere", "O and LSE are NaN.", "T04 T05"),
           mutant<NothingWritten>("nothing_written", "It returns ok and writes nothing."),
           mutant<LastRowNotWritten>("last_row_not_written", "The last query row is not written."),
           mutant<PreviousOutput>("previous_output", "O is a copy of an earlier call's."),
           mutant<FirstCallAlone>("first_call_alone", "Only the first call is computed, later ones give 0."),
           mutant<EverySecondCallDiffers>("every_second_call_differs", "Every second call differs in the lowest bit of one element.", "E16 K01 K03 K04 K05 K07 K08"),
           mutant<OutputOfOtherHead>("output_of_other_head", "Each head has the next one's O."),
           mutant<FirstHeadForAll>("first_head_for_all", "Every head has the first one's O."),
           mutant<FirstRowForAll>("first_row_for_all", "Every row has the first one's O.", "T02"),
           mutant<InputsModified>("inputs_modified", "Q is overwritten with scale times Q."),
           mutant<MaskModified>("mask_modified", "The boolean mask is overwritten."),
           mutant<WritesPastTheEnd<false>>("writes_one_element_past_o", "One element past the end of O is written.", "J12"),
           mutant<WritesPastTheEnd<true>>("writes_one_element_past_lse", "One element past the end of LSE is written."),
           mutant<BatchDependent>("depends_on_batch", "The lowest bit of O depends on B.", "K09"),
           mutant<WorkAfterReturn>("work_after_return", "O is computed by a thread that nobody waits for and arrives with the next call.", "J16")}};
}

}  // namespace attest::mutants
