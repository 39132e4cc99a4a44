// How `sluice bench` shows what it measured: a table, or one JSON object.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/program/bench_io.h"
#include "tools/program/output.h"

namespace program {

struct BenchResult {
  std::vector<BenchRow> rows;           // of one work side by side
  double warm_resident = 0;             // part of the file in the page cache; negative: unknown
  std::optional<double> cold_resident;  // absent: nothing cold was measured
  bool verified = false;
};

[[nodiscard]] Json bench_json(const Request &request, const BenchSetup &setup,
                              const BenchResult &result);
[[nodiscard]] std::string bench_text(const Request &request, const BenchSetup &setup,
                                     const BenchResult &result);

}  // namespace program
