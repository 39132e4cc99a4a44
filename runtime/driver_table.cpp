#include "runtime/driver_table.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/os.h"

namespace sluice {
namespace {

std::atomic<bool> exiting{false};
std::atomic<bool> forked{false};

void watch_process() {
  static const bool watching = [] {
    std::atexit([] { exiting.store(true, std::memory_order_relaxed); });
    watch_forks([] { forked.store(true, std::memory_order_relaxed); });
    return true;
  }();
  static_cast<void>(watching);
}

// cuGetProcAddress in its two forms: 12.0 added the last argument.
class ProcAddress {
 public:
  explicit ProcAddress(void *library)
      : with_status_(reinterpret_cast<PFN_cuGetProcAddress_v12000>(
            library_symbol(library, "cuGetProcAddress_v2"))),
        plain_(reinterpret_cast<PFN_cuGetProcAddress_v11030>(
            library_symbol(library, "cuGetProcAddress"))) {}

  bool usable() const { return with_status_ || plain_; }

  void *find(const char *name, int version) const {
    void *address = nullptr;
    const auto flags = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    if (with_status_) {
      CUdriverProcAddressQueryResult status{};
      result = with_status_(name, &address, version, flags, &status);
    }
    // A library newer than the driver behind it may export the new form and answer nothing.
    if ((result != CUDA_SUCCESS || !address) && plain_)
      result = plain_(name, &address, version, flags);
    return result == CUDA_SUCCESS ? address : nullptr;
  }

 private:
  PFN_cuGetProcAddress_v12000 with_status_;
  PFN_cuGetProcAddress_v11030 plain_;
};

// The emulated driver stands beside the library, or in lib/sluice of the same installation.
Result<std::string> emulated_path() {
  const std::string folder = own_folder();
  // Never the current folder: a library that lies there by chance would be opened.
  if (folder.empty())
    return error(SLUICE_NO_DRIVER,
                 "the emulated driver was not found: where this library lies "
                 "can't be told; give its path: --driver PATH");
  std::string tried;
  for (const char *place : {"", "sluice/", "../lib/sluice/", "../lib/x86_64-linux-gnu/sluice/"}) {
    std::string path = folder + "/" + place + kEmulatedDriverLibrary;
    const int descriptor = os_native().open_read(path.c_str());
    if (descriptor >= 0) {
      os_native().close(descriptor);
      return path;
    }
    tried += (tried.empty() ? "" : ", ") + path;
  }
  return error(SLUICE_NO_DRIVER,
               "the emulated driver was not found; tried {}; give its path: --driver PATH", tried);
}

constexpr int kOldestDriver = 11080;

constexpr const char *kNoDriverAdvice =
    "install NVIDIA's driver, or choose the emulated one: --driver emulated (no GPU needed)";

struct OpenDrivers {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Driver>> by_path;
};

OpenDrivers &open_drivers() {
  static auto *drivers = new OpenDrivers;  // leaked: drivers outlive static destruction
  return *drivers;
}

}  // namespace

bool process_is_exiting() noexcept { return exiting.load(std::memory_order_relaxed); }
bool process_was_forked() noexcept { return forked.load(std::memory_order_relaxed); }

// Before all else, so that what an old driver lacks isn't listed one by one.
Status Driver::check_version(void *get_version) {
  const auto ask = reinterpret_cast<PFN_cuDriverGetVersion_v2020>(get_version);
  if (!ask) return {};
  if (const CUresult result = ask(&version_); result != CUDA_SUCCESS)
    return failure("cuDriverGetVersion", result, path_);
  if (version_ >= kOldestDriver) return {};
  return error(SLUICE_DRIVER_TOO_OLD, "{} is a driver for CUDA {}.{}; 11.8 or newer is needed",
               path_, version_ / 1000, version_ % 1000 / 10);
}

Status Driver::load_rows(void *library) {
  SLUICE_TRY(check_version(library_symbol(library, "cuDriverGetVersion")));
  const ProcAddress proc(library);
  if (!proc.usable())
    return error(SLUICE_DRIVER_TOO_OLD, "{} has no cuGetProcAddress; 11.8 or newer is needed",
                 path_);
  std::string missing;
#define SLUICE_REQUIRED(name, version)                                                \
  table_.name = reinterpret_cast<PFN_##name##_v##version>(proc.find(#name, version)); \
  if (!table_.name) missing += std::string(missing.empty() ? "" : ", ") + #name;
#define SLUICE_OPTIONAL(name, version) \
  table_.name = reinterpret_cast<PFN_##name##_v##version>(proc.find(#name, version));
  SLUICE_DRIVER_ROWS(SLUICE_REQUIRED, SLUICE_OPTIONAL)
#undef SLUICE_REQUIRED
#undef SLUICE_OPTIONAL
  if (!missing.empty())
    return error(SLUICE_DRIVER_TOO_OLD, "{} lacks {}; 11.8 or newer is needed", path_, missing);
  return {};
}

Status Driver::initialise(bool is_auto) {
  if (const CUresult result = table_.cuInit(0); result != CUDA_SUCCESS) {
    Status status = failure("cuInit", result, path_);
    if (!is_auto) return status;
    ErrorRecord record = status.record();
    record.message += std::string("; ") + kNoDriverAdvice;
    return Status::from(std::move(record));
  }
  return {};
}

Result<std::unique_ptr<Driver>> Driver::load(const std::string &library_name, bool is_auto) {
  std::string message;
  void *library = library_open(library_name.c_str(), &message);
  if (!library) {
    if (is_auto) return error(SLUICE_NO_DRIVER, "no CUDA driver: {}; {}", message, kNoDriverAdvice);
    return error(SLUICE_NO_DRIVER,
                 "the driver '{}' can't be opened: {}; 'auto', 'emulated' or the path of a driver "
                 "library are possible",
                 library_name, message);
  }
  std::unique_ptr<Driver> driver(new Driver);
  driver->path_ = library_path(library, "cuInit");
  if (driver->path_.empty()) driver->path_ = library_name;
  driver->emulated_ = library_symbol(library, "sluice_emulated_set") != nullptr;
  watch_process();
  SLUICE_TRY(driver->load_rows(library));
  SLUICE_TRY(driver->initialise(is_auto));
  return driver;
}

Result<const Driver *> Driver::open(const std::string &choice) {
  const bool is_auto = choice.empty() || choice == "auto";
  std::string library_name = choice;
  if (is_auto) {
    library_name = kDriverLibrary;
  } else if (choice == "emulated") {
    SLUICE_ASSIGN(library_name, emulated_path());
  }
  OpenDrivers &drivers = open_drivers();
  const std::lock_guard lock(drivers.mutex);
  if (const auto found = drivers.by_path.find(library_name); found != drivers.by_path.end())
    return static_cast<const Driver *>(found->second.get());
  SLUICE_ASSIGN(auto driver, load(library_name, is_auto));
  const Driver *result = driver.get();
  drivers.by_path.emplace(library_name, std::move(driver));
  return result;
}

}  // namespace sluice
