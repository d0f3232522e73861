#include "properties/mutants/mutants.h"

#include <cstring>

namespace attest::mutants {

const std::vector<Family>& all() {
  static const std::vector<Family> families = {rescale(), maximum(), mask(),    tail(),    merge(),       score(),          sink(),
                                               log_sum_exp(), output(), numbers(), address(), conjunction(), row_dependence(), cheaters()};
  return families;
}

const Mutant* find(const char* name) {
  for (const Family& family : all())
    for (const Mutant& m : family.mutants)
      if (std::strcmp(m.name, name) == 0) return &m;
  return nullptr;
}

}  // namespace attest::mutants
