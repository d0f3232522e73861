// Every number of the seed texts, against 50 digits, the recurrence and the host kernel.
//
// The exact values come from the definition over all keys seen so far, not block by block. A stated number must be the
// correct rounding of the exact one, a stated integer the exact one; exceptions are in seeds/rounded_twice.tsv alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/multiprecision/cpp_dec_float.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "corpus/case_file.h"
#include "kernel/recurrence.h"
#include "kernel/runner/kernel.h"
#include "reference/judge.h"

using namespace attest;
using Real = boost::multiprecision::cpp_dec_float_50;
namespace fs = std::filesystem;

namespace {

const fs::path kSeeds = fs::path(ATTEST_SOURCE_DIR) / "corpus/seeds";

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// One unit of the last digit of a decimal such as "0.050" or "2.69e43"; 0 for an integer, which is exact.
Real last_digit(const std::string& stated) {
  const size_t e = stated.find('e'), point = stated.find('.');
  if (point == std::string::npos) return 0;
  const size_t end = std::min(e, stated.size());
  const int exponent = e == std::string::npos ? 0 : std::stoi(stated.substr(e + 1));
  return pow(Real(10), exponent - static_cast<int>(end - point - 1));
}

bool rounds_to(const Real& exact, const std::string& stated) { return abs(exact - Real(stated)) <= last_digit(stated) / 2; }

// The numbers that a text got by rounding twice.
class RoundedTwice {
 public:
  RoundedTwice() {
    std::ifstream in(kSeeds / "rounded_twice.tsv");
    std::string line, stated, exact;
    std::getline(in, line);
    while (std::getline(in, line)) {
      std::istringstream fields(line);
      if (std::getline(fields, stated, '\t') && std::getline(fields, exact, '\t')) exact_[stated] = exact;
    }
  }

  // `value` rounds to what is stated, or the stated number is listed, `value` rounds to the exact one beside it, and
  // the two differ by one unit of the last digit.
  bool agrees(const Real& value, const std::string& stated) {
    if (rounds_to(value, stated)) return true;
    const auto it = exact_.find(stated);
    if (it == exact_.end() || !rounds_to(value, it->second)) return false;
    used_.insert(stated);
    return abs(Real(stated) - Real(it->second)) == last_digit(stated);
  }

  std::vector<std::string> unused() const {
    std::vector<std::string> names;
    for (const auto& [stated, exact] : exact_)
      if (!used_.count(stated)) names.push_back(stated);
    return names;
  }
  size_t size() const { return exact_.size(); }

 private:
  std::map<std::string, std::string> exact_;
  std::set<std::string> used_;
};

// Row i of head 0, batch 0, of an unmasked problem.
struct Row {
  std::vector<Real> score;
  std::vector<std::vector<Real>> value;  // [key][column]

