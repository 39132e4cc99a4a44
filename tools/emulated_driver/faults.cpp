// The k-th call of any kind failing with any code. Threads: any; one mutex, taken only while armed.
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "gate.h"

namespace emulated {

std::atomic<bool> faults_armed{false};

namespace {

struct Fault {
  std::string name;  // "*": any
  uint64_t first = 1;
  uint64_t times = 1;
  CUresult code = CUDA_SUCCESS;
  uint64_t seen = 0;
};

std::mutex mutex;
std::vector<Fault> &faults = *new std::vector<Fault>;  // outlives exit handlers
std::atomic<uint64_t> fired{0};

bool parse_number(const std::string &text, uint64_t &out) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos) return false;
  out = std::strtoull(text.c_str(), nullptr, 10);
  return true;
}

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = text.find(separator, begin);
    if (end == std::string::npos) end = text.size();
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool parse_fault(const std::string &text, Fault &out) {
  const std::vector<std::string> parts = split(text, ':');
  uint64_t code = 0;
  if (parts.size() < 3 || parts.size() > 4 || parts[0].empty()) return false;
  if (!parse_number(parts[1], out.first) || out.first == 0) return false;
  if (!parse_number(parts[2], code) || code > CUDA_ERROR_UNKNOWN) return false;
  if (parts.size() == 4 && parts[3] == "forever")
    out.times = UINT64_MAX;
  else if (parts.size() == 4 && !parse_number(parts[3], out.times))
    return false;
  if (parts[0] != "*" && !is_entry_point(parts[0])) return false;
  out.name = parts[0];
  out.code = static_cast<CUresult>(code);
  return true;
}

}  // namespace

bool set_faults(const char *list) {
  std::vector<Fault> parsed;
  if (*list)
    for (const std::string &one : split(list, ',')) {
      Fault fault;
      if (!parse_fault(one, fault)) return false;
      parsed.push_back(fault);
    }
  std::lock_guard lock(mutex);
  faults = std::move(parsed);
  faults_armed = !faults.empty();
  return true;
}

bool arm_fault(const char *text) {
  Fault fault;
  if (!text || !parse_fault(text, fault)) return false;
  std::lock_guard lock(mutex);
  faults.push_back(fault);
  faults_armed = true;
  return true;
}

void disarm_faults() { set_faults(""); }
uint64_t faults_fired() { return fired; }
void clear_faults_fired() { fired = 0; }

Verdict injected_fault(const char *name) {
  std::lock_guard lock(mutex);
  Verdict answer;
  for (Fault &fault : faults) {
    if (fault.name != "*" && fault.name != name) continue;
    ++fault.seen;
    if (!answer && fault.seen >= fault.first && fault.seen - fault.first < fault.times)
      answer = fault.code;
  }
  if (answer) ++fired;
  return answer;
}

}  // namespace emulated
