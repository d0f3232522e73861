// The command as a person uses it: exit codes, one line for every mistake, JSON alone on stdout, runs that repeat.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "corpus/case_file.h"

namespace attest {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Ran {
  int exit = -1;
  std::string out, err;
  int64_t error_lines() const { return std::count(err.begin(), err.end(), '\n'); }
};

// A folder of its own for every test, in which `attest` runs.
class Command : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "attest-test-XXXXXX";
    const fs::path base = fs::temp_directory_path() / name;
    std::string path = base.string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  void TearDown() override { fs::remove_all(folder_); }

  Ran attest(const std::string& arguments) const {
    const std::string line = "cd '" + folder_.string() + "' && '" ATTEST "' " + arguments + " > out.txt 2> err.txt < /dev/null";
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(folder_ / "out.txt"), contents(folder_ / "err.txt")};
  }

  // Bad use: this exit code, nothing on stdout, one line on stderr that names the culprit.
  void expect_refused(const std::string& arguments, int exit, const std::string& culprit) const {
    const Ran ran = attest(arguments);
    EXPECT_EQ(ran.exit, exit) << arguments << "\n" << ran.err;
    EXPECT_EQ(ran.out, "") << arguments;
    EXPECT_EQ(ran.error_lines(), 1) << arguments << "\n" << ran.err;
    EXPECT_NE(ran.err.find(culprit), std::string::npos) << arguments << "\n" << ran.err;
  }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return name;
  }

  fs::path folder_;
};

const char* kCase = R"({"attest_case": 1, "name": "two blocks", "type": "f32", "scale": 1,
  "scores": [[1, 2, 5, 3]], "values": [[1, 0], [0, 1], [1, 1], [0, 0]], "choice": {"tile_keys": 2}})";

// One little-endian length, the header, then the bytes of the tensors.
std::string safetensors(const std::string& header, const std::string& data, uint64_t length) {
  std::string file(8, '\0');
  for (int k = 0; k < 8; ++k) file[static_cast<size_t>(k)] = static_cast<char>(length >> (8 * k));
  return file + header + data;
}

TEST_F(Command, every_mistake_is_one_line_that_names_the_culprit) {
  expect_refused("", 2, "subcommand");
  expect_refused("frobnicate", 2, "frobnicate");
  expect_refused("verify --frob", 2, "--frob");
  expect_refused("verify --kernel nope", 2, "nope");
  expect_refused("verify --kernel nope.so", 2, "nope.so");
  expect_refused("verify --cases 0", 2, "--cases: '0'");
  expect_refused("verify --cases -5", 2, "--cases");
  expect_refused("verify --cases 1e4", 2, "1e4");
  expect_refused("verify --cases 99999999999999999999", 2, "99999999999999999999");
  expect_refused("verify --cases", 2, "--cases");
  expect_refused("verify --seed x1", 2, "x1");
  expect_refused("verify --time 10parsecs", 2, "10parsecs");
  expect_refused("verify --time 0s", 2, "0s");
  expect_refused("verify --time 5s --cases 3", 2, "--time");
  expect_refused("verify --shard 5/3", 2, "5/3");
  expect_refused("verify --shard 0/3", 2, "0/3");
  expect_refused("verify --shard 1", 2, "'1'");
  expect_refused("verify --threads 0", 2, "--threads");
  expect_refused("verify --contract lenient", 2, "lenient");
  expect_refused("verify --isolate --no-isolate", 2, "--no-isolate");
  expect_refused("verify --call-limit soon", 2, "soon");
  expect_refused("verify --memory-limit 12", 2, "'12'");
  expect_refused("verify --properties '['", 2, "'['");
  expect_refused("verify --properties no_such_property", 4, "no_such_property");
  expect_refused("replay", 2, "PATH");
  expect_refused("replay missing.json", 2, "missing.json");
  expect_refused("show missing.json", 2, "missing.json");
  expect_refused("convert missing.json to.safetensors", 2, "missing.json");
}

TEST_F(Command, an_output_that_cannot_be_written_is_named) {
  const Ran ran = attest("verify --kernel host --cases 1 --properties '^repeat_call$' --json /proc/no/such/file");
  EXPECT_EQ(ran.exit, 2);
  EXPECT_EQ(ran.error_lines(), 1) << ran.err;
  EXPECT_NE(ran.err.find("/proc/no/such/file"), std::string::npos) << ran.err;
}

TEST_F(Command, a_plug_in_that_is_none_is_refused_with_the_reason) {
  expect_refused("verify --kernel " NO_SYMBOL, 2, "attest_kernel_get");
  expect_refused("verify --kernel " OTHER_ABI, 2, "ABI version 999");
  expect_refused("kernels --kernel " NO_SYMBOL, 2, "attest_kernel_get");
  expect_refused("verify --kernel " EXAMPLE ":other", 2, "other");
  expect_refused("verify --kernel ./" + write("text.so", "no library"), 2, "text.so");
  expect_refused("verify --kernel .", 2, "'.'");
}

TEST_F(Command, a_missing_device_is_no_bad_usage) {
#if ATTEST_HAVE_CUDA
  if (attest("kernels --kernel cuda").exit == 0) GTEST_SKIP() << "there is a GPU";
#endif
  expect_refused("verify --kernel cuda", 4, "cuda");
}

