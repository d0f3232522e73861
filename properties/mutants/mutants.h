// mutants.h: faulty host kernels, each named by its fault, to see what the harness catches.
//
// Every mutant is the production host kernel (kernel/host/host_kernel.h) with one step replaced, or called with one
// thing changed. A family is one file, where each fault stands with its row of the list.
// `attest verify --kernel libattest_mutants.so:no_rescale` runs one.
#pragma once

#include <vector>

#include "kernel/abi/attest_kernel.h"

namespace attest::mutants {

struct Mutant {
  const char* name;
  const char* fault;       // one sentence
  const char* reports;     // ids of public reports of it, separated by blanks, or ""
  const char* equivalent;  // proof that no observation within the contract shows it, or ""
  const attest_kernel* kernel;
};

struct Family {
  const char* name;
  std::vector<Mutant> mutants;
};

Family rescale();
Family maximum();
Family mask();
Family tail();
Family merge();
Family score();
Family sink();
Family log_sum_exp();
Family output();
Family numbers();
Family address();
Family conjunction();
Family row_dependence();
Family cheaters();

const std::vector<Family>& all();
const Mutant* find(const char* name);

}  // namespace attest::mutants
