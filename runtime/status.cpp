#include "runtime/status.h"

#include <algorithm>
#include <cstring>

namespace sluice {
namespace {

const ErrorRecord &memory_record() noexcept {
  // Leaked: statuses may outlive static destruction.
  static const ErrorRecord *record = [] {
    alignas(ErrorRecord) static unsigned char storage[sizeof(ErrorRecord)];
    auto *made = new (storage) ErrorRecord;
    made->code = SLUICE_OUT_OF_HOST_MEMORY;  // the message stays empty: it would need memory
    return made;
  }();
  return *record;
}

struct ThreadRecord {
  sluice_status code = SLUICE_OK;
  sluice_error_domain domain = SLUICE_DOMAIN_NONE;
  int native_code = 0;
  char call[sizeof(sluice_error::call)] = "";
  char message[sizeof(sluice_error::message)] = "";
};

thread_local ThreadRecord thread_record;

template <size_t size>
void copy_text(char (&target)[size], std::string_view text) noexcept {
  const size_t length = std::min(text.size(), size - 1);
  std::memcpy(target, text.data(), length);
  target[length] = '\0';
}

}  // namespace

Status::~Status() {
  if (record_ && record_ != &memory_record()) delete record_;
}

Status Status::from(ErrorRecord record) noexcept {
  Status status;
  status.record_ = new (std::nothrow) ErrorRecord(std::move(record));
  if (!status.record_) status.record_ = &memory_record();
  return status;
}

Status Status::out_of_host_memory() noexcept {
  Status status;
  status.record_ = &memory_record();
  return status;
}

Status Status::with_context(std::string_view context) &&noexcept {
  if (ok() || record_ == &memory_record()) return std::move(*this);
  try {
    ErrorRecord record = *record_;
    record.message = fmt::format("{}: {}", context, record.message);
    return from(std::move(record));
  } catch (...) {
    return std::move(*this);
  }
}

Status Status::copy() const noexcept {
  if (ok()) return {};
  if (record_ == &memory_record()) return out_of_host_memory();
  try {
    return from(*record_);
  } catch (...) {
    return out_of_host_memory();
  }
}

sluice_status publish(Status status) noexcept {
  if (status.ok()) return SLUICE_OK;
  const ErrorRecord &record = status.record();
  thread_record.code = record.code;
  thread_record.domain = record.domain;
  thread_record.native_code = record.native_code;
  copy_text(thread_record.call, record.call);
  copy_text(thread_record.message, record.message.empty()
                                       ? std::string_view(sluice_status_text(record.code))
                                       : std::string_view(record.message));
  return record.code;
}

}  // namespace sluice

extern "C" {

const char *sluice_status_name(sluice_status status) {
  switch (status) {
#define SLUICE_CASE(name, number, sentence) \
  case SLUICE_##name:                       \
    return #name;
    SLUICE_STATUS_LIST(SLUICE_CASE)
#undef SLUICE_CASE
  }
  return "UNKNOWN";
}

const char *sluice_status_text(sluice_status status) {
  switch (status) {
#define SLUICE_CASE(name, number, sentence) \
  case SLUICE_##name:                       \
    return sentence;
    SLUICE_STATUS_LIST(SLUICE_CASE)
#undef SLUICE_CASE
  }
  return "not a status of this version of sluice";
}

sluice_status sluice_error_get(sluice_error *out_error) {
  using namespace sluice;
  if (!out_error || out_error->struct_size < sizeof(sluice_error)) return SLUICE_INVALID_ARGUMENT;
  out_error->status = thread_record.code;
  out_error->domain = thread_record.domain;
  out_error->code = thread_record.native_code;
  std::memcpy(out_error->call, thread_record.call, sizeof out_error->call);
  std::memcpy(out_error->message, thread_record.message, sizeof out_error->message);
  return SLUICE_OK;
}

}  // extern "C"