TEST_F(Command, a_bad_case_file_is_refused_with_its_name_and_field) {
  const auto refuse = [&](const std::string& name, const std::string& text, const std::string& culprit) {
    write(name, text);
    for (const std::string command : {"replay ", "show ", "replay --dry-run "}) {
      expect_refused(command + name, 2, culprit);
      expect_refused(command + name, 2, name);
    }
    expect_refused("convert " + name + " to.json", 2, culprit);
    EXPECT_FALSE(fs::exists(folder_ / "to.json"));
  };
  const std::string good = kCase;
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  refuse("truncated.json", good.substr(0, good.size() / 2), "truncated.json");
  refuse("empty.json", "", "empty.json");
  refuse("unknown_field.json", with("\"scale\"", "\"scail\""), "scail");
  refuse("unknown_type.json", with("f32", "f64"), "f64");
  refuse("short_row.json", with("[1, 0]", "[1]"), "values");
  refuse("few_values.json", with("[1, 0], ", ""), "values");
  refuse("negative.json", with("\"scale\": 1", "\"scale\": 1, \"shape\": {\"Nk\": -4}"), "Nk");
  refuse("huge.json", with("\"scale\": 1", "\"scale\": 1, \"shape\": {\"Nk\": 4000000000000000000}"), "Nk");
  refuse("property.json", with("\"scale\": 1", "\"scale\": \"two\""), "scale");
  refuse("case.txt", good, "case.txt");

  const std::string header = R"({"q":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},"k":{"dtype":"F32","shape":[1,1],"data_offsets":[4,8]},)"
                             R"("v":{"dtype":"F32","shape":[1,1],"data_offsets":[8,12]}})";
  const std::string data(12, '\0');
  write("good.safetensors", safetensors(header, data, header.size()));
  EXPECT_EQ(attest("replay --kernel host good.safetensors").exit, 0) << contents(folder_ / "err.txt");
  const auto header_with = [&](const std::string& from, const std::string& to) {
    std::string text = header;
    return text.replace(text.find(from), from.size(), to);
  };
  const auto refuse_tensors = [&](const std::string& name, const std::string& text, const std::string& bytes, const std::string& culprit) {
    refuse(name, safetensors(text, bytes, text.size()), culprit);
  };
  refuse_tensors("truncated.safetensors", header, data.substr(0, 7), "truncated.safetensors");
  refuse("length.safetensors", safetensors(header, data, uint64_t{1} << 62), "length.safetensors");
  refuse("tiny.safetensors", "abc", "tiny.safetensors");
  refuse_tensors("negative.safetensors", header_with("[1,1]", "[-1,1]"), data, "q");
  refuse_tensors("huge.safetensors", header_with("[1,1]", "[4611686018427387904,4]"), data, "q");
  refuse_tensors("dtype.safetensors", header_with("F32", "I8"), data, "q");
  refuse_tensors("name.safetensors", header_with("\"q\"", "\"queries\""), data, "queries");
}

TEST_F(Command, a_case_that_names_no_known_property_is_refused) {
  std::string text = kCase;
  text.insert(1, "\"property\": \"magic\", ");
  expect_refused("replay " + write("magic.json", text), 2, "magic");
}

TEST_F(Command, a_kernel_that_crashes_inside_attest_exits_3_and_says_what_ran) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer reports crashes itself";
#endif
  const Ran ran = attest("verify --kernel " CRASHES " --no-isolate --cases 10");
  EXPECT_EQ(ran.exit, 3);
  EXPECT_NE(ran.err.find("crashed (segmentation fault)"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("attest verify --kernel " CRASHES " --no-isolate --seed 1 --cases 10"), std::string::npos) << ran.err;
}

json figures(const Ran& ran) {
  json all = json::parse(ran.out);
  all.erase("seconds");
  all.erase("command");
  return all;
}

std::string plugin_that(const std::string& fault) { return std::string(MISBEHAVING) + "/misbehaving_" + fault + ".so"; }

std::string line_with(const std::string& text, const std::string& begin) {
  const size_t at = text.find(begin);
  return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
}

// Standard error without the lines of progress, which a slow machine gets every ten seconds.
std::string told(const Ran& ran) { return std::regex_replace(ran.err, std::regex("[0-9]+( of [0-9]+)? cases, [^\n]* left, [^\n]*\n"), ""); }

TEST_F(Command, a_plug_in_that_crashes_is_a_finding_and_the_run_goes_on) {
  const Ran ran = attest("verify --kernel " + plugin_that("segfault") + " --properties '^(repeat_call|matches_reference)$' --cases 60 --report out --json out.json");
  ASSERT_EQ(ran.exit, 3) << ran.out << ran.err;
  EXPECT_EQ(told(ran), "");
  const json all = json::parse(contents(folder_ / "out.json"));
  EXPECT_EQ(all["cases"], 60);
  EXPECT_GT(all["violations"], 0);
  EXPECT_LT(all["violations"], 60);
  EXPECT_NE(ran.out.find("FAILURE: crashed"), std::string::npos) << ran.out;

  // What the journal has: where the run was, and every call that was lost, in a file.
  std::istringstream lines(contents(folder_ / "out/journal.jsonl"));
  json lost;
  std::map<std::string, std::pair<uint64_t, uint64_t>> open;  // batches that have begun and not ended: one for each thread
  int64_t begun = 0, ended = 0;
  for (std::string line; std::getline(lines, line);) {
    const json entry = json::parse(line);
    begun += entry.contains("begins");
    ended += entry.contains("ends");
    for (const char* edge : {"begins", "ends"}) {
      if (!entry.contains(edge)) continue;
      const json& batch = entry[edge];
      const std::string name = batch["property"].get<std::string>() + batch["first"].dump();
      if (*edge == 'b') open[name] = {batch["first"], batch["last"]};
      else EXPECT_EQ(open.erase(name), 1u) << line;
    }
    if (!entry.contains("lost")) continue;
    lost = entry["lost"];
    EXPECT_EQ(lost["seed"], 1);
    const auto index = lost["index"].get<uint64_t>();
    EXPECT_TRUE(std::any_of(open.begin(), open.end(), [&](const auto& batch) {
      return batch.first.rfind(lost["property"].get<std::string>(), 0) == 0 && index >= batch.second.first && index < batch.second.second;
    })) << line;
    EXPECT_TRUE(fs::exists(folder_ / lost["file"].get<std::string>())) << lost;
  }
  EXPECT_GT(begun, 1);
  EXPECT_EQ(begun, ended);
  ASSERT_FALSE(lost.is_null());
  const Ran alone = attest("replay " + lost["file"].get<std::string>() + " --kernel " + plugin_that("segfault"));
  EXPECT_EQ(alone.exit, 3) << alone.out << alone.err;

  // One command repeats a finding, with the same signature every time.
  const std::string replay = line_with(ran.out, "attest replay ");
  ASSERT_NE(replay, "") << ran.out;
  const std::string signature = line_with(ran.out, "signature: ");
  for (int n = 0; n < 3; ++n) {
    const Ran again = attest(replay.substr(7));
    EXPECT_EQ(again.exit, 3) << again.out << again.err;
    EXPECT_EQ(line_with(again.out, "signature: "), signature) << again.out;
  }
  EXPECT_EQ(attest("replay " + line_with(ran.out, "out/failures/").substr(0, line_with(ran.out, "out/failures/").find(' ')) + " --kernel host").exit, 0);
}

TEST_F(Command, a_plug_in_that_hangs_is_a_finding_and_the_run_goes_on) {
  const Ran ran = attest("verify --kernel " + plugin_that("loops") + " --call-limit 0.4s --properties '^repeat_call$' --cases 6");
  EXPECT_EQ(ran.exit, 3) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("FAILURE: timed out"), std::string::npos) << ran.out;
  EXPECT_NE(line_with(ran.out, "attest replay ").find("--call-limit 0.4s"), std::string::npos) << ran.out;
}

