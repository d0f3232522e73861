#include "properties/signature.h"

#include <algorithm>
#include <cmath>

#include "reference/visible.h"

namespace attest {

namespace {

std::string value_class(double x) { return std::isnan(x) ? "nan" : std::isinf(x) ? "inf" : x == 0 ? "zero" : "finite"; }

std::string place(const Problem& p, const ElementError& e) {
  const bool inside = e.b >= 0 && e.b < p.shape.b && e.h >= 0 && e.h < p.shape.hq && e.row >= 0 && e.row < p.shape.nq;
  const std::string output = e.col < 0 ? "LSE" : "O";
  if (!inside) return output;  // of a second problem that is larger than the first
  std::vector<int64_t> keys;
  visible_keys(p, Conventions{}, e.b, e.h, e.row, keys);
  const int64_t tile = p.choice.tile_keys > 0 ? p.choice.tile_keys : Numerics{}.tile;
  const char* row = keys.empty() ? "an empty row" : keys.size() == 1 ? "a row with one key"
                  : keys.front() / tile == keys.back() / tile ? "a row within one tile" : "a row over several tiles";
  return output + " of " + row;
}

}  // namespace

std::string signature(std::string_view property, const Problem& problem, const Verdict& verdict) {
  if (verdict.check == Check::none) return "";
  std::string text = std::string(property) + "/" + std::string(name_of(verdict.check));
  if (verdict.worst.empty()) return text;
  // The element that the failed check is about: LSE for that check, else the worst of all.
  const auto of_lse = [](const ElementError& e) { return e.col < 0; };
  const auto found = std::find_if(verdict.worst.begin(), verdict.worst.end(), of_lse);
  const ElementError& worst = verdict.check == Check::lse && found != verdict.worst.end() ? *found : verdict.worst.front();
  return text + "/" + place(problem, worst) + "/" + value_class(worst.got) + " for " + value_class(worst.exact);
}

}  // namespace attest
