// argument.cpp: a diagnosis in words.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "reference/diagnosis/diagnose.h"
#include "reference/diagnosis/transforms.h"

namespace attest {

namespace {

std::string format(const char* pattern, auto... values) {
  char text[400];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string number(double x) { return std::isnan(x) ? "NaN" : format("%.7g", x); }
std::string times(double misfit) { return std::isfinite(misfit) ? format("%.3g", misfit) : "infinitely many"; }

std::string element(const Discrepancy& d) {
  const std::string run = d.run == 0 ? "" : format(" of run %zu", d.run);
  if (d.column < 0) return format("LSE[%ld,%ld,%ld]", long(d.place.b), long(d.place.h), long(d.place.i)) + run;
  return format("O[%ld,%ld,%ld,%ld]", long(d.place.b), long(d.place.h), long(d.place.i), long(d.column)) + run;
}

std::string in_words(const Fault& f) {
  return std::string(sentence_of(f.family)) + (f.what.empty() ? "" : " (" + f.what + ")");
}

std::string in_words(const Finding& f) { return in_words(f.fault) + (f.excused > 0 ? ", in some rows only" : ""); }

// What a model says of the element that the contract explains least.
std::optional<Predicted> at_worst(const Evidence& evidence, const Fault& fault, const Discrepancy& d) {
  const EvidenceRun& run = evidence.runs[d.run];
  const std::optional<Problem> other = transformed(run.problem, fault.transform);
  Predictor predict(other ? *other : run.problem, evidence.conventions, run.numerics);
  const std::vector<int64_t> columns{std::max<int64_t>(d.column, 0)};
  const RowPrediction& row = predict.row(fault, d.place, columns);
  return d.column < 0 ? row.lse : row.o[0];
}

bool is_a_fact(Family f) {
  return f == Family::writes_outside || f == Family::leaves_unwritten || f == Family::changes_inputs || f == Family::does_not_run || f == Family::does_not_repeat;
}
bool is_by_comparison(const Finding& f) { return f.fault.what.starts_with("right when"); }

std::string run_in_words(size_t n) { return n == 0 ? "the case as found" : format("run %zu", n); }

std::string in_words(const UnequalRows& u) {
  using Apart = UnequalRows::Apart;
  const Discrepancy a{u.run_a, u.a, u.column, 0, 0, 0}, b{u.run_b, u.b, u.column, 0, 0, 0};
  std::string text = "row " + format("[%ld,%ld,%ld]", long(u.a.b), long(u.a.h), long(u.a.i)) + " of " + run_in_words(u.run_a) + " and row " +
                     format("[%ld,%ld,%ld]", long(u.b.b), long(u.b.h), long(u.b.i)) + " of " + run_in_words(u.run_b) + " have the same contents, K, V and masks, and " + element(a) + " = " +
                     number(u.seen_a) + " but " + element(b) + " = " + number(u.seen_b);
  if (u.apart == Apart::layout) text += "; the two runs differ in where their tensors lie in memory";
  if (u.apart == Apart::others) text += "; they differ in what stands beside them";
  return text;
}

std::string fact(const Evidence& evidence, const Diagnosis& d, Family f) {
  if (d.unequal) return in_words(*d.unequal);
  for (const EvidenceRun& run : evidence.runs) {
    if (f == Family::writes_outside && !run.seen.overrun.empty()) return run.seen.overrun;
    if (f == Family::leaves_unwritten && !run.seen.unwritten.empty()) return run.seen.unwritten;
    if (f == Family::changes_inputs && !run.seen.input_change.empty()) return run.seen.input_change;
    if (f == Family::does_not_run && run.seen.status != RunStatus::ok) return run.seen.message;
  }
  if (f == Family::does_not_repeat) return "the same call twice gave different bits";
  return "";
}

std::string runs_in_words(const Evidence& evidence) {
  int64_t related = 0, keys = 0, tiles = 0, separating = 0, repeated = 0, others = 0, larger = 0, finer = 0, repacked = 0;
  for (const EvidenceRun& run : evidence.runs) {
    related += run.purpose == Purpose::related;
    keys += run.purpose == Purpose::key_indicators;
    tiles += run.purpose == Purpose::tile_indicators;
    separating += run.purpose == Purpose::separating;
    repeated += run.purpose == Purpose::repeated;
    others += run.purpose == Purpose::others_replaced;
    larger += run.purpose == Purpose::larger;
    finer += run.purpose == Purpose::finer;
    repacked += run.purpose == Purpose::repacked;
  }
  std::string text = "the case itself";
  const auto add = [&](int64_t n, const char* what) {
    if (n > 0) text += format(", %ld %s", long(n), what);
  };
  add(related, "of the other problems of the property");
  add(keys, "with V = key indicators on the same Q and K");
  add(tiles, "with V = indicators of blocks of keys on the same Q and K");
  add(separating, "with other contents");
  add(larger, "of a larger problem of the same kind");
  add(finer, "in f32");
  add(repacked, "with packed tensors");
  add(repeated, "repeated");
  add(others, "with everything beside one row replaced");
  return text;
}

void append_state(std::string& text, const WrongState& w) {
  const TraceRecord& r = w.record;
  const std::string where = format("batch %ld, head %ld, row %ld, split %ld, keys %ld to %ld", long(w.place.b), long(w.place.h), long(w.place.i), long(r.split),
                                   long(r.key_begin), long(r.key_end - 1));
  if (w.what.starts_with("a visit")) {
    text += "The first wrong state of the trace: " + w.what + ", at " + where + ".\n";
    return;
  }
  text += "The first wrong state of the trace is at " + where + " (visit " + std::to_string(r.sequence) + "): m " + number(r.m) + ", l " + number(r.l) + ", scale " + number(r.scale) +
          "; right are m " + number(w.m) + ", l " + number(w.l) + ", scale " + number(w.factor) + ". What goes wrong first is " + w.what + ".\n";
}

void append_weights(std::string& text, const Diagnosis& d) {
  if (d.weights.empty()) return;
  text += "Measured with key indicators, relative to the other keys of the row:\n";
  const size_t most = 6;
  for (size_t n = 0; n < std::min(d.weights.size(), most); ++n) {
    const MeasuredWeight& w = d.weights[n];
    const std::string keys = w.end - w.begin == 1 ? format("key %ld", long(w.begin)) : format("keys %ld to %ld", long(w.begin), long(w.end - 1));
    text += format("  row [%ld,%ld,%ld]: ", long(w.place.b), long(w.place.h), long(w.place.i)) + keys +
            (std::isinf(w.ratio) ? ", masked, got weight\n" : w.ratio == 0 ? " got nothing\n" : format(" got %.4g times their weight\n", w.ratio));
  }
  if (d.weights.size() > most) text += format("  and %zu more runs of keys\n", d.weights.size() - most);
}

// Lines of at most this many columns, broken at blanks; a line's own indentation is kept.
constexpr size_t kWidth = 96;
std::string wrapped(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    const std::string indent(line.find_first_not_of(' ') == std::string::npos ? 0 : line.find_first_not_of(' '), ' ');
    while (line.size() > kWidth) {
      const size_t blank = line.rfind(' ', kWidth);
      if (blank == std::string::npos || blank <= indent.size()) break;
      out += line.substr(0, blank) + "\n";
      line = indent + line.substr(blank + 1);
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
    at = end + 1;
  }
  return out;
}

std::string unwrapped(const Evidence& evidence, const Diagnosis& d) {
  std::string text;
  if (d.explaining.empty() && d.outputs_right && !d.wrong_state)
    return "The outputs of this case alone are what the contract asks for, to " + times(d.contract_misfit) + " tolerances; no fault is needed to explain them.\n";
  if (d.explaining.empty()) {
    text = format("None fits: of %ld models none explains all %ld elements of %ld rows that were compared.\n", long(d.models), long(d.elements), long(d.rows));
    if (!d.outputs_right)
      text += "The contract gives " + element(d.contract_worst) + " = " + number(d.contract_worst.predicted) + "; " + number(d.contract_worst.seen) + " was seen, " +
              times(d.contract_misfit) + " tolerances away.\n";
    for (const Finding& f : d.rejected) {
      text += "Let the kernel be one that " + in_words(f.fault) + ". Then " + element(f.worst) + " = " + number(f.worst.predicted) + ". However, " + number(f.worst.seen) +
              " was seen, " + times(f.worst.misfit) + " tolerances away.\n";
    }
    append_weights(text, d);
    if (d.wrong_state) append_state(text, *d.wrong_state);
    return text;
  }

  const Finding& top = d.explaining.front();
  if (d.unequal) {
    text = format(d.outputs_right ? "Each output by itself is what the contract asks for; no model explains what differs between runs.\n"
                                  : "None fits: none of %ld models explains the outputs.\n", long(d.models));
    text += "A fact is known, though not how it comes about: the kernel " + in_words(top) + " [" + std::string(name_of(top.fault.family)) + "].\n";
  } else {
    text = (d.certain ? "Diagnosis: the kernel " : "Most likely: the kernel ") + in_words(top) + " [" + std::string(name_of(top.fault.family)) + "].\n";
  }
  if (is_by_comparison(top)) {
    text += "Seen: the case is wrong, " + element(d.contract_worst) + " = " + number(d.contract_worst.seen) + " for " + number(d.contract_worst.predicted) + ", and " + top.fault.what + ".\n";
  } else if (d.unequal || is_a_fact(top.fault.family)) {
    text += "Seen: " + fact(evidence, d, top.fault.family) + ".\n";
  } else {
    text += "Let the kernel be one that " + in_words(top) + ". ";
    if (!d.outputs_right) {
      if (const auto says = at_worst(evidence, top.fault, d.contract_worst)) {
        const std::string value = says->overflow ? "overflows" : std::isinf(says->tolerance) ? "is free" : "= " + number(says->value);
        text += "Then " + element(d.contract_worst) + " " + value + ", and " + number(d.contract_worst.seen) + " was seen; ";
      }
    } else if (d.pooled) {
      text += "Then each output is within its tolerance, as seen; LSE of " + format("%ld rows lies %.3g from what the contract gives, in the median, and %.3g", long(d.pooled->rows), d.pooled->from_contract, d.pooled->from_model) + " from this model; ";
    } else {
      text += "Then the outputs stay right and the trace does not; ";
    }
    text += format("all %ld elements of %ld rows lie within %.2g tolerances of this model (runs: ", long(top.elements), long(d.rows), top.misfit) + runs_in_words(evidence) + "). ";
    if (!d.outputs_right) text += "However, the contract gives " + number(d.contract_worst.predicted) + " there, " + times(d.contract_misfit) + " tolerances away. ";
    text += "\n";
  }
  if (d.measured_scale) text += format("The scale was measured as %.6g times the given one.\n", *d.measured_scale);
  if (d.explaining.size() > 1) {
    text += "This evidence does not tell it from a kernel that\n";
    for (size_t n = 1; n < d.explaining.size(); ++n) text += "  " + in_words(d.explaining[n]) + " [" + std::string(name_of(d.explaining[n].fault.family)) + "]\n";
  }
  for (size_t n = 0; n < std::min<size_t>(d.rejected.size(), 2); ++n) {
    const Finding& f = d.rejected[n];
    if (!f.explains && f.worst.misfit > 0)
      text += "Not one that " + in_words(f.fault) + ": then " + element(f.worst) + " = " + number(f.worst.predicted) + ", and " + number(f.worst.seen) + " was seen, " +
              times(f.worst.misfit) + " tolerances away.\n";
  }
  append_weights(text, d);
  if (d.wrong_state) append_state(text, *d.wrong_state);
  return text;
}

}  // namespace

std::string argument(const Evidence& evidence, const Diagnosis& d) { return wrapped(unwrapped(evidence, d)); }

}  // namespace attest