TEST_F(Command, a_plug_in_that_dies_while_it_loads_is_one_line) {
  expect_refused("verify --kernel " + plugin_that("load_exits"), 3, "exited with status 7");
  expect_refused("verify --kernel " + plugin_that("load_hangs") + " --call-limit 0.1s", 3, "no answer within 3 s");
}

// A run without what may differ: times, and the machine.
json comparable(const fs::path& file) {
  json run = json::parse(contents(file));
  run.erase("seconds");
  run.erase("environment");
  for (json& p : run["properties"]) p.erase("seconds");
  return run;
}

TEST_F(Command, a_killed_run_is_continued_to_the_same_figures) {
  const std::string mutant = MUTANTS ":no_rescale";
  ASSERT_EQ(attest("verify --kernel " + mutant + " --cases 200 --properties 'matches' --threads 2 --baseline host --report whole --json whole.json").exit, 1);

  const pid_t run = fork();
  if (run == 0) {
    if (chdir(folder_.c_str()) != 0 || std::freopen("killed.txt", "w", stdout) == nullptr) _exit(99);
    execl(ATTEST, "attest", "verify", "--kernel", mutant.c_str(), "--cases", "200", "--properties", "matches", "--threads", "2", "--baseline", "host", "--report", "part",
          static_cast<char*>(nullptr));
    _exit(99);
  }
  const auto batches = [&] {
    const std::string journal = contents(folder_ / "part/journal.jsonl");
    int64_t ended = 0;
    for (size_t at = journal.find("{\"ends\""); at != std::string::npos; at = journal.find("{\"ends\"", at + 1)) ++ended;
    return ended;
  };
  for (int n = 0; n < 6000 && batches() < 8; ++n) usleep(10000);
  kill(run, SIGKILL);
  int status = 0;
  waitpid(run, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status)) << "the run ended before it was killed: " << contents(folder_ / "killed.txt");
  ASSERT_FALSE(fs::exists(folder_ / "part/report.json"));
  std::ofstream(folder_ / "part/journal.jsonl", std::ios::app) << R"({"begins":{"prop)";  // as a kill within a write leaves it

  const Ran resumed = attest("verify --resume part --threads 1 --json part.json");
  EXPECT_EQ(resumed.exit, 1) << resumed.err;
  EXPECT_EQ(comparable(folder_ / "part.json"), comparable(folder_ / "whole.json"));
  // A run that is over has nothing to go on with but what it tells of its failures.
  EXPECT_EQ(attest("verify --resume whole").exit, 1);
}

TEST_F(Command, an_expression_of_any_depth_is_one_line) {
  for (const size_t depth : {size_t{1001}, size_t{50000}})
    expect_refused("verify --list --properties '" + std::string(depth / 2 + 1, '(') + std::string(depth / 2 + 1, ')') + "'", 2, "at most 1000 are taken");
  EXPECT_EQ(attest("verify --list --properties '" + std::string(499, '(') + "v" + std::string(499, ')') + "'").exit, 0);
}

TEST_F(Command, of_a_plug_in_with_several_kernels_the_one_taken_is_named) {
  const Ran ran = attest("verify --dry-run --kernel " MUTANTS);
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(ran.error_lines(), 1) << ran.err;
  EXPECT_NE(ran.err.find("holds several kernels, this is "), std::string::npos) << ran.err;
  EXPECT_EQ(attest("verify --dry-run --kernel " MUTANTS ":no_rescale").err, "");
  EXPECT_EQ(attest("verify --dry-run --kernel " EXAMPLE).err, "");
}

TEST_F(Command, what_cannot_be_continued_is_named) {
  expect_refused("verify --resume nowhere", 2, "nowhere/journal.jsonl");
  fs::create_directory(folder_ / "r");
  write("r/journal.jsonl", "{\"run\":{\"command\":\"x\"}}\n");
  expect_refused("verify --resume r", 2, "does not say 'attest'");
  write("r/journal.jsonl", "hello\n");
  expect_refused("verify --resume r", 2, "line 1");
  expect_refused("verify --resume r --seed 2", 2, "line 1");
  write("r/journal.jsonl", "{\"run\":{\"attest\":\"0\"}}\n");
  expect_refused("verify --resume r --seed 2", 2, "--seed may not be given");
  expect_refused("verify --resume r", 2, "is a run of attest 0");
}

TEST_F(Command, against_a_baseline_differences_are_told_and_decide_nothing) {
  const Ran ran = attest("verify --kernel '" EXAMPLE "' --baseline host --cases 40 --properties 'matches_reference|keys_doubled' --report r --json r.json");
  EXPECT_EQ(ran.exit, 4) << ran.err;  // too few cases, as without a baseline
  EXPECT_NE(ran.out.find("against the baseline host"), std::string::npos) << ran.out;
  const json run = json::parse(contents(folder_ / "r.json"));
  EXPECT_EQ(run["baseline"]["kernel"], "host");
  const json& f32 = run["baseline"]["differences"]["f32"];
  EXPECT_EQ(f32["cases"], 40);
  int64_t all = 0;
  for (const auto& [name, n] : f32["ulp"].items()) all += n.get<int64_t>();
  EXPECT_EQ(all, f32["elements"].get<int64_t>());
  EXPECT_GT(f32["rows_nearer"].get<int64_t>(), f32["rows_baseline_nearer"].get<int64_t>()) << "the example computes in double";
  expect_refused("verify --baseline nothing_here", 2, "nothing_here");
}

const char* kThreeKeys = R"({"attest_case": 1, "property": "matches_reference", "type": "f32", "scale": 1, "scores": [[1, 2, 5], [2, 1, 0]], "values": [[1, 0], [0, 1], [1, 1]]})";

TEST_F(Command, what_is_written_where_it_must_not_be_is_seen_by_every_command) {
  write("case.json", kThreeKeys);
  for (const std::string& command : {std::string("replay case.json"), std::string("show case.json"), std::string("shrink case.json --time 1s"), std::string("diagnose case.json")}) {
    const Ran ran = attest(command + " --kernel " + plugin_that("wrong_buffer"));
    EXPECT_EQ(ran.exit, 1) << command << "\n" << ran.out << ran.err;
    EXPECT_NE((ran.out + ran.err).find(command.rfind("shrink", 0) == 0 ? "/memory/" : "input"), std::string::npos) << command << "\n" << ran.out << ran.err;
  }
  EXPECT_EQ(attest("replay case.json --kernel " + plugin_that("none")).exit, 0);
}

