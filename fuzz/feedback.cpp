#include "fuzz/feedback.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <tuple>

namespace attest::fuzz {

namespace {

constexpr int kTypes = 3;
constexpr int kPlaces = 5;    // of the maximum: unknown, the only tile, first, middle, last
constexpr int kRescales = 4;  // 0, 1, 2 or 3, more
constexpr int kChecks = 3;    // O, LSE, noise
constexpr int kFeatures = 10;
constexpr int kClasses = 64;

struct Counters {
  uint8_t ratio[kChecks][kTypes][kPlaces][kRescales][kRatioBuckets];
  uint8_t feature_ratio[kFeatures][kRatioBuckets];
  uint8_t rescales[kTypes][16];
  uint8_t place_in_tile[kTypes][kPlaces][4];
  uint8_t noise[kTypes][kRatioBuckets];
  uint8_t special[kTypes][16];
  uint8_t classes[kClasses][kClasses];
};

#if defined(__linux__)
__attribute__((section("__libfuzzer_extra_counters")))
#endif
Counters all;

// What the trace says of one row.
struct RowTrace {
  int place = 0, rescales = 0, in_tile = 0;
};

RowTrace read_trace(const Observation& seen, const ElementError& worst, int64_t keys) {
  RowTrace out;
  const auto before = [](const TraceRecord& r, const ElementError& e) {
    return std::tuple(int64_t{r.b}, int64_t{r.h}, r.row) < std::tuple(e.b, e.h, e.row);
  };
  auto at = std::lower_bound(seen.trace.begin(), seen.trace.end(), worst, before);
  float m = -std::numeric_limits<float>::infinity();
  int64_t visits = 0;
  const TraceRecord* highest = nullptr;
  for (; at != seen.trace.end() && at->b == worst.b && at->h == worst.h && at->row == worst.row; ++at, ++visits) {
    if (at->sequence > 0 && at->scale < 1) ++out.rescales;
    if (at->m > m) {
      m = at->m;
      highest = &*at;
    }
  }
  if (highest == nullptr) return out;
  out.place = visits == 1 ? 1 : highest->key_begin == 0 ? 2 : highest->key_end == keys ? 4 : 3;
  out.in_tile = highest->scale == 0 ? 1 : highest->scale < 0x1p-20f ? 2 : highest->scale < 1 ? 3 : 0;
  return out;
}

void set(uint8_t& counter) { counter = 1; }

}  // namespace

int ratio_bucket(double ratio) {
  if (!(ratio <= 2.8)) return kRatioBuckets - 1;
  if (ratio < 0x1p-11) return 0;
  return std::clamp(static_cast<int>(std::floor(2 * std::log2(ratio))) + 20, 0, kRatioBuckets - 1);
}

void record(const Problem& p, const Observation& seen, const Verdict& v) {
  const auto type = static_cast<size_t>(p.type);
  RowTrace row;
  if (!v.worst.empty() && seen.traced) row = read_trace(seen, v.worst.front(), p.shape.nk);
  const auto place = static_cast<size_t>(row.place);
  const size_t rescales = row.rescales >= 4 ? 3 : row.rescales >= 2 ? 2 : static_cast<size_t>(row.rescales);
  const double ratios[kChecks] = {v.worst_ratio, v.worst_lse_ratio, v.worst_budget_share};
  size_t highest = 0;
  for (size_t check = 0; check < kChecks; ++check) {
    const auto bucket = static_cast<size_t>(ratio_bucket(ratios[check]));
    highest = std::max(highest, bucket);
    set(all.ratio[check][type][place][rescales][bucket]);
  }
  const bool features[kFeatures] = {p.causal, p.window.left || p.window.right, p.key_lengths.has_value(), p.mask.has_value(),
                                    p.bias.has_value(), p.softcap > 0, p.sink.has_value(), p.shape.hk != p.shape.hq,
                                    p.choice.splits > 1, p.choice.p_type.has_value()};
  for (size_t f = 0; f < kFeatures; ++f)
    if (features[f]) set(all.feature_ratio[f][highest]);
  set(all.rescales[type][std::min(row.rescales, 15)]);
  set(all.place_in_tile[type][place][static_cast<size_t>(row.in_tile)]);
  set(all.noise[type][static_cast<size_t>(ratio_bucket(v.worst_budget / 16))]);

  // Special values of the outputs and of the states.
  uint32_t classes = 0;
  const double least_normal = std::ldexp(1.0, min_normal_exponent(p.type));
  bool nan = false, infinite = false, zero = false, subnormal = false;  // without a branch for each element
  for (double o : seen.o) {
    const double a = std::fabs(o);
    nan |= o != o;
    infinite |= a > std::numeric_limits<double>::max();
    zero |= a == 0;
    subnormal |= (a != 0) & (a < least_normal);
  }
  classes |= (nan ? 1u : 0u) | (infinite ? 2u : 0u) | (zero ? 4u : 0u) | (subnormal ? 8u : 0u);
  for (double lse : seen.lse) classes |= lse != lse ? 16u : lse == -INFINITY ? 32u : std::fabs(lse) > 1e4 ? 64u : 0u;
  for (const TraceRecord& r : seen.trace) classes |= r.scale > 0 && r.scale < 0x1p-126f ? 128u : r.l > 0 && r.l == 1 ? 256u : 0u;
  classes |= v.loose > 0 ? 512u : 0u;
  classes |= v.rows_exact > 0 ? 1024u : 0u;
  classes |= v.rows_out_of_range > 0 ? 2048u : 0u;
  for (; classes != 0; classes &= classes - 1) set(all.special[type][std::countr_zero(classes)]);
}

void record_class(int of, int value) { set(all.classes[of % kClasses][value % kClasses]); }

std::span<uint8_t> counters() { return {reinterpret_cast<uint8_t*>(&all), sizeof all}; }

}  // namespace attest::fuzz
