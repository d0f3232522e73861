// attest show: what a kernel did with a case, tile by tile, beside what it should have done.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/crash.h"
#include "cli/environment.h"
#include "cli/reference_states.h"
#include "cli/run_summary.h"
#include "cli/terminal.h"
#include "cli/tile_visits.h"
#include "corpus/case_file.h"
#include "kernel/runner/one_line.h"
#include "properties/shrink.h"
#include "reference/judge.h"

namespace attest::cli {

namespace {

constexpr int64_t kRowsShown = 4;      // where no row is asked for
constexpr int64_t kColumnsShown = 8;   // of O

struct Options {
  std::string file, row, contract = "strict";
  KernelChoice kernel;
};

std::string number(long double x) {
  if (std::isnan(x)) return "-";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  return fmt::format("{:.7g}", static_cast<double>(x));
}

// "3" is query row 3 of every batch and head, "0,1,3" that of batch 0 and head 1.
std::vector<Place> rows_to_show(const Shape& s, const std::string& asked) {
  std::vector<int64_t> part;
  for (size_t at = 0; !asked.empty() && at <= asked.size();) {
    const size_t end = std::min(asked.find(',', at), asked.size());
    part.push_back(count("--row", asked.substr(at, end - at), 0));
    at = end + 1;
  }
  if (part.size() == 2 || part.size() > 3) throw Stop(Exit::usage, fmt::format("--row: '{}' is neither ROW nor BATCH,HEAD,ROW", asked));
  std::vector<Place> places;
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t h = 0; h < s.hq; ++h)
      for (int64_t i = 0; i < s.nq; ++i) {
        const bool wanted = part.empty() || (part.size() == 1 && i == part[0]) || (part.size() == 3 && b == part[0] && h == part[1] && i == part[2]);
        if (wanted && (!part.empty() || static_cast<int64_t>(places.size()) < kRowsShown)) places.push_back({b, h, i});
      }
  if (places.empty() && !part.empty()) throw Stop(Exit::usage, fmt::format("--row: the case has no row '{}'; it has B = {}, Hq = {}, Nq = {}", asked, s.b, s.hq, s.nq));
  return places;
}

struct Line {
  std::string name, kernel, reference, stated;
};
void print_line(const char* keys, const Line& l) {
  fmt::print("  {:<14}{:<8}{:>20}{:>20}{}\n", keys, l.name, l.kernel, l.reference, l.stated.empty() ? "" : fmt::format("{:>16}", l.stated));
}

const ExpectedState* stated(const Case& c, int64_t row, int64_t block) {
  if (!c.expected) return nullptr;
  for (const ExpectedState& e : c.expected->states)
    if (e.row == row && e.block == block) return &e;
  return nullptr;
}

// One visit: m, l, scale and, where a text states it, the unnormalised O, which no trace holds.
void print_state(const KeyBlock& block, const TraceRecord* record, const ReferenceState& truth, const ExpectedState* text) {
  const std::string keys = fmt::format("{}..{}", block.begin, block.end - 1);
  const auto of_kernel = [&](float TraceRecord::*field) { return record == nullptr ? std::string("no trace") : number(record->*field); };
  print_line(keys.c_str(), {"m", of_kernel(&TraceRecord::m), number(truth.m), text != nullptr ? text->m : ""});
  print_line("", {"l", of_kernel(&TraceRecord::l), number(truth.l), text != nullptr ? text->l : ""});
  print_line("", {"scale", of_kernel(&TraceRecord::scale), number(truth.scale), text != nullptr ? text->scale : ""});
  if (text == nullptr) return;
  for (size_t d = 0; d < text->o.size() && d < truth.o.size(); ++d) print_line("", {fmt::format("O[{}]", d), "", number(truth.o[d]), text->o[d]});
}

void print_states(const Case& c, const Kernel& kernel, const Observation& seen, const Place& at) {
  const Problem& p = c.problem;
  const Conventions conventions = kernel.conventions();
  const bool texts = c.expected && !c.expected->states.empty();
  fmt::print("  {:<14}{:<8}{:>20}{:>20}{}\n", "keys", "", "kernel", "reference", texts ? fmt::format("{:>16}", "stated") : "");
  const auto print_visits = [&](const std::vector<KeyBlock>& blocks, const std::vector<const TraceRecord*>& records) {
    const ReferenceStates truth = reference_states(p, conventions, at.b, at.h, at.i, blocks);
    if (truth.states.empty() && !blocks.empty())
      fmt::print("  {}\n", truth.kind == RowKind::nan ? "a NaN or +inf score at a visible key: the row must be NaN" : "out of range: nothing is promised");
    for (size_t n = 0; n < truth.states.size(); ++n)
      print_state(blocks[n], records.empty() ? nullptr : records[n], truth.states[n], stated(c, at.i, static_cast<int64_t>(n)));
  };
  const std::vector<SplitVisits> splits = tile_visits(p, seen, at);
  if (splits.empty()) fmt::print("  no tile was visited\n");
  for (const SplitVisits& visits : splits) {
    if (splits.size() > 1) fmt::print("  split {}\n", visits.split);
    print_visits(visits.blocks, visits.records);
  }
}

void print_outputs(const Case& c, const Observation& seen, const Place& at, Judge& judge, const JudgeOptions& options) {
  const Problem& p = c.problem;
  const RowReference truth = judge.row(p, at.b, at.h, at.i, options);
  const auto row = static_cast<size_t>((at.b * p.shape.hq + at.h) * p.shape.nq + at.i);
  const bool texts = c.expected && (!c.expected->o.empty() || !c.expected->lse.empty());
  fmt::print("  {:<22}{:>20}{:>20}{:>12}{}\n", "output", "kernel", "reference", "bound", texts ? fmt::format("{:>16}", "stated") : "");
  const auto line = [&](const std::string& name, double got, double exact, double bound, const std::string& text) {
    const auto plain = [](double x) { return std::isfinite(x) ? fmt::format("{:.9g}", x) : figure(x); };
    fmt::print("  {:<22}{:>20}{:>20}{:>12}{}\n", name, plain(got), truth.in_range ? plain(exact) : "out of range", figure(bound),
               text.empty() ? "" : fmt::format("{:>16}", text));
  };
  const auto stated_row = static_cast<size_t>(at.i);
  for (int64_t d = 0; d < std::min(p.shape.dv, kColumnsShown); ++d) {
    const auto column = static_cast<size_t>(d);
    const bool text = c.expected && stated_row < c.expected->o.size() && column < c.expected->o[stated_row].size();
    line(fmt::format("O[{}]", d), seen.o[row * static_cast<size_t>(p.shape.dv) + column], column < truth.o.size() ? truth.o[column] : std::nan(""),
         column < truth.bound.size() ? truth.bound[column] : std::nan(""), text ? c.expected->o[stated_row][column] : "");
  }
  if (p.shape.dv > kColumnsShown) fmt::print("  ... {} more columns\n", p.shape.dv - kColumnsShown);
  if (seen.lse.empty())
    fmt::print("  the kernel gives no LSE\n");
  else
    line("LSE", seen.lse[row], truth.lse, truth.lse_bound, c.expected && stated_row < c.expected->lse.size() ? c.expected->lse[stated_row] : "");
}

Exit show(const Options& o) {
  const Contract how = contract("--contract", o.contract);
  const Case c = read_case(o.file);
  const Problem& p = c.problem;
  const std::vector<Place> places = rows_to_show(p.shape, o.row);
  const Kernel kernel = load_kernel(o.kernel);
  fmt::print("{}{}\n{}\n", o.file, c.name.empty() ? "" : ": " + one_line(c.name), in_words(p));
  if (c.expected && !c.expected->source.empty()) fmt::print("stated by: {}\n", c.expected->source);
  std::fflush(stdout);

  running(again("show", o.file, o.kernel, kernel));
  const Observation seen = kernel.run(p, {.trace = true});
  const JudgeOptions options{.numerics = kernel.numerics(p, how), .conventions = kernel.conventions()};
  Judge judge;
  const Verdict verdict = judge(p, seen, options);
  if (seen.status == RunStatus::unsupported) throw Stop(Exit::inconclusive, fmt::format("kernel '{}' refuses {}: {}", kernel.name(), o.file, seen.message));
  const bool dead = seen.status == RunStatus::crashed || seen.status == RunStatus::timed_out;
  if (seen.status != RunStatus::ok) throw Stop(dead ? Exit::crash : Exit::violation, fmt::format("kernel '{}' {} on {}: {}", kernel.name(), name_of(verdict.disposition), o.file, seen.message));

  fmt::print("kernel {}{}\n", described(kernel), seen.traced ? "" : ", which gives no trace");
  for (const Place& at : places) {
    fmt::print("\nbatch {}, head {}, query row {}\n", at.b, at.h, at.i);
    print_states(c, kernel, seen, at);
    print_outputs(c, seen, at, judge, options);
  }
  if (const int64_t more = p.shape.rows() - static_cast<int64_t>(places.size()); more > 0 && o.row.empty())
    fmt::print("\n{} more rows; --row ROW or --row BATCH,HEAD,ROW shows them\n", more);
  fmt::print("\nverdict: {}{}\n", name_of(verdict.disposition), verdict.detail.empty() ? "" : ", " + verdict.detail);
  return verdict.ok() ? Exit::holds : Exit::violation;
}

}  // namespace

Action add_show(CommandLine command) {
  const auto o = std::make_shared<Options>();
  command.argument("FILE", o->file, "case file");
  command.kernel(o->kernel);
  command.option("--row", o->row, "ROW", "query row, or batch,head,row; the first four rows if left out");
  command.contract(o->contract);
  return [o] { return show(*o); };
}

}  // namespace attest::cli