TEST_F(Command, a_kernel_that_says_it_failed_is_a_violation_for_every_command) {
  write("case.json", kThreeKeys);
  const std::string kernel = " --kernel '" HOSTILE "/plugin_hostile_path.so:../../escaped'";
  for (const std::string& command : {std::string("replay case.json"), std::string("show case.json"), std::string("shrink case.json --time 1s"), std::string("diagnose case.json")}) {
    const Ran ran = attest(command + kernel);
    EXPECT_EQ(ran.exit, 1) << command << "\n" << ran.out << ran.err;
  }
  const Ran ran = attest("verify --cases 20 --properties '^repeat_call$'" + kernel);
  EXPECT_EQ(ran.exit, 1) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("diagnosis:"), std::string::npos) << ran.out;
}

// Every file and folder under `root`, relative to it.
std::set<std::string> everything_under(const fs::path& root) {
  std::set<std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(root)) all.insert(fs::relative(entry.path(), root).string());
  return all;
}
bool plain_text(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F); });
}

TEST_F(Command, what_a_kernel_calls_itself_and_says_stays_text_and_within_the_report_folder) {
  // Deep enough that "../../escaped" would land where it is looked for.
  const fs::path deep = folder_ / "a/b/c";
  fs::create_directories(deep);
  for (const std::string kernel : {"../../escaped", "/tmp/attest_escaped", "../../escaped_too"}) {
    for (const std::string isolation : {"", " --no-isolate"}) {
      const Ran ran = attest("verify --kernel '" HOSTILE "/plugin_hostile_path.so:" + kernel + "'" + isolation + " --cases 60 --properties '^(matches_reference|repeat_call)$' --report a/b/c/report --json a/b/c/out.json");
      EXPECT_EQ(ran.exit, 1) << ran.out << ran.err;
      EXPECT_TRUE(plain_text(ran.out) && plain_text(ran.err)) << ran.out << ran.err;
      EXPECT_EQ(json::parse(contents(deep / "out.json"))["kernel"], kernel);
      for (const auto& entry : fs::recursive_directory_iterator(deep / "report/failures")) {
        const Ran again = attest("replay '" + entry.path().string() + "' --kernel '" HOSTILE "/plugin_hostile_path.so:" + kernel + "'" + isolation + " --json a/b/c/replay.json");
        EXPECT_EQ(again.exit, 1) << again.out << again.err;
        EXPECT_TRUE(plain_text(again.out) && plain_text(again.err)) << again.out << again.err;
        EXPECT_NO_THROW(json::parse(contents(deep / "replay.json"))) << entry.path();
        break;
      }
    }
  }
  EXPECT_FALSE(fs::exists("/tmp/attest_escaped"));
  for (const std::string& path : everything_under(folder_))
    EXPECT_TRUE(path.rfind("a/b/c/report", 0) == 0 || path == "a" || path == "a/b" || path == "a/b/c" || path == "a/b/c/out.json" || path == "a/b/c/replay.json" || path == "out.txt" || path == "err.txt") << path;
  for (const auto& entry : fs::recursive_directory_iterator(deep / "report")) EXPECT_EQ(entry.path().filename().string().find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."), std::string::npos) << entry.path();
}

TEST_F(Command, a_name_that_is_no_line_of_text_is_refused) {
  for (const std::string kind : {"newline", "escape", "bytes", "long", "empty"})
    for (const std::string isolation : {"", " --no-isolate"}) expect_refused("verify --kernel " HOSTILE "/plugin_hostile_" + kind + ".so:other" + isolation, 2, "no line of UTF-8 of 1 to 127 bytes");
}

TEST_F(Command, names_and_paths_in_a_case_file_lead_nowhere) {
  fs::create_directories(folder_ / "a/b");
  const std::string mutant = "--kernel " MUTANTS ":no_rescale";
  int n = 0;
  for (const std::string& name : {std::string("../../escaped"), (folder_ / "escaped").string(), std::string("a\\u0000b"), std::string("a\\nb\\u001b[2J"), std::string(100000, 'x')}) {
    const std::string file = "a/b/case" + std::to_string(n++) + ".json";
    const std::string text = R"({"attest_case": 1, "name": ")" + name + R"(", "signature": ")" + name +
                             R"(", "type": "f32", "scale": 1, "scores": [[1, 2, 5, 3]], "values": [[1, 0], [0, 1], [1, 1], [0, 0]], "choice": {"tile_keys": 2}})";
    write(file, text);
    const std::set<std::string> before = everything_under(folder_);
    for (const std::string& command : {"replay " + file + " ", "show " + file + " ", "diagnose " + file + " "}) {
      const Ran ran = attest(command + mutant);
      EXPECT_TRUE(ran.exit == 0 || ran.exit == 1) << command << ran.out << ran.err;
      EXPECT_TRUE(plain_text(ran.out) && plain_text(ran.err)) << command;
      EXPECT_LT(ran.out.size(), 20000u) << command;
    }
    EXPECT_EQ(attest("shrink " + file + " " + mutant + " --time 1s").exit, 1);
    EXPECT_EQ(attest("convert " + file + " a/b/converted.safetensors").exit, 0);
    std::set<std::string> after = everything_under(folder_);
    for (const std::string& one : before) after.erase(one);
    for (const char* own : {"out.txt", "err.txt"}) after.erase(own);  // this test's
    for (const std::string& one : after) EXPECT_EQ(one.rfind("a/b/", 0), 0u) << one;
  }
  // A path where contents belong is no contents.
  write("secret.json", kCase);
  for (const std::string field : {"q", "k", "v", "values", "scores", "mask", "bias"})
    for (const std::string& path : {std::string("secret.json"), (folder_ / "secret.json").string(), std::string("/etc/passwd")}) {
      json c = json::parse(kCase);
      c[field] = path;
      write("a.json", c.dump());
      const Ran ran = attest("replay a.json --kernel host");
      EXPECT_EQ(ran.exit, 2) << field << ran.out << ran.err;
      EXPECT_EQ(ran.error_lines(), 1) << ran.err;
      EXPECT_EQ(ran.err.find("root:"), std::string::npos) << ran.err;
    }
  json c = json::parse(kCase);
  c["property"] = "../../matches_reference";
  write("a.json", c.dump());
  expect_refused("replay a.json --kernel host", 2, "is not the name of a property");
}

