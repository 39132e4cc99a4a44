// What Linux says of the machine and of the container around this process.
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <vector>

#include "runtime/os.h"

namespace sluice {
namespace {

// Whole text of a small file; "" when it can't be read.
std::string read_text(const std::string &path) {
  std::string text;
  const int descriptor = os_native().open_read(path.c_str());
  if (descriptor < 0) return text;
  char piece[4096];
  int64_t got = 0;
  while ((got = os_native().read_at(descriptor, piece, sizeof piece, text.size())) > 0)
    text.append(piece, static_cast<size_t>(got));
  os_native().close(descriptor);
  return text;
}

bool parse_number(std::string_view text, uint64_t *out) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  const auto result = std::from_chars(text.data(), text.data() + text.size(), *out);
  return result.ec == std::errc();
}

uint64_t meminfo_bytes(const std::string &meminfo, std::string_view key) {
  const size_t at = meminfo.find(key);
  uint64_t kib = 0;
  if (at == std::string::npos) return 0;
  parse_number(std::string_view(meminfo).substr(at + key.size()), &kib);
  return kib * 1024;
}

struct ControlGroup {
  std::string v1_memory;  // path below the v1 memory hierarchy
  std::string v2;         // path below the unified hierarchy
  bool has_v1 = false, has_v2 = false;
};

ControlGroup control_group(const std::string &root) {
  ControlGroup group;
  const std::string text = read_text(root + "/proc/self/cgroup");
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers == ",,") {
      group.v2 = line.substr(second + 1);
      group.has_v2 = true;
    } else if (controllers.find(",memory,") != std::string::npos) {
      group.v1_memory = line.substr(second + 1);
      group.has_v1 = true;
    }
  }
  return group;
}

// The group's own folder and all its parents: the tightest limit holds. Inside a container the
// path may name a place of the host, so the root of the hierarchy is always looked at.
std::vector<std::string> folders_up(const std::string &base, std::string path) {
  std::vector<std::string> folders;
  while (path.size() > 1) {
    folders.push_back(base + path);
    path.erase(path.rfind('/'));
  }
  folders.push_back(base);
  return folders;
}

void tighten(SystemFacts &facts, const std::string &folder, const char *limit_name,
             const char *usage_name, const char *cache_key) {
  uint64_t limit = 0, used = 0;
  if (!parse_number(read_text(folder + "/" + limit_name), &limit)) return;  // "max" or absent
  if (limit >= facts.container_limit_bytes || limit >= (uint64_t{1} << 62)) return;
  parse_number(read_text(folder + "/" + usage_name), &used);
  // Clean page cache is charged to the group but gives way.
  const std::string stat = read_text(folder + "/memory.stat");
  uint64_t cache = 0;
  const size_t at = stat.find(cache_key);
  if (at != std::string::npos)
    parse_number(std::string_view(stat).substr(at + std::string_view(cache_key).size()), &cache);
  facts.container_limit_bytes = limit;
  facts.container_used_bytes = used > cache ? used - cache : 0;
}

void read_container(SystemFacts &facts, const std::string &root) {
  const ControlGroup group = control_group(root);
  const std::string base = root + "/sys/fs/cgroup";
  if (group.has_v1)
    for (const std::string &folder : folders_up(base + "/memory", group.v1_memory))
      tighten(facts, folder, "memory.limit_in_bytes", "memory.usage_in_bytes",
              "total_inactive_file ");
  for (const std::string &folder : folders_up(base, group.v2))
    tighten(facts, folder, "memory.max", "memory.current", "inactive_file ");
  if (group.has_v2)
    for (const std::string &folder : folders_up(base + "/unified", group.v2))
      tighten(facts, folder, "memory.max", "memory.current", "inactive_file ");
}

bool may_lock_any(const std::string &root) {
  constexpr uint64_t kIpcLock = uint64_t{1} << 14;
  const std::string status = read_text(root + "/proc/self/status");
  const std::string_view key = "CapEff:\t";
  const size_t at = status.find(key);
  uint64_t bits = 0;
  if (at == std::string::npos) return false;
  std::from_chars(status.data() + at + key.size(), status.data() + status.size(), bits, 16);
  return (bits & kIpcLock) != 0;
}

uint64_t memlock_limit(const std::string &root) {
  struct rlimit limit {};
  if (may_lock_any(root) || ::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return UINT64_MAX;
  return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

uint32_t usable_processors() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<uint32_t>(std::max(1, CPU_COUNT(&set)));
}

std::string huge_page_mode(const std::string &root) {
  const std::string text = read_text(root + "/sys/kernel/mm/transparent_hugepage/enabled");
  const size_t open = text.find('['), close = text.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return "absent";
  return text.substr(open + 1, close - open - 1);
}

}  // namespace

SystemFacts system_facts(const std::string &root) {
  SystemFacts facts;
  struct utsname name {};
  if (::uname(&name) == 0) facts.kernel = std::string(name.sysname) + " " + name.release;
  facts.processors = usable_processors();
  const std::string meminfo = read_text(root + "/proc/meminfo");
  facts.ram_bytes = meminfo_bytes(meminfo, "MemTotal:");
  facts.ram_available_bytes = meminfo_bytes(meminfo, "MemAvailable:");
  facts.huge_pages = huge_page_mode(root);
  facts.memlock_limit_bytes = memlock_limit(root);
  read_container(facts, root);
  return facts;
}

}  // namespace sluice
