// attest kernels: what is there, and what it can do.
#include <fmt/format.h>

#include <memory>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/terminal.h"

namespace attest::cli {

namespace {

std::string type_name(int32_t type) {
  return type == ATTEST_F32 ? "f32" : type == ATTEST_F16 ? "f16" : type == ATTEST_BF16 ? "bf16" : fmt::format("type {}", type);
}

template <class T>
std::string list(const T* items, uint32_t n, const char* none) {
  return n == 0 ? none : fmt::format("{}", fmt::join(items, items + n, " "));
}
std::string type_list(const int32_t* types, uint32_t n, const char* none) {
  std::vector<std::string> names;
  for (uint32_t k = 0; k < n; ++k) names.push_back(type_name(types[k]));
  return n == 0 ? none : fmt::format("{}", fmt::join(names, " "));
}

std::string features(uint32_t bits) {
  constexpr std::pair<attest_feature, const char*> kNames[] = {
      {ATTEST_CAUSAL, "causal"},         {ATTEST_WINDOW, "window"},     {ATTEST_KEY_LENGTHS, "key lengths"},
      {ATTEST_MASK, "boolean mask"},     {ATTEST_BIAS_F32, "f32 bias"}, {ATTEST_BIAS_INPUT_TYPE, "input-type bias"},
      {ATTEST_SOFTCAP, "softcap"},       {ATTEST_SINK, "sink"},         {ATTEST_GROUPED_HEADS, "grouped heads"},
      {ATTEST_LSE, "LSE"},               {ATTEST_STRIDES, "strides"},   {ATTEST_UNALIGNED, "any alignment"}};
  std::vector<std::string> yes, no;
  for (const auto& [bit, name] : kNames) ((bits & bit) != 0 ? yes : no).emplace_back(name);
  return fmt::format("{}{}", fmt::join(yes, ", "), no.empty() ? "" : fmt::format("; not: {}", fmt::join(no, ", ")));
}

std::string orders(const attest_kernel& t) {
  std::vector<std::string> names;
  for (uint32_t k = 0; k < t.order_count; ++k) names.emplace_back(t.orders[k] == ATTEST_ORDER_DESCENDING ? "descending" : "ascending");
  return names.empty() ? "its own" : fmt::format("{}", fmt::join(names, ", "));
}

std::string conventions(const attest_conventions& c) {
  std::vector<std::string> departures;
  if (c.causal_top_left != 0) departures.emplace_back("causal mask from the top left");
  if (c.empty_row_o_nan != 0) departures.emplace_back("O of an empty row is NaN");
  if (c.empty_row_lse_inf != 0) departures.emplace_back("LSE of an empty row is +inf");
  if (c.nonfinite_v_leaks != 0) departures.emplace_back("non-finite V at masked keys leaks");
  if (c.batch_dependent != 0) departures.emplace_back("depends on the batch");
  if (c.sink_first != 0) departures.emplace_back("trace holds the sink");
  return departures.empty() ? "attest's" : fmt::format("{}", fmt::join(departures, ", "));
}

std::string numerics(const attest_numerics& n) {
  std::vector<std::string> declared;
  if (n.p_type != 0) declared.push_back("P " + type_name(n.p_type));
  if (n.p_rounding != 0) declared.emplace_back(n.p_rounding == 2 ? "P toward zero" : "P to nearest");
  if (n.l_from != 0) declared.emplace_back(n.l_from == 1 ? "l from unrounded P" : "l from rounded P");
  if (n.acc_type != 0) declared.push_back("accumulators " + type_name(n.acc_type));
  if (n.acc_rounding != 0) declared.emplace_back(n.acc_rounding == 2 ? "sums toward zero" : "sums to nearest");
  if (n.split_state_type != 0) declared.push_back("split states " + type_name(n.split_state_type));
  if (n.sum_depth != 0) declared.push_back(fmt::format("sum depth {}", n.sum_depth));
  if (n.tile != 0) declared.push_back(fmt::format("tile {}", n.tile));
  if (n.exp_rel_error != 0) declared.push_back(fmt::format("exp within {:.3g}", n.exp_rel_error));
  if (n.max_lag != 0) declared.push_back(fmt::format("lag {:g}", n.max_lag));
  return declared.empty() ? "nothing declared: strict" : fmt::format("{}", fmt::join(declared, ", "));
}

void print(const Kernel& kernel) {
  const attest_kernel& t = kernel.table();
  fmt::print("{}  version {}, on {}\n", printable(kernel.name()), printable(t.version), kernel.device());
  const auto line = [](const char* name, const std::string& text) { fmt::print("  {:<12}{}\n", name, text); };
  line("types", type_list(t.types, t.type_count, "none"));
  line("head widths", t.head_width_count == 0 ? fmt::format("any D, Dv from 1 to {}", t.head_width_max) : list(t.head_widths, t.head_width_count, "") + " (D = Dv)");
  line("features", features(t.features));
  line("tiles", list(t.tiles, t.tile_count, "its own"));
  line("splits", list(t.splits, t.split_count, "its own"));
  line("orders", orders(t));
  line("P", type_list(t.p_types, t.p_type_count, "its own"));
  line("conventions", conventions(t.conventions));
  line("numerics", numerics(t.numerics));
  line("trace", kernel.traceable() ? "yes" : "no");
  line("merge", t.merge != nullptr ? "yes" : "no");
}

}  // namespace

Action add_kernels(CommandLine command) {
  const auto choice = std::make_shared<KernelChoice>();
  command.kernel(*choice);
  return [choice] {
    if (!choice->name.empty()) {
      print(load_kernel(*choice));
      return Exit::holds;
    }
    for (const char* built_in : {"host", "cuda", "cuda_hopper"}) {
      auto loaded = Kernel::load(built_in);
      if (auto* kernel = std::get_if<Kernel>(&loaded))
        print(*kernel);
      else
        fmt::print("{}  not available: {}\n", built_in, std::get<LoadError>(loaded).message);
    }
    fmt::print("A plug-in is any shared object that exports {}; kernel/plugins/example.cpp is a start.\n", ATTEST_KERNEL_SYMBOL);
    return Exit::holds;
  };
}

}  // namespace attest::cli