TEST_F(Command, isolation_changes_no_figure) {
  const std::string run = "verify --kernel host --properties 'matches_reference|merge' --cases 60 --json - ";
  EXPECT_EQ(figures(attest(run + "--isolate")), figures(attest(run + "--no-isolate")));
}

TEST_F(Command, a_kernel_that_ends_the_process_exits_3_and_says_what_ran) {
  const std::string file = "'" ATTEST_SOURCE_DIR "/corpus/seeds/maximum_rises_every_block.json' ", kernel = "--kernel " CRASHES ":exits --no-isolate";
  for (const std::string& arguments : {"verify --cases 10 " + kernel, "replay " + file + kernel, "show " + file + kernel, "diagnose " + file + kernel,
                                       "shrink " + file + kernel}) {
    const Ran ran = attest(arguments);
    EXPECT_EQ(ran.exit, 3) << arguments << ran.out;
    EXPECT_NE(ran.err.find("ended by a call of exit while running kernel exits; again: attest " + arguments.substr(0, arguments.find(' '))), std::string::npos) << ran.err;
    EXPECT_NE(ran.err.find(kernel), std::string::npos) << ran.err;
  }
}

TEST_F(Command, an_empty_option_is_not_one_that_was_left_out) {
  for (const char* arguments : {"verify --kernel ''", "replay nothing.json --kernel ''", "verify --report ''", "verify --json ''", "verify --properties ''"})
    expect_refused(arguments, 2, "must not be empty");
}

TEST_F(Command, a_report_folder_that_cannot_be_written_is_told_before_the_run) {
  std::ofstream(folder_ / "taken") << "a file";
  expect_refused("verify --kernel host --cases 10 --report taken", 2, "--report");
}

TEST_F(Command, failures_that_cannot_be_kept_still_count) {
  std::ofstream(folder_ / "report") << "a file where the failures would go";
  const Ran ran = attest("verify --kernel " MUTANTS ":no_rescale --cases 300 --properties repeat_call\\|matches_reference");
  EXPECT_EQ(ran.exit, 1) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("the failures cannot be kept"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("verdict:"), std::string::npos) << ran.out;
}

TEST_F(Command, the_host_kernel_holds_and_exits_0) {
  const Ran ran = attest("verify --kernel host --properties '^(repeat_call|v_negated)$' --cases 300");
  EXPECT_EQ(ran.exit, 0) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("again: attest verify --kernel host --seed 1 --cases 300 --properties '^(repeat_call|v_negated)$'\n"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("verdict: all 2 properties hold"), std::string::npos) << ran.out;
  EXPECT_EQ(ran.err, "");
}

TEST_F(Command, too_few_cases_are_inconclusive) {
  const Ran ran = attest("verify --kernel host --properties '^repeat_call$' --cases 5");
  EXPECT_EQ(ran.exit, 4) << ran.out;
  EXPECT_NE(ran.out.find("inconclusive"), std::string::npos);
}

// What a ledger knows is counted apart and is no violation, anything else is; a case of it that passes is one.
TEST_F(Command, known_failures_of_a_ledger_are_no_violations_and_an_unexpected_pass_is) {
  const std::string faulty = "--kernel " MUTANTS ":no_rescale ", run = "verify " + faulty + "--properties '^repeat_call$|^matches_reference$' --cases 600 --report out";
  ASSERT_EQ(attest(run).exit, 1);
  const json before = json::parse(contents(folder_ / "out/report.json"))["runs"][0];
  fs::create_directories(folder_ / "ledger");
  fs::create_directories(folder_ / "findings");
  const std::string file = before["details"][0]["file"];
  const std::string name = fs::path(file).filename().string();
  fs::copy_file(folder_ / file, folder_ / "findings" / name);
  std::string ledger = "versions\tproperty\tsignature\treason\tsince\n";
  std::set<std::string> signatures;
  for (const json& property : before["properties"])
    for (const auto& [signature, n] : property["signatures"].items()) {
      signatures.insert(signature);
      ledger += "..\t" + property["name"].get<std::string>() + "\t" + signature + "\t" + (signatures.size() == 1 ? name : "https://example.org/issues/1") + "\t2025-01-31\n";
    }
  ASSERT_FALSE(signatures.empty());
  std::ofstream(folder_ / "ledger/no_rescale.tsv") << ledger;
  std::ofstream(folder_ / "ledger/host.tsv") << ledger.substr(0, ledger.find('\n', ledger.find('\n') + 1) + 1);  // the entry with the case

  const Ran known = attest(run + " --ledger ledger");
  EXPECT_EQ(known.exit, 4) << known.out << known.err;  // so few cases leave the property inconclusive
  const json after = json::parse(contents(folder_ / "out/report.json"))["runs"][0];
  EXPECT_EQ(after["violations"], 0);
  std::set<std::string> counted;
  for (const json& property : after["properties"])
    for (const auto& [signature, n] : property["known"].items()) counted.insert(signature);
  EXPECT_EQ(counted, signatures);
  EXPECT_NE(known.out.find("known failures"), std::string::npos) << known.out;

  EXPECT_EQ(attest("replay findings " + faulty).exit, 1);
  const Ran excused = attest("replay findings " + faulty + "--ledger ledger/no_rescale.tsv");
  EXPECT_EQ(excused.exit, 0) << excused.out;
  EXPECT_NE(excused.out.find("known failure"), std::string::npos) << excused.out;

  for (const std::string& line : {std::string("replay findings --kernel host --ledger ledger"), std::string("verify --kernel host --properties '^matches_reference$' --cases 60 --ledger ledger")}) {
    const Ran repaired = attest(line);
    EXPECT_EQ(repaired.exit, 1) << repaired.out;
    EXPECT_NE(repaired.out.find("unexpected pass"), std::string::npos) << repaired.out;
  }
  expect_refused("verify --kernel host --ledger nothing.tsv", 2, "nothing.tsv");
  fs::remove_all(folder_ / "findings");  // told before a case runs, not after all of them
  expect_refused("verify --kernel host --ledger ledger", 2, name);
}

TEST_F(Command, no_line_of_a_report_is_wider_than_100_columns) {
  const Ran ran = attest("verify --kernel " EXAMPLE " --cases 60");
  std::istringstream lines(ran.out);
  for (std::string line; std::getline(lines, line);)
    if (line.rfind("again: ", 0) != 0) {
      EXPECT_LE(line.size(), 100u) << line;
    }
  EXPECT_NE(ran.out.find("not covered: "), std::string::npos) << ran.out;  // the example offers no merge
}

