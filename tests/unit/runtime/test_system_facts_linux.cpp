// Fixtures of what machines and containers say of themselves.
#include <doctest/doctest.h>

#include <filesystem>

#include "runtime/limits.h"
#include "runtime/os.h"
#include "runtime/runtime.h"
#include "tests/support/files.h"

using namespace sluice;

namespace {

class Root {
 public:
  void put(const std::string &path, const std::string &text) {
    std::filesystem::create_directories(std::filesystem::path(folder_.file(path)).parent_path());
    support::write_file(folder_.file(path), text.data(), text.size());
  }
  std::string path() const { return folder_.file(""); }

 private:
  support::TemporaryFolder folder_;
};

void put_machine(Root &root) {
  root.put("proc/meminfo",
           "MemTotal:       33554432 kB\nMemFree: 1 kB\nMemAvailable:   16777216 kB\n");
  root.put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
}

}  // namespace

TEST_CASE("a plain machine") {
  Root root;
  put_machine(root);
  root.put("proc/self/cgroup", "0::/user.slice\n");
  const SystemFacts facts = system_facts(root.path());
  CHECK(facts.ram_bytes == 32 * kGiB);
  CHECK(facts.ram_available_bytes == 16 * kGiB);
  CHECK(facts.container_limit_bytes == UINT64_MAX);
  CHECK(facts.huge_pages == "madvise");
  CHECK(default_pinned_limit(facts).bytes == 14 * kGiB);
}

TEST_CASE("a v2 container: the tightest of the group and its parents; clean cache gives way") {
  Root root;
  put_machine(root);
  root.put("proc/self/cgroup", "0::/pod/app\n");
  root.put("sys/fs/cgroup/pod/app/memory.max", "max\n");
  root.put("sys/fs/cgroup/pod/memory.max", "4294967296\n");
  root.put("sys/fs/cgroup/pod/memory.current", "3221225472\n");
  root.put("sys/fs/cgroup/pod/memory.stat", "anon 1\ninactive_file 1073741824\n");
  const SystemFacts facts = system_facts(root.path());
  CHECK(facts.container_limit_bytes == 4 * kGiB);
  CHECK(facts.container_used_bytes == 2 * kGiB);
  // 2 GiB are left, a quarter of the limit is the floor.
  CHECK(default_pinned_limit(facts).bytes == kGiB);
  CHECK(default_pinned_limit(facts).reason.find("container") != std::string::npos);
}

TEST_CASE("a v2 container whose own path is not visible inside") {
  Root root;
  put_machine(root);
  root.put("proc/self/cgroup", "0::/../../machine\n");
  root.put("sys/fs/cgroup/memory.max", "1073741824\n");
  root.put("sys/fs/cgroup/memory.current", "1048576\n");
  const SystemFacts facts = system_facts(root.path());
  CHECK(facts.container_limit_bytes == kGiB);
}

TEST_CASE("v1 memory beside a v2 tree without it") {
  Root root;
  put_machine(root);
  root.put("proc/self/cgroup", "5:cpu,memory:/docker/abc\n0::/docker/abc\n");
  root.put("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "2147483648\n");
  root.put("sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "1073741824\n");
  const SystemFacts facts = system_facts(root.path());
  CHECK(facts.container_limit_bytes == 2 * kGiB);
  CHECK(facts.container_used_bytes == kGiB);
}

TEST_CASE("v1 says no limit with a huge number") {
  Root root;
  put_machine(root);
  root.put("proc/self/cgroup", "5:memory:/\n");
  root.put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(system_facts(root.path()).container_limit_bytes == UINT64_MAX);
}

TEST_CASE("a machine with less than the floor gets no pins, and says why") {
  SystemFacts facts;
  facts.ram_available_bytes = kGiB;
  CHECK(default_pinned_limit(facts).bytes == 0);
  CHECK(default_pinned_limit(facts).reason.find("2 GiB") != std::string::npos);
}