  Row(const Problem& p, int64_t i) {
    for (int64_t j = 0; j < p.shape.nk; ++j) {
      Real dot = 0;
      for (int64_t d = 0; d < p.shape.d; ++d) dot += Real(p.q.get(0, 0, i, d)) * Real(p.k.get(0, 0, j, d));
      score.push_back(Real(p.scale) * dot);
      value.emplace_back();
      for (int64_t c = 0; c < p.shape.dv; ++c) value.back().push_back(Real(p.v.get(0, 0, j, c)));
    }
  }
};

struct State {
  Real m, l, scale;
  std::vector<Real> o;
};

// The state after keys [0, end), whose last block begins at `begin`, from the definition.
State exact_state(const Row& row, size_t begin, size_t end) {
  State s;
  s.m = *std::max_element(row.score.begin(), row.score.begin() + static_cast<std::ptrdiff_t>(end));
  s.scale = begin == 0 ? Real(0) : exp(*std::max_element(row.score.begin(), row.score.begin() + static_cast<std::ptrdiff_t>(begin)) - s.m);
  s.o.assign(row.value[0].size(), 0);
  for (size_t j = 0; j < end; ++j) {
    const Real weight = exp(row.score[j] - s.m);
    s.l += weight;
    for (size_t c = 0; c < s.o.size(); ++c) s.o[c] += weight * row.value[j][c];
  }
  return s;
}

// The same by the recurrence that the kernels use.
State recurrence_state(const Row& row, size_t tile, size_t blocks) {
  double m = Recurrence::kMinusInfinity;
  float l = 0, scale = 0;
  std::vector<double> o(row.value[0].size(), 0);
  for (size_t block = 0; block < blocks; ++block) {
    const size_t begin = block * tile, end = std::min(begin + tile, row.score.size());
    double top = Recurrence::kMinusInfinity;
    for (size_t j = begin; j < end; ++j) top = Recurrence::maximum(top, row.score[j].convert_to<double>());
    const double m_new = Recurrence::new_maximum(m, top);
    scale = Recurrence::rescale_l(m, m_new);
    const float scale_o = Recurrence::rescale_o(m, m_new);
    l *= scale;
    for (double& x : o) x *= static_cast<double>(scale_o);
    for (size_t j = begin; j < end; ++j) {
      const float weight = Recurrence::weight(row.score[j].convert_to<double>(), m_new);
      l += weight;
      for (size_t c = 0; c < o.size(); ++c) o[c] += static_cast<double>(weight) * row.value[j][c].convert_to<double>();
    }
    m = m_new;
  }
  return {Real(m), Real(l), Real(scale), {o.begin(), o.end()}};
}

struct Seed {
  std::string path;
  Case c;
  size_t tile() const { return static_cast<size_t>(c.problem.choice.tile_keys); }
  size_t end_of(int64_t block) const { return std::min((static_cast<size_t>(block) + 1) * tile(), static_cast<size_t>(c.problem.shape.nk)); }
};

// Seeds whose numbers are stated.
std::vector<Seed> stated_seeds() {
  std::vector<Seed> seeds;
  for (const std::string& path : find_cases({kSeeds}))
    if (Case c = read_case(path); c.expected) seeds.push_back({path, std::move(c)});
  return seeds;
}

void expect_state(RoundedTwice& listed, const State& got, const ExpectedState& stated, const std::string& where) {
  const auto check = [&](const char* what, const Real& value, const std::string& text) {
    if (text.empty()) return;
    EXPECT_TRUE(listed.agrees(value, text)) << where << ": " << what << " is " << value << ", stated " << text;
  };
  check("m", got.m, stated.m);
  check("l", got.l, stated.l);
  check("scale", got.scale, stated.scale);
  if (stated.o.empty()) return;
  ASSERT_EQ(got.o.size(), stated.o.size()) << where;
  for (size_t c = 0; c < got.o.size(); ++c) check("O", got.o[c], stated.o[c]);
}

std::string place(const Seed& seed, const ExpectedState& s) {
  return seed.path + " row " + std::to_string(s.row) + " block " + std::to_string(s.block);
}

// Numbers of the text that belong to no attention call.
struct Scalar {
  const char* what;
  Real exact;
  const char* stated;
};

std::vector<Scalar> scalars() {
  const auto e = [](int x) { return exp(Real(x)); };
  const Real l = e(-4) + e(-3) + 1 + e(-2);
  return {{"exp(2)", e(2), "7.39"},
          {"exp(4)", e(4), "54.60"},
          {"exp(1)", e(1), "2.72"},
          {"exp(3)", e(3), "20.09"},
          {"exp(2) + exp(4) + exp(1) + exp(3)", e(2) + e(4) + e(1) + e(3), "84.80"},
          {"exp(100)", e(100), "2.69e43"},
          {"exp(102)", e(102), "1.99e44"},
          {"exp(99)", e(99), "9.89e42"},
          {"exp(101)", e(101), "7.31e43"},
          {"exp(-4) + exp(-3)", e(-4) + e(-3), "0.068"},
          {"exp(-4)", e(-4), "0.018"},
          {"2 P[2]", 2 / l, "1.662"},
          {"2 P[3]", 2 * e(-2) / l, "0.224"},
          {"exp(3 - 7)", e(-4), "0.0183"},
          {"2.5 exp(3 - 7)", Real("2.5") * e(-4), "0.046"},
          {"exp(-10)", e(-10), "0.0000454"}};
}

TEST(Golden, EveryStatedNumberIsTheRoundedExactOneOrListed) {
  RoundedTwice listed;
  ASSERT_EQ(listed.size(), 4u);
  const std::vector<Seed> seeds = stated_seeds();
  ASSERT_GE(seeds.size(), 10u);
  for (const Seed& seed : seeds) {
    const Problem& p = seed.c.problem;
    ASSERT_FALSE(p.mask || p.bias || p.sink || p.causal || p.softcap != 0 || p.key_lengths) << seed.path;
    const Expected& expected = *seed.c.expected;
    for (const ExpectedState& s : expected.states)
      expect_state(listed, exact_state(Row(p, s.row), static_cast<size_t>(s.block) * seed.tile(), seed.end_of(s.block)), s, place(seed, s));
    for (size_t i = 0; i < std::max(expected.o.size(), expected.p.size()); ++i) {
      const Row row(p, static_cast<int64_t>(i));
      const State last = exact_state(row, 0, row.score.size());
      if (i < expected.o.size()) {
        for (size_t c = 0; c < expected.o[i].size(); ++c)
          EXPECT_TRUE(listed.agrees(last.o[c] / last.l, expected.o[i][c])) << seed.path << " O[" << i << "][" << c << "] = " << last.o[c] / last.l;
      }
      if (i < expected.p.size()) {
        for (size_t j = 0; j < expected.p[i].size(); ++j) {
          const Real probability = exp(row.score[j] - last.m) / last.l;
          EXPECT_TRUE(listed.agrees(probability, expected.p[i][j])) << seed.path << " P[" << i << "][" << j << "] = " << probability;
        }
      }
    }
  }
  for (const Scalar& s : scalars()) EXPECT_TRUE(listed.agrees(s.exact, s.stated)) << s.what << " = " << s.exact << ", stated " << s.stated;
  EXPECT_TRUE(listed.unused().empty()) << "listed as rounded twice, but stated nowhere: " << listed.unused().front();
}

TEST(Golden, TheRecurrenceGivesEveryStatedState) {
  RoundedTwice listed;
  int states = 0;
  for (const Seed& seed : stated_seeds())
    for (const ExpectedState& s : seed.c.expected->states) {
      expect_state(listed, recurrence_state(Row(seed.c.problem, s.row), seed.tile(), static_cast<size_t>(s.block) + 1), s, place(seed, s));
      ++states;
    }
  EXPECT_GE(states, 18);
}

TEST(Golden, TheHostKernelsTraceGivesEveryStatedState) {
  RoundedTwice listed;
  const Kernel host = std::get<Kernel>(Kernel::load("host"));
  int states = 0;
  for (const Seed& seed : stated_seeds()) {
    const Observation seen = host.run(seed.c.problem, {.trace = true});
    ASSERT_EQ(seen.status, RunStatus::ok) << seen.message;
    for (ExpectedState s : seed.c.expected->states) {
      const auto record = std::find_if(seen.trace.begin(), seen.trace.end(), [&](const TraceRecord& r) { return r.row == s.row && r.sequence == s.block; });
      ASSERT_NE(record, seen.trace.end()) << place(seed, s);
      EXPECT_EQ(record->key_begin, s.block * seed.c.problem.choice.tile_keys);
      EXPECT_EQ(record->key_end, static_cast<int64_t>(seed.end_of(s.block)));
      s.o.clear();  // a trace holds no O
      expect_state(listed, {Real(record->m), Real(record->l), Real(record->scale), {}}, s, place(seed, s));
      ++states;
    }
    for (size_t i = 0; i < seed.c.expected->o.size(); ++i)
      for (size_t c = 0; c < seed.c.expected->o[i].size(); ++c) {
        const double got = seen.o[i * static_cast<size_t>(seed.c.problem.shape.dv) + c];
        EXPECT_TRUE(listed.agrees(Real(got), seed.c.expected->o[i][c])) << seed.path << " O[" << i << "][" << c << "] = " << got;
      }
  }
  EXPECT_GE(states, 18);
}

// The text gives l of block B [1, 3] under its own maximum as 0.368 + 1.000 = 1.368, which is exp(-1) + 1, and the
// naive sum with block A as 2.503. The terms are exp(1 - 3) + exp(3 - 3); what it argues is not touched.
TEST(Golden, TheTextsNaiveSumHasAWrongExponent) {
  const Real l_b = exp(Real(1 - 3)) + 1, l_a = exp(Real(2 - 4)) + 1;
  EXPECT_TRUE(rounds_to(l_b, "1.135"));
  EXPECT_FALSE(rounds_to(l_b, "1.368"));
  EXPECT_TRUE(rounds_to(exp(Real(-1)) + 1, "1.368"));
  EXPECT_TRUE(rounds_to(l_a + l_b, "2.271"));
  EXPECT_TRUE(rounds_to(l_a + exp(Real(-1)) + 1, "2.503"));
}

// Two blocks that kept their own maximum merge to the text's state; and its question 2, on states alone.
TEST(Golden, StatesMergeByTheSameRule) {
  const double m = Recurrence::new_maximum(4, 3);
  EXPECT_EQ(m, 4);
  EXPECT_TRUE(rounds_to(Real(1.1353353f * Recurrence::rescale_l(4, m) + 1.1353353f * Recurrence::rescale_l(3, m)), "1.553"));
  EXPECT_EQ(Recurrence::rescale_l(Recurrence::kMinusInfinity, 4), 0.0f);
  EXPECT_EQ(Recurrence::rescale_o(Recurrence::kMinusInfinity, 4), 0.0f);
  EXPECT_TRUE(rounds_to(Real(Recurrence::rescale_l(3, 7)), "0.0183"));
  EXPECT_TRUE(rounds_to(Real(2.5f * Recurrence::rescale_l(3, 7)), "0.046"));
  EXPECT_EQ(std::lround(1 / Recurrence::rescale_l(3, 7)), 55) << "the old exponentials shrink by a factor of about 55";
  EXPECT_EQ(std::lround(1 / Recurrence::rescale_o(2, 5)), 20) << "left out of O alone, O / l is 20 times too large";
}

TEST(Seeds, TheHostKernelIsRightOnEveryOne) {
  const Kernel host = std::get<Kernel>(Kernel::load("host"));
  Judge judge;
  for (const std::string& path : find_cases({kSeeds})) {
    const Problem p = read_case(path).problem;
    const Verdict v = judge(p, host.run(p), {.numerics = host.numerics(p, Contract::strict), .conventions = host.conventions()});
    EXPECT_EQ(v.disposition, Disposition::passed) << path << ": " << v.detail;
    EXPECT_EQ(v.rows_out_of_range, 0) << path;
  }
}

TEST(Seeds, AreWrittenAsTheWriterWritesThem) {
  for (const std::string& path : find_cases({kSeeds})) EXPECT_EQ(to_json(read_case(path)), text_of(path)) << path;
}

}  // namespace
