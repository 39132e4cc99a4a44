// What the fuzzers share: random numbers, the command line, the replay of a corpus, the loop.
//
//   fuzz_X [--seed N] [--seconds S | --runs N] [--first N] [--canary] CORPUS_DIRECTORY
//
// The corpus is replayed first. Then each run makes one file and changes it a few times. A run
// depends on the seed and its own number only, so that a disagreement is repeated with --seed,
// --first and --runs 1. --canary hides a bug in the parser's answer, which has to be found.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace fuzz {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x1234567u) {
    if (state_ == 0) state_ = 1;
    for (int i = 0; i < 8; ++i) next();
  }
  uint64_t next() {  // xorshift64*
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1Du;
  }
  size_t below(size_t bound) { return static_cast<size_t>(next() >> 16) % bound; }
  bool one_in(size_t n) { return below(n) == 0; }
  template <typename List>
  const auto &pick(const List &list) {
    return list[below(std::size(list))];
  }

 private:
  uint64_t state_;
};

inline std::string how_to_repeat;

[[noreturn]] inline void fail(const std::string &file, const std::string &what) {
  std::string hex;
  for (const char c : file.substr(0, 4096)) hex += fmt::format("{:02x}", static_cast<uint8_t>(c));
  fmt::print("DISAGREEMENT: {}\nfile: {}\nrepeat: {}\n", what, hex, how_to_repeat);
  std::fflush(stdout);
#ifdef SLUICE_LIBFUZZER
  std::abort();
#else
  std::exit(1);
#endif
}

// Holds a parser's answer (a verdict, and a message when it refuses) against a plain validator's
// verdict; a verdict is the contents of a good file. Whether both accept.
template <typename Answer, typename Verdict>
bool same_answer(const std::string &file, const Answer &answer, const Verdict &plain) {
  if (answer.verdict.has_value() != plain.has_value()) {
    fail(file, fmt::format("the parser {} what the plain validator {}: {}",
                           answer.verdict ? "accepts" : "refuses", plain ? "accepts" : "refuses",
                           answer.message));
  }
  if (answer.verdict != plain) fail(file, "different contents");
  if (!answer.verdict) {
    // A message is printed, also as JSON: it must be text, and of bounded length.
    if (answer.message.empty() || answer.message.size() > 2000) fail(file, "message length");
    nlohmann::json(answer.message).dump();
  }
  return plain.has_value();
}

struct Settings {
  uint64_t seed =
      static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  double seconds = 10;
  uint64_t first = 0;
  uint64_t runs = UINT64_MAX;
  bool canary = false;
  std::string corpus;
};

inline bool take_arguments(int count, char **arguments, Settings &settings) {
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    const bool has_value = i + 1 < count;
    if (name == "--canary") {
      settings.canary = true;
    } else if (name == "--seed" && has_value) {
      settings.seed = std::strtoull(arguments[++i], nullptr, 10);
    } else if (name == "--first" && has_value) {
      settings.first = std::strtoull(arguments[++i], nullptr, 10);
    } else if (name == "--seconds" && has_value) {
      settings.seconds = std::strtod(arguments[++i], nullptr);
    } else if (name == "--runs" && has_value) {
      settings.runs = std::strtoull(arguments[++i], nullptr, 10);
      settings.seconds = 1e9;
    } else if (!name.starts_with("--") && settings.corpus.empty()) {
      settings.corpus = name;
    } else {
      return false;
    }
  }
  return !settings.corpus.empty();
}

inline std::vector<std::string> read_corpus(const std::string &directory) {
  std::vector<std::filesystem::path> paths;
  for (const auto &entry : std::filesystem::directory_iterator(directory)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> out;
  for (const auto &path : paths) {
    std::ifstream stream(path, std::ios::binary);
    out.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return out;
}

// Makes a file, from nothing or from the corpus.
using MakeFile = std::string (*)(const std::vector<std::string> &corpus, Random &random);
// Ends the program where the parser and the plain validator disagree; else whether both accept.
using Compare = bool (*)(const std::string &file, bool canary);

inline int run(int count, char **arguments, MakeFile make_file, Compare compare) {
  Settings settings;
  if (!take_arguments(count, arguments, settings)) {
    fmt::print(stderr,
               "usage: {} [--seed N] [--seconds S | --runs N] [--first N] [--canary] "
               "CORPUS_DIRECTORY\n",
               arguments[0]);
    return 2;
  }
  const std::vector<std::string> corpus = read_corpus(settings.corpus);
  if (corpus.size() < 10) {
    fmt::print("the corpus in {} has only {} files\n", settings.corpus, corpus.size());
    return 1;
  }
  size_t replayed_good = 0;
  how_to_repeat = "replay the corpus";
  // The canary has to be found by what is made here, not by the corpus.
  for (const std::string &file : corpus) replayed_good += compare(file, false);
  fmt::print("corpus: {} files, {} good\nseed: {}\n", corpus.size(), replayed_good, settings.seed);
  std::fflush(stdout);

  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  uint64_t done = 0, good = 0;
  for (; done < settings.runs && (done % 256 != 0 || seconds() < settings.seconds); ++done) {
    const uint64_t number = settings.first + done;
    how_to_repeat = fmt::format("--seed {} --first {} --runs 1", settings.seed, number);
    Random random(settings.seed * 1'000'003 + number);
    good += compare(make_file(corpus, random), settings.canary);
  }
  fmt::print("{} runs, {} good files, {:.1f} s\n", done, good, seconds());
  if (done >= 1000 && (good < done / 20 || good > done - done / 20)) {
    fmt::print("too one-sided to mean much\n");
    return 1;
  }
  return 0;
}

}  // namespace fuzz
