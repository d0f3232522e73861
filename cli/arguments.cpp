#include "cli/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <regex>

namespace attest::cli {

namespace {

template <class T>
bool whole(const std::string& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

int64_t count(const std::string& option, const std::string& text, int64_t least) {
  int64_t n = 0;
  if (!whole(text, n) || n < least) throw Stop(Exit::usage, fmt::format("{}: '{}' is not a whole number of {} or more", option, text, least));
  return n;
}

uint64_t seed(const std::string& option, const std::string& text) {
  uint64_t n = 0;
  if (!whole(text, n)) throw Stop(Exit::usage, fmt::format("{}: '{}' is not a whole number from 0 to 2^64 - 1", option, text));
  return n;
}

double duration(const std::string& option, const std::string& text) {
  const Stop bad(Exit::usage, fmt::format("{}: '{}' is not a time such as 30s, 10m or 2h", option, text));
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) throw bad;
  const std::string unit(end, text.data() + text.size());
  if (unit == "m")
    value *= 60;
  else if (unit == "h")
    value *= 3600;
  else if (unit != "s" && !unit.empty())
    throw bad;
  if (!std::isfinite(value) || value <= 0) throw bad;
  return value;
}

Shard shard(const std::string& option, const std::string& text) {
  Shard s;
  const auto slash = text.find('/');
  int64_t part = 0;
  if (slash == std::string::npos || !whole(text.substr(0, slash), part) || !whole(text.substr(slash + 1), s.of) || part < 1 || part > s.of)
    throw Stop(Exit::usage, fmt::format("{}: '{}' is not a part I/N with I from 1 to N", option, text));
  s.index = part - 1;
  return s;
}

Contract contract(const std::string& option, const std::string& text) {
  for (Contract c : {Contract::strict, Contract::declared})
    if (text == name_of(c)) return c;
  throw Stop(Exit::usage, fmt::format("{}: '{}' is neither strict nor declared", option, text));
}

std::vector<const Property*> select_properties(const std::string& option, const std::string& expression) {
  // The library recurses over the expression; its stack holds this much of any.
  constexpr size_t kLongest = 1000;
  if (expression.size() > kLongest) throw Stop(Exit::usage, fmt::format("{}: an expression of {} characters, at most {} are taken", option, expression.size(), kLongest));
  std::regex wanted;
  try {
    wanted = std::regex(expression, std::regex::ECMAScript);
  } catch (const std::regex_error& e) {
    throw Stop(Exit::usage, fmt::format("{}: '{}' is not a regular expression: {}", option, expression, e.what()));
  }
  std::vector<const Property*> selected;
  for (const Property& p : all_properties())
    if (expression.empty() || std::regex_search(p.name.begin(), p.name.end(), wanted)) selected.push_back(&p);
  if (selected.empty()) throw Stop(Exit::inconclusive, fmt::format("{}: no property matches '{}'; attest verify --list names them", option, expression));
  return selected;
}

uint64_t bytes(const std::string& option, const std::string& text) {
  const Stop bad(Exit::usage, fmt::format("{}: '{}' is not a size such as 512M or 8G", option, text));
  if (text.empty() || (text.back() != 'M' && text.back() != 'G')) throw bad;
  int64_t n = 0;
  constexpr int64_t kMost = 1 << 20;
  if (!whole(text.substr(0, text.size() - 1), n) || n < 1 || n > kMost) throw bad;
  return static_cast<uint64_t>(n) << (text.back() == 'M' ? 20 : 30);
}

Kernel load_kernel(const KernelChoice& choice) {
  if (choice.isolate && choice.no_isolate) throw Stop(Exit::usage, "--isolate and --no-isolate exclude each other");
  Isolation apart;
  apart.program = "/proc/self/exe";  // this program, even where its file has been replaced
  apart.seconds = duration("--call-limit", choice.call_limit);
  apart.load_seconds = std::min(apart.load_seconds, 30 * apart.seconds);
  apart.memory = bytes("--memory-limit", choice.memory_limit);
  apart.python = choice.python;
  if (choice.no_isolate && is_python(choice.name)) throw Stop(Exit::usage, "--no-isolate: a Python function runs in a process of its own");
  const auto load = [&](const std::string& name) {
    const bool isolated = choice.isolate || (!choice.no_isolate && !is_built_in(name));
    return Kernel::load(name, isolated ? std::optional<Isolation>(apart) : std::nullopt);
  };
  if (choice.name.empty()) {
    const std::vector<std::string> names = Kernel::built_in();
    for (auto n = names.rbegin(); n != names.rend(); ++n) {
      auto loaded = load(*n);
      if (auto* kernel = std::get_if<Kernel>(&loaded)) return *kernel;
    }
    throw Stop(Exit::inconclusive, "no built-in kernel can run on this machine");
  }
  auto loaded = load(choice.name);
  if (auto* kernel = std::get_if<Kernel>(&loaded)) {
    // One of several, and nobody chose it.
    constexpr size_t kShown = 200;
    const std::string further = kernel->further();
    if (!further.empty())
      fmt::print(stderr, "attest: '{}' holds several kernels, this is {}; {}:NAME is another: {}\n", choice.name, kernel->name(), choice.name,
                 further.size() <= kShown ? further : further.substr(0, further.rfind(',', kShown)) + ", ...");
    return *kernel;
  }
  const LoadError& error = std::get<LoadError>(loaded);
  throw Stop(error.kind == LoadError::Kind::no_device ? Exit::inconclusive : error.kind == LoadError::Kind::crashed ? Exit::crash : Exit::usage, error.message);
}

std::string kernel_words(const KernelChoice& choice, const Kernel& kernel) {
  const KernelChoice plain;
  std::string words = "--kernel " + shell_word(choice.name.empty() ? kernel.name() : choice.name);
  if (choice.isolate) words += " --isolate";
  if (choice.no_isolate) words += " --no-isolate";
  if (choice.call_limit != plain.call_limit) words += " --call-limit " + shell_word(choice.call_limit);
  if (choice.memory_limit != plain.memory_limit) words += " --memory-limit " + shell_word(choice.memory_limit);
  if (choice.python != plain.python) words += " --python " + shell_word(choice.python);
  return words;
}

std::string again(const std::string& command, const std::string& file, const KernelChoice& choice, const Kernel& kernel) {
  return fmt::format("kernel {}; again: attest {} {} {}", kernel.name(), command, shell_word(file), kernel_words(choice, kernel));
}

std::string shell_word(const std::string& word) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || std::string_view("_-./:=,+@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string quoted = "'";
  for (char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace attest::cli