TEST_F(Command, a_violation_exits_1_and_its_report_stands_in_order_and_replays) {
  const Ran ran = attest("verify --kernel " MUTANTS ":no_rescale --properties '^matches_reference$' --cases 200 --report out");
  ASSERT_EQ(ran.exit, 1) << ran.out << ran.err;
  size_t at = 0;
  for (const char* part : {"FAILURE: incorrect, property matches_reference", "signature: matches_reference/", "diagnosis:", "elements over their bound", "error / bound",
                           "err/bound         ulp", "shrunk case", "replay: attest replay ", "environment:", "again: ", "verdict: "}) {
    const size_t found = ran.out.find(part, at);
    ASSERT_NE(found, std::string::npos) << part << " is missing or out of order in\n" << ran.out;
    at = found;
  }
  for (const char* file : {"out/report.json", "out/report.html", "out/junit.xml", "out/verify.txt"}) EXPECT_TRUE(fs::exists(folder_ / file)) << file;

  const size_t begin = ran.out.find("attest replay ") + 7;
  const std::string replay = ran.out.substr(begin, ran.out.find('\n', begin) - begin);
  const Ran again = attest(replay);
  EXPECT_EQ(again.exit, 1) << replay << "\n" << again.out << again.err;
  const std::string file = replay.substr(7, replay.find(' ', 7) - 7);
  EXPECT_EQ(attest("replay " + file + " --kernel host").exit, 0) << file;
  // The shrunk case needs two tiles to show a missing rescale, and little more, whatever a busy machine found in its seconds.
  EXPECT_EQ(attest("shrink " + file + " --kernel " MUTANTS ":no_rescale --time 60s -o small.json").exit, 1);
  const Problem shrunk = read_case((folder_ / "small.json").string()).problem;
  EXPECT_LE(shrunk.shape.rows(), 4);
  EXPECT_LE(shrunk.shape.nk, 200);
}

TEST_F(Command, json_on_stdout_is_json_alone) {
  for (const std::string command : {"verify --kernel host --cases 40 --json -", "verify --kernel " EXAMPLE " --cases 40 --json -",
                                    "verify --kernel " MUTANTS ":no_maximum_subtracted --properties matches_reference --cases 100 --json -"}) {
    const Ran ran = attest(command);
    json all;
    ASSERT_NO_THROW(all = json::parse(ran.out)) << ran.out;
    for (const char* field : {"kernel", "device", "seed", "cases", "rows", "seconds", "violations", "worst_ratio", "loose", "not_covered", "properties",
                              "mix", "contract", "version", "environment"})
      EXPECT_TRUE(all.contains(field)) << field;
    int64_t cases = 0;
    for (const json& p : all["properties"]) {
      for (const char* field : {"name", "cases", "violations", "worst_ratio", "regimes"}) EXPECT_TRUE(p.contains(field)) << field;
      EXPECT_TRUE(p["worst_ratio"].is_number() || p["worst_ratio"] == "inf" || p["worst_ratio"] == "nan") << p["worst_ratio"];
      cases += p["cases"].get<int64_t>();
    }
    EXPECT_EQ(all["cases"], cases);
    EXPECT_EQ(all["mix"]["cases"], cases);
  }
}

TEST_F(Command, replay_writes_the_same_json) {
  write("case.json", kCase);
  const Ran ran = attest("replay case.json --kernel host --json -");
  EXPECT_EQ(ran.exit, 0);
  const json all = json::parse(ran.out);
  EXPECT_EQ(all["cases"], 1);
  EXPECT_EQ(all["violations"], 0);
  EXPECT_EQ(all["rows"], 1);
  EXPECT_EQ(all["properties"].size(), 1u);
}

TEST_F(Command, a_seed_repeats_the_run_whatever_the_threads) {
  const std::string run = "verify --kernel host --properties 'matches_reference|keys_' --cases 150 --json - --seed ";
  const Ran first = attest(run + "7 --threads 1"), second = attest(run + "7 --threads 3"), other = attest(run + "8");
  EXPECT_EQ(figures(first), figures(second));
  EXPECT_NE(figures(first)["rows"], figures(other)["rows"]);
}

TEST_F(Command, the_shards_together_are_the_whole) {
  const std::string run = "verify --kernel host --properties 'matches_reference|keys_doubled' --cases 150 --json - --shard ";
  const json whole = figures(attest(run + "1/1"));
  std::map<std::string, int64_t> regimes;
  int64_t cases = 0, rows = 0, elements = 0;
  for (const char* part : {"1/3", "2/3", "3/3"}) {
    const json one = figures(attest(run + part));
    EXPECT_LT(one["cases"], whole["cases"]);
    cases += one["cases"].get<int64_t>();
    rows += one["rows"].get<int64_t>();
    elements += one["elements"].get<int64_t>();
    for (const auto& [name, n] : one["regimes"].items()) regimes[name] += n.get<int64_t>();
  }
  EXPECT_EQ(cases, whole["cases"]);
  EXPECT_EQ(rows, whole["rows"]);
  EXPECT_EQ(elements, whole["elements"]);
  EXPECT_EQ(json(regimes), whole["regimes"]);
}

TEST_F(Command, exact_judging_gives_the_same_verdicts) {
  const std::string run = "verify --kernel host --properties 'masks_combine|empty_rows' --cases 6 --json - ";
  const json fast = figures(attest(run)), exact = figures(attest(run + "--exact"));
  EXPECT_EQ(fast["violations"], exact["violations"]);
  EXPECT_EQ(fast["rows"], exact["rows"]);
  EXPECT_GT(exact["rows_exact"], fast["rows_exact"]);
}

TEST_F(Command, time_ends_a_run) {
  const Ran ran = attest("verify --kernel host --properties '^repeat_call$' --time 0.2s");
  EXPECT_TRUE(ran.exit == 0 || ran.exit == 4) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("--time 0.2s"), std::string::npos) << ran.out;
}

TEST_F(Command, of_an_option_given_twice_the_last_counts) {
  const Ran ran = attest("verify --kernel host --seed 1 --seed 5 --dry-run");
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_NE(ran.out.find("--seed 5"), std::string::npos) << ran.out;
}

