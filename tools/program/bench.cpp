// sluice bench io: how fast sluice moves a file's bytes, beside what a plain program reaches with
// the same file, memory and device, in one run.
#include <string>
#include <vector>

#include "tools/program/bench_io.h"
#include "tools/program/bench_report.h"
#include "tools/program/commands.h"
#include "tools/program/failure.h"
#include "tools/program/files.h"
#include "tools/program/output.h"
#include "tools/program/progress.h"

namespace program {
namespace {

constexpr double kWarm = 0.99;
constexpr double kCold = 0.01;

class Bench {
 public:
  Bench(const Request &request, BenchSetup *setup) : request_(request), setup_(setup) {}

  BenchResult run() {
    setup_->file->warm();
    result_.warm_resident = setup_->file->resident();
    run_work(file_to_host(*setup_, nullptr));
    if (setup_->driver) run_work(host_to_device(*setup_));
    run_work(file_to_device(*setup_, nullptr));
    if (request_.bench.cold) run_cold();
    if (setup_->driver) run_work(pinning(*setup_));
    result_.verified = request_.verify;
    note_page_cache();
    return std::move(result_);
  }

 private:
  void run_work(const BenchWork &work) {
    const std::vector<BenchRow> rows =
        measure(work, request_.bench.rounds, request_.verify, &setup_->notes);
    result_.rows.insert(result_.rows.end(), rows.begin(), rows.end());
  }

  void run_cold() {
    ColdState cold;
    run_work(file_to_host(*setup_, &cold));
    run_work(file_to_device(*setup_, &cold));
    result_.cold_resident = cold.most_resident;
    if (kCanDropFromCache) return;
    setup_->notes.emplace_back(
        "on this system no program can drop a file from the page cache: cold rows are of direct "
        "reads only, which go around it, and sluice's are cold unless --direct-io is off");
  }

  void note_page_cache() {
    if (result_.warm_resident >= 0 && result_.warm_resident < kWarm) {
      setup_->notes.emplace_back(
          "the page cache doesn't hold all of what is read: warm rows read the disk too; --size "
          "SIZE takes less");
    }
    if (result_.cold_resident.value_or(0) > kCold) {
      setup_->notes.emplace_back(
          "a part stayed in the page cache (another program maps it, or the file lives in RAM): "
          "cold rows are faster than the disk");
    }
  }

  const Request &request_;
  BenchSetup *setup_;
  BenchResult result_;
};

}  // namespace

int run_bench(const Request &request) {
  BenchSetup setup = set_up_bench(request);
  const BenchResult result = Bench(request, &setup).run();
  if (request.json) {
    write_json(bench_json(request, setup, result));
  } else {
    write_stdout(bench_text(request, setup, result));
  }
  return kExitDone;
}

}  // namespace program
