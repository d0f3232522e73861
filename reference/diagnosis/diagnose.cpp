#include "reference/diagnosis/diagnose.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "reference/diagnosis/candidates.h"
#include "reference/diagnosis/equal_rows.h"
#include "reference/diagnosis/measured.h"
#include "reference/diagnosis/transforms.h"

namespace attest {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kWorkOnCase = 2e7, kWorkPerRun = 4e6;  // multiplications spent on finding out which rows to look at
constexpr size_t kWrongRows = 10, kOtherRows = 8;
constexpr size_t kIndicatorRows = 5, kIndicatorRightRows = 2;
constexpr double kHeavy = 40;  // tolerances that a weight must have to be measured
constexpr size_t kColumns = 16, kIndicatorColumns = 64;

// The rows and columns of one run that models are held to.
struct Sample {
  const EvidenceRun* run = nullptr;
  size_t number = 0;
  std::unique_ptr<Predictor> predict;
  // Of the problems that faults solve in its place.
  struct Other {
    Problem problem;
    std::unique_ptr<Predictor> predict;
  };
  std::map<Transform, std::unique_ptr<Other>> others;
  const Conventions* conventions = nullptr;
  std::vector<RowPlace> rows;  // the least right ones first
  std::vector<bool> wrong;     // which of them the contract does not explain
  double misfit = 0;           // the contract's largest
  // What the contract gives for each row, columns and then LSE, and whether that is not what was seen.
  struct Due {
    double value;
    bool wrong;
  };
  std::vector<std::vector<Due>> due;
  std::vector<int64_t> columns;
  std::vector<std::pair<size_t, size_t>> trace;  // of each row, [first, last) of its records
  std::optional<Walk> told;    // the walk, where the trace tells it