TEST_F(Command, list_and_dry_run_run_nothing) {
  const Ran list = attest("verify --list");
  EXPECT_EQ(list.exit, 0);
  const Ran one = attest("verify --list --properties '^v_negated$'");
  EXPECT_EQ(std::count(one.out.begin(), one.out.end(), '\n'), 1) << one.out;
  EXPECT_GT(list.out.size(), one.out.size());
  // A kernel that crashes when it is called shows that it is not.
  const Ran plan = attest("verify --kernel " CRASHES " --dry-run");
  EXPECT_EQ(plan.exit, 0) << plan.err;
  EXPECT_NE(plan.out.find("matches_reference"), std::string::npos);
  write("case.json", kCase);
  EXPECT_EQ(attest("replay --list .").out, "./case.json\n");
  EXPECT_EQ(attest("replay --dry-run case.json --kernel " CRASHES).exit, 0);
  EXPECT_EQ(attest("convert --dry-run case.json to.safetensors").exit, 0);
  EXPECT_FALSE(fs::exists(folder_ / "to.safetensors"));
}

TEST_F(Command, an_empty_folder_holds_nothing_to_replay) {
  fs::create_directory(folder_ / "none");
  expect_refused("replay none", 4, "none");
}

TEST_F(Command, convert_there_and_back_changes_nothing) {
  write("a.json", kCase);
  ASSERT_EQ(attest("convert a.json b.safetensors").exit, 0) << contents(folder_ / "err.txt");
  ASSERT_EQ(attest("convert b.safetensors c.json").exit, 0) << contents(folder_ / "err.txt");
  EXPECT_TRUE(same(read_case((folder_ / "a.json").string()).problem, read_case((folder_ / "c.json").string()).problem));
  expect_refused("convert a.json d.txt", 2, "d.txt");
}

TEST_F(Command, show_prints_the_state_after_each_block) {
  write("case.json", kCase);
  const Ran ran = attest("show case.json --kernel host");
  EXPECT_EQ(ran.exit, 0) << ran.err;
  // Scores 1 2 | 5 3: l = e^-1 + 1, then e^-4 + e^-3 + 1 + e^-2; scale = e^-3.
  for (const char* number : {"1.367879", "1.203438", "0.04978707"}) {
    const size_t first = ran.out.find(number);
    ASSERT_NE(first, std::string::npos) << number << " is missing in\n" << ran.out;
    EXPECT_NE(ran.out.find(number, first + 1), std::string::npos) << number << " is there only once, of kernel or reference, in\n" << ran.out;
  }
  expect_refused("show case.json --kernel host --row 1,2", 2, "1,2");
  EXPECT_EQ(attest("show case.json --kernel host --row 9").exit, 2);
  EXPECT_EQ(attest("show case.json --kernel host --row 0,0,0").exit, 0);
}

// One unit of the last digit of a decimal: 0.001 for "1.368".
double last_digit(const std::string& decimal) {
  const size_t point = decimal.find('.');
  return point == std::string::npos ? 1 : std::pow(10.0, -static_cast<double>(decimal.size() - point - 1));
}

TEST_F(Command, show_prints_the_numbers_of_the_texts_after_each_block) {
  for (const std::string name : {"attention_two_blocks_max_first", "attention_two_blocks_max_second", "softmax_two_blocks_max_first", "softmax_two_blocks_max_second"}) {
    const std::string path = std::string(ATTEST_SOURCE_DIR) + "/corpus/seeds/" + name + ".json";
    const Ran ran = attest("show --kernel host '" + path + "'");
    ASSERT_EQ(ran.exit, 0) << ran.err;
    int64_t stated_lines = 0;
    std::istringstream lines(ran.out);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::vector<std::string> word;
      for (std::string w; words >> w;) word.push_back(w);
      const auto quantity = std::find_if(word.begin(), word.end(), [](const std::string& w) { return w == "m" || w == "l" || w == "scale"; });
      if (quantity == word.end() || word.end() - quantity != 4) continue;
      ++stated_lines;
      const double stated = std::stod(quantity[3]), unit = last_digit(quantity[3]);
      EXPECT_NEAR(std::stod(quantity[1]), stated, unit) << name << ": " << line;
      EXPECT_NEAR(std::stod(quantity[2]), stated, unit) << name << ": " << line;
    }
    int64_t stated = 0;
    const std::optional<Expected> expected = read_case(path).expected;
    ASSERT_TRUE(expected) << name;
    for (const ExpectedState& state : expected->states) stated += !state.m.empty() + !state.l.empty() + !state.scale.empty();
    EXPECT_GE(stated, 4) << name;
    EXPECT_EQ(stated_lines, stated) << ran.out;
  }
}

TEST_F(Command, show_of_a_kernel_without_trace_shows_the_reference) {
  write("plain.json", R"({"attest_case": 1, "type": "f32", "scale": 1, "q": [[1, 0]], "k": [[1, 0], [2, 0], [5, 0], [3, 0]],
    "values": [[1, 0], [0, 1], [1, 1], [0, 0]]})");
  const Ran ran = attest("show plain.json --kernel " EXAMPLE);
  EXPECT_EQ(ran.exit, 0) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("no trace"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("1.203438"), std::string::npos) << ran.out;
}

// A copy of attest in a folder where shell scripts stand for fuzz targets.
class Fuzz : public Command {
 protected:
  void SetUp() override {
    Command::SetUp();
    fs::create_directories(folder_ / "bin");
    fs::copy_file(ATTEST, folder_ / "bin/attest");
  }
  void target(const std::string& name, const std::string& script) const {
    const fs::path path = folder_ / "bin" / name;
    std::ofstream(path) << "#!/bin/sh\nfor word; do case $word in -artifact_prefix=*) inputs=${word#-artifact_prefix=};; esac; done\n" << script;
    fs::permissions(path, fs::perms::owner_all);
  }
  Ran fuzz(const std::string& arguments) const {
    const std::string line = "cd '" + folder_.string() + "' && ./bin/attest fuzz " + arguments + " > out.txt 2> err.txt < /dev/null";
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(folder_ / "out.txt"), contents(folder_ / "err.txt")};
  }
};

TEST_F(Fuzz, without_targets_one_line_names_the_packages_and_the_preset) {
  const Ran ran = fuzz("");
  EXPECT_EQ(ran.exit, 4);
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(ran.error_lines(), 1) << ran.err;
  for (const char* part : {"clang-19", "libclang-rt-19-dev", "preset 'fuzz'"}) EXPECT_NE(ran.err.find(part), std::string::npos) << ran.err;
}

TEST_F(Fuzz, a_target_that_finds_nothing_holds) {
  target("fuzz_quiet", "echo; echo '#12 DONE cov: 3'; sleep 1\n");
  const Ran ran = fuzz("--time 1s");
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_NE(ran.out.find("fuzz_quiet: no finding, #12 DONE cov: 3"), std::string::npos) << ran.out;
}

