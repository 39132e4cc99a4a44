// What Windows says of the machine and of the job around this process.
#include <windows.h>

#include <psapi.h>

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "runtime/os.h"

namespace sluice {
namespace {

// GetVersionEx answers programs without a manifest with an older version.
std::string system_version() {
  using GetVersion = LONG(WINAPI *)(OSVERSIONINFOW *);
  OSVERSIONINFOW version{};
  version.dwOSVersionInfoSize = sizeof version;
  const HMODULE module = GetModuleHandleW(L"ntdll.dll");
  const auto get = reinterpret_cast<GetVersion>(
      reinterpret_cast<void *>(GetProcAddress(module, "RtlGetVersion")));
  if (!get || get(&version) != 0) return "Windows";
  return fmt::format("Windows {}.{}.{}", version.dwMajorVersion, version.dwMinorVersion,
                     version.dwBuildNumber);
}

uint32_t usable_processors() {
  DWORD_PTR process = 0, system = 0;
  if (!GetProcessAffinityMask(GetCurrentProcess(), &process, &system) || process == 0)
    return std::max(1u, static_cast<uint32_t>(GetActiveProcessorCount(ALL_PROCESSOR_GROUPS)));
  return static_cast<uint32_t>(std::popcount(static_cast<uint64_t>(process)));
}

// Containers and sandboxes limit memory by a job.
void read_job(SystemFacts &facts) {
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION job{};
  if (!QueryInformationJobObject(nullptr, JobObjectExtendedLimitInformation, &job, sizeof job,
                                 nullptr))
    return;
  const DWORD flags = job.BasicLimitInformation.LimitFlags;
  if (flags & JOB_OBJECT_LIMIT_JOB_MEMORY) facts.container_limit_bytes = job.JobMemoryLimit;
  if (flags & JOB_OBJECT_LIMIT_PROCESS_MEMORY)
    facts.container_limit_bytes =
        std::min<uint64_t>(facts.container_limit_bytes, job.ProcessMemoryLimit);
  if (facts.container_limit_bytes == UINT64_MAX) return;
  PROCESS_MEMORY_COUNTERS own{};
  if (GetProcessMemoryInfo(GetCurrentProcess(), &own, sizeof own))
    facts.container_used_bytes = own.PagefileUsage;
}

}  // namespace

SystemFacts system_facts(const std::string &) {
  SystemFacts facts;
  facts.kernel = system_version();
  facts.processors = usable_processors();
  MEMORYSTATUSEX memory{};
  memory.dwLength = sizeof memory;
  if (GlobalMemoryStatusEx(&memory)) {
    facts.ram_bytes = memory.ullTotalPhys;
    facts.ram_available_bytes = memory.ullAvailPhys;
  }
  facts.huge_pages = "not on Windows";
  read_job(facts);
  return facts;
}

}  // namespace sluice
