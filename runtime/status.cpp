#include "runtime/status.h"

#include "runtime/struct_size.h"

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

thread_local sluice_error thread_record{};

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
  thread_record.status = record.code;
  thread_record.domain = record.domain;
  thread_record.code = record.native_code;
  copy_text(thread_record.call, record.call);
  copy_text(thread_record.message, record.message.empty()
                                       ? std::string_view(sluice_status_text(record.code))
                                       : std::string_view(record.message));
  return record.code;
}

}  // namespace sluice

extern "C" {

const char *sluice_status_name(int32_t status) {
  switch (status) {
#define SLUICE_CASE(name, number, sentence) \
  case SLUICE_##name:                       \
    return #name;
    SLUICE_STATUS_LIST(SLUICE_CASE)
#undef SLUICE_CASE
  }
  return "UNKNOWN";
}

const char *sluice_status_text(int32_t status) {
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
  if (!check_struct(out_error, "out_error").ok()) return SLUICE_INVALID_ARGUMENT;
  write_struct(thread_record, out_error);
  return SLUICE_OK;
}

}  // extern "C"