TEST_F(Fuzz, a_saved_violation_is_told_with_its_replay_line_and_the_time_is_used_up) {
  target("fuzz_finds", "if [ -e $ATTEST_FINDINGS/a.json ]; then sleep 1; exit 0; fi\n"
                       "echo '{}' > $ATTEST_FINDINGS/a.json\n"
                       "echo 'attest: O is wrong' >&2; echo '  replay: attest replay findings/a.json --kernel host' >&2; echo noise >&2; exit 77\n");
  const Ran ran = fuzz("--time 3s");
  EXPECT_EQ(ran.exit, 1) << ran.err;
  EXPECT_NE(ran.out.find("fuzz_finds: found a.json\nattest: O is wrong\n  replay: attest replay findings/a.json --kernel host\n"), std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find("noise"), std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find("found", ran.out.find("found") + 1), std::string::npos) << ran.out;
}

TEST_F(Fuzz, a_crash_is_given_back_to_its_target_to_be_shrunk) {
  target("fuzz_crashes", "if [ \"$1\" = --keep-crash ]; then echo \"attest: kept $2 in $3\"; exit 0; fi\n"
                         "echo x > ${inputs}crash-1; echo \"Test unit written to ${inputs}crash-1\"; exit 77\n");
  const Ran ran = fuzz("--time 1m");
  EXPECT_EQ(ran.exit, 3) << ran.err;
  EXPECT_NE(ran.out.find("attest: kept findings/inputs/crash-1 in findings"), std::string::npos) << ran.out;
}

TEST_F(Fuzz, a_target_that_cannot_start_is_not_taken_for_a_pass) {
  target("fuzz_broken", "exit 1\n");
  EXPECT_EQ(fuzz("--time 1s").exit, 5);
}

TEST_F(Command, diagnose_argues_from_let_to_however) {
  const std::string file = std::string(ATTEST_SOURCE_DIR) + "/corpus/seeds/maximum_rises_every_block.json";
  const Ran right = attest("diagnose " + file + " --kernel host");
  EXPECT_EQ(right.exit, 0) << right.out << right.err;
  EXPECT_NE(right.out.find("are what the contract asks for"), std::string::npos) << right.out;
  for (const char* how : {"", " --no-trace"}) {
    const Ran wrong = attest("diagnose " + file + " --kernel " MUTANTS ":only_l_rescaled" + how);
    EXPECT_EQ(wrong.exit, 1) << wrong.out << wrong.err;
    size_t at = 0;
    for (const char* part : {"rescale_of_o_missing", "Let the kernel be one that", "Then ", "However, the contract gives"}) {
      const size_t found = wrong.out.find(part, at);
      ASSERT_NE(found, std::string::npos) << part << " is missing or out of order in\n" << wrong.out;
      at = found;
    }
  }
  expect_refused("diagnose missing.json", 2, "missing.json");
}

TEST_F(Command, shrink_keeps_the_signature_and_writes_what_replays) {
  const std::string file = std::string(ATTEST_SOURCE_DIR) + "/corpus/seeds/maximum_rises_every_block.json", kernel = " --kernel " MUTANTS ":no_rescale";
  const Ran ran = attest("shrink " + file + kernel + " -o small.json --gtest small_test.cpp");
  ASSERT_EQ(ran.exit, 1) << ran.out << ran.err;
  const Case small = read_case((folder_ / "small.json").string());
  EXPECT_LE(small.problem.shape.nk, 4);
  EXPECT_NE(ran.out.find("signature: " + small.signature), std::string::npos) << ran.out;
  const Ran again = attest("replay small.json" + kernel);
  EXPECT_EQ(again.exit, 1) << again.out;
  EXPECT_NE(again.out.find("signature: " + small.signature), std::string::npos) << again.out;
  EXPECT_EQ(attest("replay small.json --kernel host").exit, 0);
  const std::string source = contents(folder_ / "small_test.cpp");
  EXPECT_NE(source.find("TEST(attest, "), std::string::npos);
  EXPECT_NE(source.find("no_rescale"), std::string::npos);
  EXPECT_EQ(attest("shrink " + file + " --kernel host -o none.json").exit, 0);
  expect_refused("shrink " + file + kernel + " -o one.json --gtest one.json", 2, "same file");
  EXPECT_FALSE(fs::exists(folder_ / "none.json"));
}

TEST_F(Command, the_self_test_passes_in_under_a_second) {
  const auto start = std::chrono::steady_clock::now();
  const Ran ran = attest("selftest");
  EXPECT_EQ(ran.exit, 0) << ran.err;
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 1.0);
#endif
}

TEST_F(Command, every_help_text_names_every_exit_code_once) {
  for (const char* command : {"", "kernels", "verify", "replay", "show", "convert", "fuzz", "selftest"}) {
    const Ran ran = attest(std::string(command) + " --help");
    EXPECT_EQ(ran.exit, 0) << command;
    for (const char code : std::string("012345")) {
      const std::string line = std::string("\n  ") + code + "  ";
      const size_t first = ran.out.find(line);
      EXPECT_NE(first, std::string::npos) << command << " lacks exit code " << code;
      EXPECT_EQ(ran.out.find(line, first + 1), std::string::npos) << command << " has exit code " << code << " twice";
    }
  }
}

TEST_F(Command, the_documents_give_the_exit_codes_and_options_of_the_help_texts) {
  const std::string document = contents(fs::path(ATTEST_SOURCE_DIR) / "docs/cli.md");
  const std::string help = attest("--help").out;
  std::istringstream lines(help.substr(help.find("Exit codes:")));
  for (std::string line; std::getline(lines, line);)
    if (line.size() > 5 && line[0] == ' ') {
      EXPECT_NE(document.find("| " + line.substr(2, 1) + " | " + line.substr(5) + " |"), std::string::npos) << line;
    }
  for (const char* command : {"kernels", "verify", "replay", "show", "diagnose", "shrink", "convert", "fuzz", "selftest"}) {
    EXPECT_NE(document.find("attest " + std::string(command)), std::string::npos) << command;
    std::istringstream words(attest(std::string(command) + " --help").out);
    for (std::string word; words >> word;)
      if (word.rfind("--", 0) == 0 && word.size() > 2 && std::isalpha(static_cast<unsigned char>(word[2]))) {
        EXPECT_NE(document.find("`" + word), std::string::npos) << command << " " << word;
      }
  }
}

}  // namespace
}  // namespace attest