  // nullptr where the fault would change nothing here.
  Predictor* predictor(Transform transform) {
    if (transform == Transform::none) return predict.get();
    const auto [at, made] = others.try_emplace(transform);
    if (made)
      if (auto problem = transformed(run->problem, transform)) {
        at->second = std::make_unique<Other>();
        at->second->problem = std::move(*problem);
        at->second->predict = std::make_unique<Predictor>(at->second->problem, *conventions, run->numerics);
      }
    return at->second ? at->second->predict.get() : nullptr;
  }
  double o(const RowPlace& at, int64_t column) const {
    const Shape& s = run->problem.shape;
    return run->seen.o[static_cast<size_t>(((at.b * s.hq + at.h) * s.nq + at.i) * s.dv + column)];
  }
  const double* lse(const RowPlace& at) const {
    const Shape& s = run->problem.shape;
    return run->seen.lse.empty() ? nullptr : &run->seen.lse[static_cast<size_t>((at.b * s.hq + at.h) * s.nq + at.i)];
  }
};

Walk first_walk(const EvidenceRun& run, bool use_trace) {
  return possible_walks(run.problem, use_trace ? run.seen.trace : std::vector<TraceRecord>{}).front();
}

// Indicator runs, which are many, take the rows of the case as it was found.
Sample sample_of(const EvidenceRun& run, size_t number, const Conventions& conventions, bool use_trace, const Sample* found = nullptr) {
  Sample sample;
  sample.run = &run;
  sample.number = number;
  sample.conventions = &conventions;
  const Problem& p = run.problem;
  const Shape& s = p.shape;
  sample.predict = std::make_unique<Predictor>(p, conventions, run.numerics);
  if (s.rows() == 0 || run.seen.o.empty()) return sample;
  std::vector<int64_t> all(static_cast<size_t>(s.dv));
  std::iota(all.begin(), all.end(), 0);
  const size_t columns = run.purpose == Purpose::key_indicators || run.purpose == Purpose::tile_indicators ? kIndicatorColumns : kColumns;
  const auto take_trace = [&] {
    if (use_trace && run.seen.traced)
      for (const RowPlace& at : sample.rows) {
        const auto key = [](const TraceRecord& r) { return RowPlace{r.b, r.h, r.row}; };
        const auto& trace = run.seen.trace;
        const auto from = std::lower_bound(trace.begin(), trace.end(), at, [&](const TraceRecord& r, const RowPlace& x) { return key(r) < x; });
        auto to = from;
        while (to != trace.end() && key(*to) == at) ++to;
        sample.trace.emplace_back(from - trace.begin(), to - trace.begin());
      }
  };
  if (found != nullptr) {
    size_t right = 0, wrong_rows = 0;
    for (size_t n = 0; n < found->rows.size(); ++n)
      if (found->wrong[n] ? wrong_rows++ < kIndicatorRows : right++ < kIndicatorRightRows) {
        sample.rows.push_back(found->rows[n]);
        sample.wrong.push_back(found->wrong[n]);
      }
    sample.columns = all;
    take_trace();
    return sample;
  }
  const double work = double(s.nk) * double(s.d + 4 * s.dv) + 1;
  const auto rows = std::clamp<int64_t>(static_cast<int64_t>((number == 0 ? kWorkOnCase : kWorkPerRun) / work), 1, s.rows());
  Fault contract;
  contract.walk = first_walk(run, use_trace);

  struct Judged {
    RowPlace place;
    double misfit;
  };
  std::vector<Judged> judged;
  std::vector<double> column_misfit(all.size(), 0.0);
  for (int64_t n = 0; n < rows; ++n) {
    const int64_t r = n * s.rows() / rows;
    const RowPlace at{r / (s.hq * s.nq), r / s.nq % s.hq, r % s.nq};
    if (sample.predict->kind(at) == RowKind::out_of_range) continue;
    const RowPrediction& right = sample.predict->row(contract, at, all);
    double worst = 0;
    for (size_t d = 0; d < all.size(); ++d) {
      const double misfit = right.o[d].misfit(sample.o(at, all[d]));
      worst = std::max(worst, misfit);
      column_misfit[d] = std::max(column_misfit[d], misfit);
    }
    if (const double* lse = sample.lse(at)) worst = std::max(worst, right.lse.misfit(*lse));
    judged.push_back({at, worst});
    sample.misfit = std::max(sample.misfit, worst);
  }
  std::stable_sort(judged.begin(), judged.end(), [](const Judged& a, const Judged& b) { return a.misfit > b.misfit; });
  // The wrong ones spread over their number, not only the worst: rows of one head may be alike. Then right ones.
  const auto wrong = static_cast<size_t>(std::count_if(judged.begin(), judged.end(), [](const Judged& j) { return j.misfit > kFits; }));
  const auto take = [&](size_t begin, size_t end, size_t most) {
    const size_t count = std::min(most, end - begin);
    for (size_t n = 0; n < count; ++n) {
      const Judged& j = judged[begin + n * (end - begin) / count];
      sample.rows.push_back(j.place);
      sample.wrong.push_back(j.misfit > kFits);
    }
  };
  take(0, wrong, kWrongRows);
  take(wrong, judged.size(), kOtherRows);

  if (all.size() <= columns) {
    sample.columns = all;
  } else {
    std::vector<int64_t> by_misfit = all;
    std::stable_sort(by_misfit.begin(), by_misfit.end(), [&](int64_t a, int64_t b) { return column_misfit[static_cast<size_t>(a)] > column_misfit[static_cast<size_t>(b)]; });
    std::set<int64_t> chosen(by_misfit.begin(), by_misfit.begin() + static_cast<int64_t>(columns / 2));
    for (size_t n = 0; n < columns / 2; ++n) chosen.insert(static_cast<int64_t>(n * all.size() / (columns / 2)));
    sample.columns.assign(chosen.begin(), chosen.end());
  }

  take_trace();
  return sample;
}

// The largest misfit of a row's states, and which record it is; visits that do not match are infinitely wrong.
struct StateMisfit {
  double misfit = 0;
  size_t record = 0;
  double predicted = 0, seen = 0;
  std::string what;
  PredictedVisit visit;
};
StateMisfit compare_states(const Sample& sample, size_t row, const RowPrediction& model) {
  StateMisfit worst;
  const auto [from, to] = sample.trace[row];
  size_t visit = 0;
  for (size_t n = from; n < to; ++n) {
    const TraceRecord& r = sample.run->seen.trace[n];
    if (visit >= model.visits.size() || model.visits[visit].split != r.split || model.visits[visit].begin != r.key_begin || model.visits[visit].end != r.key_end) {
      // A visit of a tile without keys may leave a record: it must change nothing.
      const bool first = n == from || sample.run->seen.trace[n - 1].split != r.split;
      const bool unchanged = first ? r.l == 0 : same_value(r.m, sample.run->seen.trace[n - 1].m) && same_value(r.l, sample.run->seen.trace[n - 1].l);
      if (unchanged) continue;
      return {kInfinity, n, 0, r.l, "a visit that there should not be", {}};
    }
    const PredictedVisit& v = model.visits[visit++];
    const auto check = [&](const char* what, double predicted, double tolerance, double seen) {
      const double misfit = Predicted{predicted, tolerance, false}.misfit(seen);
      if (misfit > worst.misfit) worst = {misfit, n, predicted, seen, what, v};
    };
    check("m", v.m, v.m_tolerance + 0x1p-126, r.m);
    check("scale", v.factor, std::fabs(v.factor) * (0x1p-21 + 2 * v.m_tolerance) + 0x1p-126, r.scale);
    check("l", v.l, v.l_tolerance + 0x1p-22 * std::fabs(v.l), r.l);
    if (worst.misfit > kFits) return worst;
  }
  if (visit < model.visits.size()) return {kInfinity, to, 1, 0, "a visit that is missing", model.visits[visit]};
  return worst;
}

bool states_are_known(const Fault& f) {
  return f.fold != Fold::tiles_averaged && f.fold != Fold::tiles_added && f.constant == Constant::none && f.place == PlaceRule::right && !f.sum_as_lse_shows && f.exponent_factor == 1 &&
         f.special == Special::right && f.empty_row == EmptyRow::right && f.merge != Merge::empty_nan;
}

// The fault as it is in one run.
Fault in_run(const Fault& fault, const Problem& found, const Sample& sample) {
  Fault f = carried_over(fault, found, sample.run->problem);
  if (sample.told) f.walk.tile = sample.told->tile, f.walk.splits = sample.told->splits, f.walk.cut = sample.told->cut;
  return f;
}

// Is it open whether the run was cut into splits, as it is in another? Then both are tried.
bool may_be_whole(const Fault& f, const Sample& sample) { return f.walk.splits > 1 && !sample.told && sample.run->problem.choice.splits == 0; }

bool says_nan(const Fault& f) { return f.special != Special::right || f.empty_row != EmptyRow::right || f.merge == Merge::empty_nan; }

// Holds one model to all samples; stops where it fails. A row that the contract explains may be excused: then the fault
// is one of some rows only, and no run may be without a wrong row that the model explains, if it has a wrong row.
Finding hold(const Fault& fault, std::vector<Sample>& samples, bool excuse) {
  Finding finding;
  finding.fault = fault;
  finding.explains = true;
  int64_t free = 0, differing = 0, indifferent = 0;  // elements that the contract does not explain; of these, where the model allows the contract's value too
  bool changes_something = fault.transform == Transform::none;
  const auto hold_to = [&](Sample& sample, const Fault& f) {
    Predictor* predict = sample.predictor(f.transform);
    changes_something = changes_something || predict != nullptr;
    if (predict == nullptr) {
      if (&sample == &samples.front()) {
        finding.explains = false;
        return;
      }
      predict = sample.predict.get();
    }
    for (size_t n = 0; n < sample.rows.size(); ++n) {
      if (excuse && !sample.wrong[n]) {
        ++finding.excused;
        continue;
      }
      const RowPlace& at = sample.rows[n];
      const RowPrediction& model = predict->row(f, at, sample.columns, sample.lse(at));
      const auto note = [&](size_t element, int64_t column, const Predicted& e, double seen) {
        ++finding.elements;
        const double misfit = e.misfit(seen);
        if (n < sample.due.size() && sample.due[n][element].wrong) {
          ++differing;
          indifferent += e.misfit(sample.due[n][element].value) <= kFits;
        }
        free += sample.wrong[n] && (e.overflow || std::isinf(e.tolerance));
        finding.telling += sample.wrong[n];
        if (misfit > finding.misfit) finding.misfit = misfit, finding.worst = {sample.number, at, column, e.value, seen, misfit};
        if (misfit > kFits) finding.explains = false;
      };
      for (size_t d = 0; d < sample.columns.size(); ++d) note(d, sample.columns[d], model.o[d], sample.o(at, sample.columns[d]));
      if (const double* lse = sample.lse(at)) note(sample.columns.size(), -1, model.lse, *lse);
      if (!sample.trace.empty() && states_are_known(f)) {
        const StateMisfit states = compare_states(sample, n, model);
        if (!(states.misfit <= kFits)) finding.explains_trace = false;
      }
      if (!finding.explains) return;
    }
  };
  for (Sample& sample : samples) {
    Fault f = in_run(fault, samples.front().run->problem, sample);
    const auto before = std::tuple(finding, free, differing, indifferent);
    hold_to(sample, f);
    if (!finding.explains && &sample != &samples.front() && may_be_whole(f, sample)) {
      Finding as_split = finding;
      std::tie(finding, free, differing, indifferent) = before;
      f.walk.splits = 1;
      hold_to(sample, f);
      if (!finding.explains) finding = std::move(as_split);
    }
    if (!finding.explains) return finding;
  }
  // A model that says nothing where it counts explains nothing.
  if (2 * free > finding.telling && fault.constant == Constant::none && !says_nan(fault)) finding.overflows = true;
  finding.vague = 2 * indifferent > differing || fault.sum_as_lse_shows || fault.empty_row == EmptyRow::anything;
  return finding;
}

// Runs of other contents, geometry or type, where a fault need not show.
bool may_be_right(Purpose p) { return p == Purpose::related || p == Purpose::larger || p == Purpose::finer || p == Purpose::separating; }
// Of these the models that explained the case said beforehand what they would give.
bool is_a_test(Purpose p) { return p == Purpose::larger || p == Purpose::separating; }

// Does the model say that a run is right, as it is?
bool expects_right(const Fault& on_case, const Problem& found, Sample& sample) {
  Fault fault = in_run(on_case, found, sample);
  Predictor* predict = sample.predictor(fault.transform);
  if (predict == nullptr) return true;
  const auto right = [&] {
    for (const RowPlace& at : sample.rows) {
      const RowPrediction& model = predict->row(fault, at, sample.columns, sample.lse(at));
      for (size_t d = 0; d < sample.columns.size(); ++d)
        if (!(model.o[d].misfit(sample.o(at, sample.columns[d])) <= kFits)) return false;
      if (const double* lse = sample.lse(at); lse != nullptr && !(model.lse.misfit(*lse) <= kFits)) return false;
    }
    return true;
  };
  if (right()) return true;
  if (!may_be_whole(fault, sample)) return false;
  fault.walk.splits = 1;
  return right();
}

// Keys at which a split seems to begin: where the measured weights change for the rest of a row.
std::vector<int64_t> boundaries(const std::vector<MeasuredWeight>& weights, int64_t keys) {
  std::set<int64_t> at;
  for (const MeasuredWeight& w : weights) {
    if (w.begin > 0) at.insert(w.begin);
    if (w.end < keys) at.insert(w.end);
  }
  return {at.begin(), at.end()};
}

// The rows of the samples, for what is measured on them.
std::vector<SeenRow> seen_rows(std::vector<Sample>& samples, const Problem& found) {
  std::vector<SeenRow> rows;
  for (Sample& sample : samples)
    for (size_t n = 0; n < sample.rows.size(); ++n) {
      SeenRow& row = rows.emplace_back();
      row.predict = sample.predict.get();
      row.place = sample.rows[n];
      row.columns = sample.columns;
      for (const int64_t d : sample.columns) row.o.push_back(sample.o(row.place, d));
      if (const double* lse = sample.lse(row.place)) row.lse = *lse;
      row.wrong = sample.wrong[n];
      row.here = [&sample, &found](const Fault& f) { return in_run(f, found, sample); };
    }
  return rows;
}

// A format of l or of LSE that is within every tolerance shows when LSE of all rows is looked at: each lies on the model, and
// off the contract by what the format loses.
constexpr size_t kPooledRows = 6;
constexpr double kPooledRatio = 8;
// That loss is of the format's size. (What f32 loses of a sum of tiny weights leaves LSE where a coarser format would have it.)
constexpr double kLeastLoss = 1.0 / 64;

bool shows_in_pooled_lse(const Fault& f) { return f.family == Family::sum_in_low_precision || f.family == Family::lse_in_low_precision; }

// Weights of single keys, from the runs with key indicators.
void measure_weights(const std::vector<Sample>& samples, const std::vector<Walk>& walks, std::vector<MeasuredWeight>& out) {
  std::map<RowPlace, std::map<int64_t, std::pair<double, Predicted>>> rows;  // per key: seen, due
  for (const Sample& sample : samples) {
    if (sample.run->purpose != Purpose::key_indicators) continue;
    const Problem& p = sample.run->problem;
    Fault contract;
    contract.walk = walks[sample.number];
    for (const RowPlace& at : sample.rows) {
      const RowPrediction& right = sample.predict->row(contract, at, sample.columns);
      for (size_t d = 0; d < sample.columns.size(); ++d)
        for (int64_t j = 0; j < p.shape.nk; ++j)
          if (const double v = p.v.get(at.b, p.shape.key_head(at.h), j, sample.columns[d]); v != 0) {
            Predicted due = right.o[d];
            due.value /= v;
            due.tolerance /= v;
            rows[at][j] = {sample.o(at, sample.columns[d]) / v, due};
          }
    }
  }
  for (const auto& [at, keys] : rows) {
    std::vector<double> ratios;
    for (const auto& [j, k] : keys)
      if (k.second.value > kHeavy * k.second.tolerance) ratios.push_back(k.first / k.second.value);
    if (ratios.empty()) continue;
    std::nth_element(ratios.begin(), ratios.begin() + static_cast<int64_t>(ratios.size() / 2), ratios.end());
    const double median = ratios[ratios.size() / 2];
    if (!(median > 0) || !std::isfinite(median)) continue;
    MeasuredWeight run{at, -1, -1, 1};
    const auto close = [&](double a, double b) { return a == b || std::fabs(a - b) <= 0.06 * std::max(std::fabs(a), std::fabs(b)); };
    const auto end_run = [&] {
      if (run.begin >= 0 && !close(run.ratio, 1)) out.push_back(run);
    };
    for (const auto& [j, k] : keys) {
      const auto& [seen, due] = k;
      double ratio = 1;
      if (due.value > kHeavy * due.tolerance) ratio = seen / due.value / median;
      else if (due.value == 0 && std::fabs(seen) > 8 * due.tolerance) ratio = kInfinity;
      else if (run.begin >= 0 && run.end == j) ratio = run.ratio;  // too light to tell
      if (run.begin >= 0 && run.end == j && close(ratio, run.ratio)) {
        run.end = j + 1;
        continue;
      }
      end_run();
      run = {at, j, j + 1, ratio};
    }
    end_run();
  }
}

// Faults that the measured weights suggest: a tile or a key with one odd weight, a masked key with any.
void add_measured(const std::vector<MeasuredWeight>& weights, const std::vector<Walk>& walks, std::vector<Fault>& list) {
  std::set<std::tuple<int64_t, int64_t, int>> done;
  for (const MeasuredWeight& w : weights) {
    if (list.size() > 4000) return;
    if (std::isfinite(w.ratio))
      for (const Walk& walk : walks) {
        const int64_t tile = w.begin / walk.tile;
        if (walk.tile == 1 || (w.end - 1) / walk.tile != tile || !done.insert({tile, walk.tile, static_cast<int>(std::lround(16 * w.ratio))}).second) continue;
        Fault f;
        f.walk = walk;
        f.family = w.ratio == 0 ? Family::tile_dropped : std::fabs(w.ratio - 2) < 0.02 ? Family::tile_doubled : Family::tile_weighed;
        f.weighed_tile = tile;
        f.weight = w.ratio == 0 ? 0 : std::fabs(w.ratio - 2) < 0.02 ? 2 : w.ratio;
        f.free_numbers = f.family == Family::tile_weighed;
        char text[96];
        std::snprintf(text, sizeof text, "number %ld by %.4g, in tiles of %ld keys", long(tile), f.weight, long(walk.tile));
        f.what = text;
        list.push_back(f);
      }
    if (w.end - w.begin > 4) continue;
    for (int64_t j = w.begin; j < w.end; ++j) {
      if (!done.insert({j, 0, static_cast<int>(std::lround(std::isfinite(w.ratio) ? 16 * w.ratio : -1))}).second) continue;
      Fault f;
      f.walk = walks.front();
      f.weighed_key = KeyRule::key;
      f.key = j;
      f.family = std::isinf(w.ratio) ? Family::key_leaked : w.ratio == 0 ? Family::key_dropped : Family::key_doubled;
      f.weight = std::isinf(w.ratio) ? 1 : w.ratio == 0 ? 0 : 2;
      f.what = "number " + std::to_string(j);
      list.push_back(f);
    }
  }
}

// The factor on the scale that fits the outputs best: coarse steps, then a golden section.
std::optional<Fault> fit_scale(std::vector<Sample>& samples, const std::vector<Walk>& walks) {
  // Sum of how far the outputs lie off, each at most 100 tolerances, over a few rows.
  const auto cost = [&](double factor) {
    double sum = 0;
    int64_t rows = 0;
    for (Sample& sample : samples) {
      Fault f;
      f.walk = walks[sample.number];
      f.scale_factor = factor;
      for (size_t n = 0; n < std::min<size_t>(sample.rows.size(), 3); ++n, ++rows) {
        const RowPrediction& model = sample.predict->row(f, sample.rows[n], sample.columns);
        for (size_t d = 0; d < sample.columns.size(); ++d) {
          const Predicted& e = model.o[d];
          const double off = std::fabs(sample.o(sample.rows[n], sample.columns[d]) - e.value);
          if (e.overflow || !std::isfinite(off)) sum += 100;
          else sum += off / (off + 1e-6 + std::fabs(e.value));
        }
      }
      if (rows >= 6) break;
    }
    return sum;
  };
  std::vector<double> grid;
  for (int n = -32; n <= 32; ++n) grid.push_back(std::exp2(n / 4.0));
  double best = 1, least = kInfinity;
  for (double g : grid)
    if (const double c = cost(g); c < least) least = c, best = g;
  double low = best * std::exp2(-0.25), high = best * std::exp2(0.25);
  constexpr double kGolden = 0.6180339887498949;
  double a = high - kGolden * (high - low), b = low + kGolden * (high - low), ca = cost(a), cb = cost(b);
  for (int n = 0; n < 40; ++n) {
    if (ca < cb) {
      high = b, b = a, cb = ca;
      a = high - kGolden * (high - low), ca = cost(a);
    } else {
      low = a, a = b, ca = cb;
      b = low + kGolden * (high - low), cb = cost(b);
    }
  }
  const double factor = (low + high) / 2;
  if (std::fabs(factor - 1) < 1e-4) return std::nullopt;
  Fault f;
  f.family = Family::scale_wrong;
  f.walk = walks.front();
  f.scale_factor = factor;
  f.free_numbers = 1;
  char text[64];
  std::snprintf(text, sizeof text, "%.5g times the given one, as measured", factor);
  f.what = text;
  return f;
}

// What the run itself shows, before any number is looked at.
std::vector<Family> plain_facts(const Evidence& evidence) {
  std::vector<Family> facts;
  const auto add = [&](bool seen, Family f) {
    if (seen && std::find(facts.begin(), facts.end(), f) == facts.end()) facts.push_back(f);
  };
  for (const EvidenceRun& run : evidence.runs) {
    add(run.seen.status == RunStatus::failed || run.seen.status == RunStatus::crashed || run.seen.status == RunStatus::timed_out, Family::does_not_run);
    add(!run.seen.overrun.empty(), Family::writes_outside);
    add(!run.seen.input_change.empty(), Family::changes_inputs);
    add(!run.seen.unwritten.empty(), Family::leaves_unwritten);
  }
  const EvidenceRun& first = evidence.runs.front();
  for (const EvidenceRun& run : evidence.runs) {
    if (run.purpose != Purpose::repeated || run.seen.o.size() != first.seen.o.size()) continue;
    bool same_bits = true;
    for (size_t n = 0; n < run.seen.o.size(); ++n) same_bits = same_bits && same_value(run.seen.o[n], first.seen.o[n]);
    for (size_t n = 0; n < std::min(run.seen.lse.size(), first.seen.lse.size()); ++n) same_bits = same_bits && same_value(run.seen.lse[n], first.seen.lse[n]);
    add(!same_bits, Family::does_not_repeat);
  }
  return facts;
}

}  // namespace

