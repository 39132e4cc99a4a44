// The outcome of an operation, inside the library: a status with its record.
//
// A Status is one pointer wide; success carries nothing. The record is allocated when an operation
// fails; where even that fails, a static record that says OUT_OF_HOST_MEMORY stands in.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "runtime/sluice.h"

namespace sluice {

struct ErrorRecord {
  sluice_status code = SLUICE_INTERNAL;
  sluice_error_domain domain = SLUICE_DOMAIN_NONE;
  int native_code = 0;
  const char *call = "";  // static text: the driver or system call
  std::string message;
};

class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(Status &&other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
  Status &operator=(Status &&other) noexcept {
    std::swap(record_, other.record_);
    return *this;
  }
  Status(const Status &) = delete;
  Status &operator=(const Status &) = delete;
  ~Status();

  static Status from(ErrorRecord record) noexcept;
  static Status out_of_host_memory() noexcept;

  bool ok() const noexcept { return record_ == nullptr; }
  explicit operator bool() const noexcept { return ok(); }
  sluice_status code() const noexcept { return ok() ? SLUICE_OK : record_->code; }
  const ErrorRecord &record() const noexcept { return *record_; }  // only when !ok()

  // Puts "context: " before the message, for callers that know what the operation was about.
  Status with_context(std::string_view context) &&noexcept;
  Status copy() const noexcept;

 private:
  const ErrorRecord *record_ = nullptr;
};

// error(SLUICE_NOT_FOUND, "no tensor '{}'", name)
template <typename... Args>
[[nodiscard]] Status error(sluice_status code, fmt::format_string<Args...> format,
                           Args &&...args) noexcept {
  try {
    return Status::from(
        {code, SLUICE_DOMAIN_NONE, 0, "", fmt::format(format, std::forward<Args>(args)...)});
  } catch (...) {
    return Status::out_of_host_memory();
  }
}

// An operating-system call failed with `error_number`; the status follows from it
// (runtime/errno_status.cpp).
[[nodiscard]] Status system_error(const char *call, int error_number,
                                  std::string_view what) noexcept;

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) noexcept : value_(std::move(value)) {}
  Result(Status status) noexcept : status_(std::move(status)) {}

  bool ok() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  Status take_status() noexcept { return std::move(status_); }
  const Status &status() const noexcept { return status_; }
  T &value() noexcept { return *value_; }
  const T &value() const noexcept { return *value_; }
  T take() noexcept { return std::move(*value_); }

 private:
  std::optional<T> value_;
  Status status_;
};

// Publishes a failure in the calling thread's record and returns its code; for c_api.cpp.
sluice_status publish(Status status) noexcept;

}  // namespace sluice

// Returns early from a function that returns Status or Result.
#define SLUICE_TRY(expression)                                                \
  do {                                                                        \
    if (::sluice::Status sluice_status_ = (expression); !sluice_status_.ok()) \
      return sluice_status_;                                                  \
  } while (false)

#define SLUICE_CONCAT_INNER(a, b) a##b
#define SLUICE_CONCAT(a, b) SLUICE_CONCAT_INNER(a, b)
// SLUICE_ASSIGN(auto file, File::open(path));
#define SLUICE_ASSIGN_NAMED(result, declaration, expression) \
  auto result = (expression);                                \
  if (!result.ok()) return result.take_status();             \
  declaration = result.take()
#define SLUICE_ASSIGN(declaration, expression) \
  SLUICE_ASSIGN_NAMED(SLUICE_CONCAT(sluice_result_, __LINE__), declaration, expression)
