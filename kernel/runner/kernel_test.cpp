// Loading of kernels, and what the runner sees of their memory: guards, poison, inputs, refusals.
#include "kernel/runner/kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "kernel/runner/one_line.h"
#include "kernel/testing/direct.h"
#include "reference/judge.h"

namespace attest {
namespace {

// --- loading

struct LoadFailure {
  LoadError::Kind kind = LoadError::Kind::not_found;
  std::string message;
};

LoadFailure failure(const std::string& name) {
  const auto loaded = Kernel::load(name);
  const auto* error = std::get_if<LoadError>(&loaded);
  EXPECT_NE(error, nullptr) << name << " was loaded";
  if (error == nullptr) return {};
  EXPECT_EQ(error->message.find('\n'), std::string::npos) << error->message;
  return {error->kind, error->message};
}

void expect_failure(const std::string& name, LoadError::Kind kind, std::initializer_list<const char*> words) {
  const LoadFailure seen = failure(name);
  EXPECT_EQ(seen.kind, kind) << seen.message;
  for (const char* word : words) EXPECT_NE(seen.message.find(word), std::string::npos) << "'" << word << "' is missing in: " << seen.message;
}

std::string plugin(const char* name) { return std::string(ATTEST_PLUGIN_DIR "/broken_") + name + ".so"; }

TEST(Load, BuiltInKernelsHaveTheirNames) {
  const auto names = Kernel::built_in();
  EXPECT_NE(std::find(names.begin(), names.end(), "host"), names.end());
  const Kernel host = std::get<Kernel>(Kernel::load("host"));
  EXPECT_EQ(host.name(), "host");
  EXPECT_EQ(host.device(), "cpu");
}

TEST(Load, UnknownNamesListTheKnownOnes) {
  expect_failure("hst", LoadError::Kind::not_found, {"hst", "host"});
  expect_failure("/nowhere/kernel.so", LoadError::Kind::not_found, {"/nowhere/kernel.so"});
  expect_failure("", LoadError::Kind::not_found, {"host"});
}

TEST(OneLine, IsPrintableUtf8OfAtMostSoManyBytes) {
  EXPECT_EQ(one_line("plain \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x99\x82"), "plain \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x99\x82");
  EXPECT_EQ(one_line("a\nb\tc\x1b[2J\x7f"), "a b c [2J ");
  EXPECT_EQ(one_line(std::string_view("a\0b", 3)), "a b");
  EXPECT_EQ(one_line("\xC2\x9B!"), " !");                   // a C1 control: another way to write an escape sequence
  EXPECT_EQ(one_line("\xFF\xC3(\xE2\x82"), "?" "?(" "??");  // stray, and cut short
  EXPECT_EQ(one_line("\xC0\xAF\xED\xA0\x80\xF4\x90\x80\x80"), "?????????");  // overlong, a surrogate, past the last character
  EXPECT_EQ(one_line("abcdef", 3), "abc...");
  EXPECT_EQ(one_line("ab\xE2\x82\xAC", 4), "ab...");        // never within a character
  EXPECT_EQ(one_line("abc", 3), "abc");
}

TEST(Load, OfSeveralKernelsTheOthersAreNamed) {
  EXPECT_EQ(std::get<Kernel>(Kernel::load(plugin("two"))).further(), "second");
  EXPECT_EQ(std::get<Kernel>(Kernel::load(plugin("two") + ":second")).further(), "");
  EXPECT_EQ(std::get<Kernel>(Kernel::load("host")).further(), "");
}

TEST(Load, FilesThatAreNoPluginAreNamed) {
  const std::string path = ::testing::TempDir() + "no_plugin_at_all.so";
  std::ofstream(path) << "not a shared object\n";
  expect_failure(path, LoadError::Kind::bad_plugin, {path.c_str()});
  std::filesystem::remove(path);
  expect_failure(::testing::TempDir(), LoadError::Kind::bad_plugin, {"not a file"});
  expect_failure(ATTEST_NO_SYMBOL_PLUGIN, LoadError::Kind::bad_plugin, {"attest_kernel_get"});
}

TEST(Load, BrokenTablesAreNamed) {
  using enum LoadError::Kind;
  expect_failure(plugin("abi_version"), bad_plugin, {"broken_abi_version.so", "ABI version 42", "version 1"});
  expect_failure(plugin("struct_size"), bad_plugin, {"broken_struct_size.so", "16 bytes"});
  expect_failure(plugin("no_forward"), bad_plugin, {"forward"});
  expect_failure(plugin("no_supports"), bad_plugin, {"supports"});
  expect_failure(plugin("no_name"), bad_plugin, {"name"});
  expect_failure(plugin("no_types"), bad_plugin, {"types"});
  expect_failure(plugin("device"), bad_plugin, {"device type 7"});
  expect_failure(plugin("missing_list"), bad_plugin, {"3 tiles"});
  expect_failure(plugin("empty"), bad_plugin, {"no kernel"});
}

TEST(Load, APluginMayHoldSeveralKernels) {
  EXPECT_EQ(std::get<Kernel>(Kernel::load(plugin("two"))).name(), "first");
  EXPECT_EQ(std::get<Kernel>(Kernel::load(plugin("two") + ":second")).name(), "second");
  expect_failure(plugin("two") + ":third", LoadError::Kind::not_found, {"third", "first, second"});
}

// This program links libstdc++ and libgcc statically, as attest itself does.
TEST(Load, TheExamplePluginComputesAttention) {
  const Kernel example = std::get<Kernel>(Kernel::load(ATTEST_EXAMPLE_PLUGIN));
  Judge judge;
  int64_t taken = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    testing::Random random(seed);
    Problem p = testing::random_problem(random);
    p.choice = {};
    p.softcap = 0;
    p.window = {};
    p.mask.reset();  // what it hid, NaN included, is now part of the problem
    p.bias.reset();
    p.sink.reset();
    if (!example.refuses(p).empty()) continue;
    ++taken;
    const Verdict v = judge(p, example.run(p), {.numerics = example.numerics(p, Contract::strict)});
    ASSERT_TRUE(v.ok()) << "seed " << seed << ": " << v.detail;
  }
  EXPECT_GE(taken, 50);
}

// --- what a run sees; the kernels here are right but for one fault

enum class Fault {
  none, past_the_end, before_the_start, gap, element_left, row_left, lse_left, input, workspace, workspace_end, trace_count, trace_end, fails, silent
};
Fault fault = Fault::none;

char* start(const DLTensor* t) { return static_cast<char*>(t->data) + t->byte_offset; }

attest_status faulty_forward(const attest_args* a, void* stream, char* message, size_t size) {
  static const Kernel host = std::get<Kernel>(Kernel::load("host"));
  if (fault == Fault::fails) {
    std::snprintf(message, size, "the moon is full");
    return ATTEST_FAILED;
  }
  if (fault == Fault::silent) return ATTEST_FAILED;
  attest_args plain = *a;
  plain.trace = nullptr;
  float kept[4];
  std::memcpy(kept, start(a->o), sizeof kept);
  float lse = 0;
  std::memcpy(&lse, start(a->lse), sizeof lse);
  host.table().forward(&plain, stream, message, size);
  const float one = 1;
  switch (fault) {
    case Fault::past_the_end: std::memcpy(start(a->o) + 4 * a->o->shape[0] * a->o->strides[0], &one, 4); break;
    case Fault::before_the_start: std::memcpy(start(a->lse) - 4, &one, 4); break;
    case Fault::gap: std::memcpy(start(a->o) + 4 * a->o->shape[3], &one, 4); break;
    case Fault::element_left: std::memcpy(start(a->o) + 4, kept + 1, 4); break;
    case Fault::row_left: std::memcpy(start(a->o), kept, 4 * static_cast<size_t>(a->o->shape[3])); break;
    case Fault::lse_left: std::memcpy(start(a->lse), &lse, 4); break;
    case Fault::input: std::memcpy(start(a->v), &one, 4); break;
    case Fault::workspace: std::memset(a->workspace, 1, a->workspace_bytes); break;
    case Fault::workspace_end: std::memset(a->workspace, 1, a->workspace_bytes + 1); break;
    case Fault::trace_count: if (a->trace != nullptr) *a->trace->count = a->trace->capacity + 1; break;
    case Fault::trace_end: if (a->trace != nullptr) std::memset(a->trace->records, 0, (a->trace->capacity + 1) * sizeof(attest_trace_record)); break;
    default: break;
  }
  return ATTEST_OK;
}

Kernel faulty(Fault f) {
  fault = f;
  static const attest_kernel table = [] {
    attest_kernel t = std::get<Kernel>(Kernel::load("host")).table();
    t.name = "faulty";
    t.forward = faulty_forward;
    t.workspace_bytes = [](const attest_args*) -> uint64_t { return 40; };
    return t;
  }();
  return Kernel::from_table(&table);
}

Problem small_problem() {
  Shape s;
  s.b = 2;
  s.nq = 2;
  s.nk = 3;
  s.d = s.dv = 3;
  Problem p = Problem::make(s, DType::f32);
  for (int64_t n = 0; n < p.v.layout.count(); ++n) p.v.set_bits(n, f32_from_double(static_cast<double>(n) + 2));
  p.o.stride = {10, 10, 4, 1};  // a gap of one element after each row
  return p;
}

Observation run_with(Fault f, bool trace = false) { return faulty(f).run(small_problem(), {.trace = trace}); }

TEST(Run, ARightKernelLeavesNoComplaint) {
  for (Fault f : {Fault::none, Fault::workspace}) {
    const Observation seen = run_with(f, true);
    EXPECT_EQ(seen.status, RunStatus::ok);
    EXPECT_EQ(seen.overrun + seen.unwritten + seen.input_change, "");
    EXPECT_EQ(seen.o.size(), 12u);
    EXPECT_EQ(seen.lse.size(), 4u);
  }
}

TEST(Run, WritesOutsideTheOutputsAreSeen) {
  EXPECT_NE(run_with(Fault::past_the_end).overrun.find("o: byte "), std::string::npos) << run_with(Fault::past_the_end).overrun;
  EXPECT_NE(run_with(Fault::before_the_start).overrun, "");
  EXPECT_NE(run_with(Fault::gap).overrun.find("between its elements"), std::string::npos) << run_with(Fault::gap).overrun;
  EXPECT_NE(run_with(Fault::workspace_end).overrun.find("workspace"), std::string::npos);
  EXPECT_NE(run_with(Fault::trace_count, true).overrun.find("trace"), std::string::npos);
  EXPECT_NE(run_with(Fault::trace_end, true).overrun.find("trace"), std::string::npos);
}

TEST(Run, ElementsThatWereNotWrittenAreSeen) {
  EXPECT_NE(run_with(Fault::element_left).unwritten.find("o: element 1 "), std::string::npos) << run_with(Fault::element_left).unwritten;
  EXPECT_NE(run_with(Fault::row_left).unwritten, "");
  EXPECT_NE(run_with(Fault::lse_left).unwritten.find("lse: element 0 "), std::string::npos);
}

TEST(Run, AResultThatLooksLikePoisonIsNoComplaint) {
  // A NaN of all ones comes back from V through the host kernel's O only by chance, so plant it.
  static attest_kernel table = std::get<Kernel>(Kernel::load("host")).table();
  table.forward = [](const attest_args* a, void*, char*, size_t) {
    for (int64_t n = 0; n < a->o->shape[0] * a->o->strides[0]; ++n)
      if (n % 10 < 7 && n % 10 != 3) std::memset(start(a->o) + 4 * n, 0xFF, 4);
    std::memset(start(a->lse), 0xFF, 16);
    return ATTEST_OK;
  };
  const Observation seen = Kernel::from_table(&table).run(small_problem());
  EXPECT_EQ(seen.unwritten + seen.overrun, "");
  for (double o : seen.o) EXPECT_TRUE(std::isnan(o));
}

TEST(Run, ChangedInputsAreSeen) { EXPECT_NE(run_with(Fault::input).input_change.find("v: byte "), std::string::npos) << run_with(Fault::input).input_change; }

TEST(Run, FailuresKeepTheKernelsWords) {
  EXPECT_EQ(run_with(Fault::fails).status, RunStatus::failed);
  EXPECT_EQ(run_with(Fault::fails).message, "the moon is full");
  EXPECT_NE(run_with(Fault::silent).message, "");
}

TEST(Run, InputsStandBetweenNanAtTheirOwnAlignment) {
  // q starts 3 elements into its storage, at 16 bytes plus 12; beyond the storage lies NaN.
  static attest_kernel table = std::get<Kernel>(Kernel::load("host")).table();
  static bool right = false;
  table.forward = [](const attest_args* a, void*, char*, size_t) {
    const auto address = reinterpret_cast<uintptr_t>(start(a->q));
    float after;
    std::memcpy(&after, start(a->q) + 4 * a->q->shape[3], 4);
    right = address % 16 == 12 && a->q->byte_offset == 12 && std::isnan(after);
    return ATTEST_OK;
  };
  Shape s;
  s.d = 2;
  Problem p = Problem::make(s, DType::f32);
  p.q.layout.offset = 3;
  p.q.storage.assign(20, 0);
  Kernel::from_table(&table).run(p);
  EXPECT_TRUE(right);
}

TEST(Run, FeaturesThatAreNotOfferedAreRefusedByName) {
  static attest_kernel table = std::get<Kernel>(Kernel::load("host")).table();
  table.features = 0;
  table.tile_count = table.split_count = table.order_count = table.p_type_count = 0;
  table.type_count = 1;  // f32
  const Kernel bare = Kernel::from_table(&table);
  const auto refusal = [&](auto change) {
    Shape s;
    s.nq = 2;
    s.nk = 2;
    s.d = s.dv = 8;
    s.hq = 2;
    s.hk = 2;
    Problem p = Problem::make(s, DType::f32);
    change(p);
    return bare.refuses(p);
  };
  EXPECT_EQ(refusal([](Problem&) {}), "");
  EXPECT_NE(refusal([](Problem& p) { p.causal = true; }).find("causal"), std::string::npos);
  EXPECT_NE(refusal([](Problem& p) { p.window.left = 1; }).find("window"), std::string::npos);
  EXPECT_NE(refusal([](Problem& p) { p.key_lengths = {{1}}; }).find("key lengths"), std::string::npos);
  EXPECT_NE(refusal([](Problem& p) { p.mask = BoolMask{Layout::packed({1, 1, 1, 2}), {1, 1}}; }).find("mask"), std::string::npos);
  EXPECT_NE(refusal([](Problem& p) { p.bias = Tensor::packed(DType::f32, {1, 1, 1, 2}); }).find("bias"), std::string::npos);
  EXPECT_NE(refusal([](Problem& p) { p.softcap = 1; }).find("softcap"), std::string::npos);
  EXPECT_NE(refusal([](Problem& p) { p.sink = {{0, 0}}; }).find("sink"), std::string::npos);
  EXPECT_NE(refusal([](Problem& p) { p.shape.hk = 1; }).find("grouped"), std::string::npos);
  EXPECT_NE(refusal([](Problem& p) { p.o.stride[2] = 12; }).find("strides"), std::string::npos);
  EXPECT_NE(refusal([](Problem& p) { p.k.layout.offset = 1; }).find("aligned"), std::string::npos);
  EXPECT_NE(refusal([](Problem& p) { p.type = DType::f16; }).find("f16"), std::string::npos);
  EXPECT_NE(refusal([](Problem& p) { p.choice.tile_keys = 4; }).find("tile size"), std::string::npos);
  EXPECT_NE(refusal([](Problem& p) { p.choice.splits = 2; }).find("splits"), std::string::npos);
  EXPECT_NE(refusal([](Problem& p) { p.choice.order = TileOrder::descending; }).find("order"), std::string::npos);
  EXPECT_NE(refusal([](Problem& p) { p.choice.p_type = DType::f32; }).find("P in f32"), std::string::npos);
}

TEST(Numerics, FollowTheChoicesOfTheProblemAndTheDeclaration) {
  static attest_kernel table = std::get<Kernel>(Kernel::load("host")).table();
  table.numerics.tile = 128;
  table.numerics.exp_rel_error = 0x1p-20f;
  table.numerics.acc_rounding = 2;
  table.numerics.l_from = 2;
  table.numerics.max_lag = 8;
  const Kernel k = Kernel::from_table(&table);
  Problem p = small_problem();
  EXPECT_EQ(k.numerics(p, Contract::strict).tile, strict(DType::f32).tile);
  EXPECT_EQ(k.numerics(p, Contract::strict).exp_rel_error, strict(DType::f32).exp_rel_error);
  EXPECT_EQ(k.numerics(p, Contract::strict).max_lag, 0);
  EXPECT_EQ(k.numerics(p, Contract::declared).tile, 128);
  EXPECT_EQ(k.numerics(p, Contract::declared).exp_rel_error, 0x1p-20);
  EXPECT_EQ(k.numerics(p, Contract::declared).acc_rounding, Rounding::toward_zero);
  EXPECT_EQ(k.numerics(p, Contract::declared).l_from, DenominatorFrom::rounded);
  EXPECT_EQ(k.numerics(p, Contract::declared).max_lag, 8);
  p.choice.tile_keys = 3;
  p.choice.splits = 4;
  p.choice.p_type = DType::bf16;
  EXPECT_EQ(k.numerics(p, Contract::strict).tile, 3);
  EXPECT_EQ(k.numerics(p, Contract::strict).p_type, DType::bf16);
  EXPECT_GE(k.numerics(p, Contract::strict).extra_rescales, 3);
  p.choice.p_type = DType::f32;
  p.type = DType::f16;
  EXPECT_EQ(k.numerics(p, Contract::strict).p_type, DType::f16);
  EXPECT_EQ(k.numerics(p, Contract::declared).p_type, DType::f32);
}

}  // namespace
}  // namespace attest