bool Diagnosis::holds(Family f) const {
  return std::any_of(explaining.begin(), explaining.end(), [&](const Finding& e) { return e.fault.family == f; });
}

Diagnosis diagnose(const Evidence& evidence, const DiagnoseOptions& options) {
  Diagnosis out;
  for (Family f : plain_facts(evidence)) {
    if (options.without.contains(f)) continue;
    Finding fact;
    fact.fault.family = f;
    fact.explains = true;
    out.explaining.push_back(fact);
  }
  std::vector<Sample> samples, all_right;
  std::vector<Walk> walks;
  for (size_t n = 0; n < evidence.runs.size(); ++n) {
    const EvidenceRun& run = evidence.runs[n];
    walks.push_back(first_walk(run, options.use_trace));
    if (run.purpose == Purpose::repeated || run.purpose == Purpose::others_replaced || run.purpose == Purpose::repacked || run.seen.status != RunStatus::ok) continue;
    const bool indicators = run.purpose == Purpose::key_indicators || run.purpose == Purpose::tile_indicators;
    samples.push_back(sample_of(run, n, evidence.conventions, options.use_trace, indicators && !samples.empty() ? &samples.front() : nullptr));
    // A fault that does not show elsewhere is no proof against a model of it, only a hint.
    if (may_be_right(run.purpose) && std::none_of(samples.back().wrong.begin(), samples.back().wrong.end(), [](bool w) { return w; })) {
      all_right.push_back(std::move(samples.back()));
      samples.pop_back();
      continue;
    }
    out.rows += static_cast<int64_t>(samples.back().rows.size());
  }
  if (samples.empty()) {
    out.certain = out.explaining.size() == 1;
    return out;
  }

  // The contract itself.
  Fault contract;
  contract.walk = walks.front();
  for (Sample& sample : samples) {
    contract.walk = walks[sample.number];
    for (size_t n = 0; n < sample.rows.size(); ++n) {
      const RowPlace& at = sample.rows[n];
      const RowPrediction right = sample.predict->row(contract, at, sample.columns);
      std::vector<Sample::Due>& due = sample.due.emplace_back();
      const auto note = [&](int64_t column, const Predicted& e, double seen) {
        ++out.elements;
        const double misfit = e.misfit(seen);
        due.push_back({e.value, misfit > kFits});
        sample.misfit = std::max(sample.misfit, misfit);
        out.telling += misfit > kFits;
        if (misfit > kFits) sample.wrong[n] = true;
        if (misfit > out.contract_misfit) out.contract_misfit = misfit, out.contract_worst = {sample.number, at, column, e.value, seen, misfit};
      };
      for (size_t d = 0; d < sample.columns.size(); ++d) note(sample.columns[d], right.o[d], sample.o(at, sample.columns[d]));
      if (const double* lse = sample.lse(at)) note(-1, right.lse, *lse);
      if (!sample.trace.empty()) {
        const StateMisfit states = compare_states(sample, n, right);
        if (!(states.misfit <= kFits)) sample.wrong[n] = true;
        if (!(states.misfit <= kFits) && !out.wrong_state) {
          WrongState w;
          w.place = at;
          if (states.record < sample.trace[n].second) w.record = sample.run->seen.trace[states.record];
          else w.record.key_begin = states.visit.begin, w.record.key_end = states.visit.end, w.record.split = states.visit.split;
          w.m = states.visit.m;
          w.l = states.visit.l;
          w.factor = states.visit.factor;
          w.what = states.what;
          out.wrong_state = w;
        }
      }
    }
  }
  out.outputs_right = out.contract_misfit <= kFits;
  // Indicators that come out right, all of them, say that the fault hangs on V or on its width.
  const auto indicates = [](const Sample& s) { return s.run->purpose == Purpose::key_indicators || s.run->purpose == Purpose::tile_indicators; };
  if (samples.front().misfit > kFits && std::none_of(samples.begin(), samples.end(), [&](const Sample& s) { return indicates(s) && s.misfit > kFits; }))
    std::erase_if(samples, indicates);
  if (!out.explaining.empty()) {
    out.certain = true;
    return out;
  }
  measure_weights(samples, walks, out.weights);

  // The run with the most keys tells most about how the kernel walks.
  const Sample& longest = *std::max_element(samples.begin(), samples.end(), [](const Sample& a, const Sample& b) { return a.run->problem.shape.nk < b.run->problem.shape.nk; });
  const std::vector<Walk> possible = possible_walks(longest.run->problem, options.use_trace ? longest.run->seen.trace : std::vector<TraceRecord>{});
  for (std::vector<Sample>* kind : {&samples, &all_right})
    for (Sample& sample : *kind)
      if (options.use_trace && !sample.run->seen.trace.empty()) sample.told = walk_of_trace(sample.run->problem, sample.run->seen.trace, possible.front());
  std::vector<Fault> list = options.among;
  if (list.empty()) {
    list = candidates(evidence.runs.front().problem, possible);
    add_measured(out.weights, possible, list);
  }
  // In some walks rounding may take the contract itself to what was seen: a model that walks so explains nothing.
  std::vector<Walk> loose;
  for (const Walk& walk : possible) {
    Fault right;
    right.walk = walk;
    if (!out.outputs_right && hold(right, samples, false).explains) loose.push_back(walk);
  }
  std::erase_if(list, [&](const Fault& f) { return std::find(loose.begin(), loose.end(), f.walk) != loose.end(); });
  std::stable_sort(list.begin(), list.end(), [](const Fault& a, const Fault& b) { return a.family < b.family; });
  std::vector<Finding> explaining, nearest;
  bool excuse = false;
  const auto consider = [&](const Fault& f) {
    if (options.without.contains(f.family)) return;
    ++out.models;
    Finding finding = hold(f, samples, excuse);
    // Where the outputs are right, the trace is all there is to explain.
    if (finding.explains && finding.telling > 0 && ((finding.explains_trace && states_are_known(f)) || !out.outputs_right)) explaining.push_back(finding);
    else if (!excuse) nearest.push_back(finding);
  };
  if (!out.outputs_right || out.wrong_state)
    for (const Fault& f : list) consider(f);
  const Problem& found = evidence.runs.front().problem;
  // Nothing tells into how many splits a black box cuts the keys. Formats that are too narrow fit much, so that they are no answer
  // to that.
  const auto only_formats = [&] { return std::all_of(explaining.begin(), explaining.end(), [](const Finding& f) { return f.fault.family >= Family::inputs_in_low_precision; }); };
  const bool splits_open = possible.front().splits == 1 && found.choice.splits == 0 && std::none_of(samples.begin(), samples.end(), [](const Sample& s) { return s.told.has_value(); });
  std::vector<Walk> split_walks;
  if (!out.outputs_right && splits_open && only_formats() && options.among.empty()) {
    std::vector<Walk> likely = possible;
    std::erase_if(likely, [](const Walk& w) { return w.tile < 32 || w.tile > 128; });
    split_walks = in_splits(found, likely, boundaries(out.weights, found.shape.nk));
    if (!split_walks.empty())
      for (const Fault& f : candidates(found, split_walks, Hanging::on_walk)) consider(f);
  }
  // What the outputs themselves tell a number of.
  if (!out.outputs_right && explaining.empty() && options.among.empty()) {
    std::vector<Walk> all = possible;
    all.insert(all.begin() + 1, split_walks.begin(), split_walks.end());
    for (const Fault& f : measured(found, seen_rows(samples, found), all)) consider(f);
  }
  // A fault of some rows only.
  const auto wrong_rows = std::count(samples.front().wrong.begin(), samples.front().wrong.end(), true);
  if (explaining.empty() && wrong_rows > 0 && wrong_rows < static_cast<int64_t>(samples.front().wrong.size())) {
    excuse = true;
    for (const Fault& f : list)
      if (f.constant == Constant::none) consider(f);
    excuse = false;
  }
  if (!out.outputs_right && explaining.empty() && options.among.empty() && !options.without.contains(Family::scale_wrong)) {
    if (const auto fitted = fit_scale(samples, walks)) {
      consider(*fitted);
      if (!explaining.empty()) out.measured_scale = fitted->scale_factor;
    }
  }
  if (out.outputs_right && !out.wrong_state) {
    std::vector<SeenRow> rows;
    for (std::vector<Sample>* kind : {&samples, &all_right})
      for (SeenRow& row : seen_rows(*kind, found)) rows.push_back(std::move(row));
    contract.walk = possible.front();
    if (const auto from_contract = median_lse_errors(rows, contract, kPooledRows)) {
      for (const Fault& f : list) {
        if (options.without.contains(f.family) || !shows_in_pooled_lse(f)) continue;
        ++out.models;
        const auto [from_model, tolerance] = *median_lse_errors(rows, f, kPooledRows);
        if (!(kPooledRatio * from_model < from_contract->off && from_contract->off > kLeastLoss * tolerance)) continue;
        Finding finding = hold(f, samples, false);
        if (!finding.explains) continue;
        if (!out.pooled || from_model < out.pooled->from_model) {
          out.pooled = PooledLse{static_cast<int64_t>(rows.size()), from_contract->off, from_model};
          explaining.insert(explaining.begin(), finding);
        } else {
          explaining.push_back(finding);
        }
      }
    }
  }
  for (const Finding& f : explaining)
    if (f.fault.family == Family::scale_wrong) out.measured_scale = f.fault.scale_factor;

  for (Finding& f : explaining) {
    for (Sample& sample : all_right) f.contradicted += !expects_right(f.fault, samples.front().run->problem, sample);
    for (const Sample& sample : samples) f.foretold += is_a_test(sample.run->purpose) && sample.misfit > kFits;
  }
  // A model that explains the trace as well comes first; then what explains why other runs are right; then fewer fitted
  // numbers; then the order of the families.
  std::stable_sort(explaining.begin(), explaining.end(), [](const Finding& a, const Finding& b) {
    const auto rank = [](const Finding& f) { return std::tuple(!f.explains_trace, f.overflows, f.vague, f.contradicted, f.fault.free_numbers, f.fault.family); };
    return rank(a) < rank(b);
  });
  const auto one_of_each = [](std::vector<Finding>& all) {
    std::vector<Finding> kept;
    for (Finding& f : all)
      if (std::none_of(kept.begin(), kept.end(), [&](const Finding& k) { return k.fault.family == f.fault.family; })) kept.push_back(std::move(f));
    all = std::move(kept);
  };
  if (!explaining.empty() && !explaining.front().overflows) std::erase_if(explaining, [](const Finding& f) { return f.overflows; });
  for (const Finding& f : explaining) out.survivors.push_back(f.fault);
  one_of_each(explaining);
  if (!explaining.empty() && explaining.front().explains_trace)
    std::erase_if(explaining, [](const Finding& f) { return !f.explains_trace; });
  out.explaining = std::move(explaining);

  // The nearest of those that do not explain: they got furthest before they failed.
  std::stable_sort(nearest.begin(), nearest.end(), [](const Finding& a, const Finding& b) {
    return std::tuple(-a.elements, a.misfit) < std::tuple(-b.elements, b.misfit);
  });
  one_of_each(nearest);
  std::erase_if(nearest, [&](const Finding& f) { return out.holds(f.fault.family); });
  if (nearest.size() > 5) nearest.resize(5);
  out.rejected = std::move(nearest);

  // Rows of equal contents and unequal bits: a fact, though not how it comes about.
  if (out.explaining.empty())
    if (const auto unequal = unequal_rows(evidence)) {
      const Family family = unequal->apart == UnequalRows::Apart::layout ? Family::wrong_strides : unequal->apart == UnequalRows::Apart::nothing ? Family::does_not_repeat : Family::depends_on_others;
      if (!options.without.contains(family)) {
        Finding f;
        f.fault.family = family;
        f.explains = true;
        out.unequal = *unequal;
        out.explaining.push_back(f);
      }
    }
  // The same contents are right in packed tensors where the case is wrong: a hint.
  if (out.explaining.empty() && !out.outputs_right && !options.without.contains(Family::wrong_strides))
    for (size_t n = 0; n < evidence.runs.size(); ++n) {
      if (evidence.runs[n].purpose != Purpose::repacked || evidence.runs[n].seen.status != RunStatus::ok) continue;
      const Sample other = sample_of(evidence.runs[n], n, evidence.conventions, options.use_trace);
      if (other.rows.empty() || !(other.misfit < std::min(kFits, samples.front().misfit / 4))) continue;
      Finding hint;
      hint.fault.family = Family::wrong_strides;
      hint.fault.what = "right when the tensors are packed";
      hint.explains = true;
      out.explaining.push_back(hint);
      break;
    }
  const Finding* top = out.explaining.empty() ? nullptr : &out.explaining.front();
  const auto specific = std::count_if(out.explaining.begin(), out.explaining.end(), [](const Finding& f) { return !f.vague; });
  out.certain = top != nullptr && !top->vague && specific == 1 && top->foretold > 0 && top->contradicted == 0 && top->excused == 0 && top->explains_trace && out.telling >= 2 + 2 * top->fault.free_numbers;
  return out;
}

}  // namespace attest
