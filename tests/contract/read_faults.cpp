// What a file, a disk and a kernel can do to the reads of a load, at each of them and with every
// way of reading. After each fault: the bytes of the file, or an error that names file, range and
// place; nothing leaks; and the next load through the same objects works.
//
// A file that is overwritten in place while it is read gives any mixture of its old and its new
// bytes, and no error: nothing tells a reader of it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <set>

#include "runtime/limits.h"
#include "runtime/os.h"
#include "tests/contract/stalled_reads.h"
#include "tests/contract/ways.h"

namespace {

using namespace support;
namespace fs = std::filesystem;

// What is done to some of the reads, which are counted from 1 since `arm`.
struct Fault {
  int result = 0;                  // a negated errno, or a count to which the read is cut
  int at = 1;                      // the first read that is hit
  int every = 0;                   // and each that comes so many after another; 0: no other
  int most = 1000000;              // so many at most
  std::function<void()> act = {};  // instead of the result: before a read at a position, after
                                   // one that a queue performs
};

class Faults {
 public:
  void arm(Fault fault) {
    const std::lock_guard lock(mutex_);
    fault_ = std::move(fault);
    seen_ = hits_ = 0;
  }
  // The number of reads that were hit.
  int disarm() {
    const std::lock_guard lock(mutex_);
    fault_.reset();
    return hits_;
  }
  int seen() {
    const std::lock_guard lock(mutex_);
    return seen_;
  }
  // The result that this read is given, if it is hit.
  std::optional<int> strike() {
    std::function<void()> act;
    {
      const std::lock_guard lock(mutex_);
      if (!fault_) return {};
      const int past = ++seen_ - fault_->at;
      const bool hit = past == 0 || (past > 0 && fault_->every != 0 && past % fault_->every == 0);
      if (!hit || hits_ == fault_->most) return {};
      ++hits_;
      act = fault_->act;
      if (!act) return fault_->result;
    }
    act();
    return {};
  }

 private:
  std::mutex mutex_;
  std::optional<Fault> fault_;
  int seen_ = 0, hits_ = 0;
};
Faults faults;

// What lies behind a short count isn't the file's.
template <auto row>
int64_t read_faultily(int descriptor, void *buffer, size_t bytes, uint64_t offset) {
  const std::optional<int> result = faults.strike();
  if (result && *result <= 0) return *result;
  const int64_t got = (sluice::os_native().*row)(descriptor, buffer, bytes, offset);
  if (!result || got <= *result) return got;
  std::memset(static_cast<char *>(buffer) + *result, 0xEE, static_cast<size_t>(got - *result));
  return *result;
}

// A read that the system has refused itself isn't one of the test's.
int complete_faultily(int result) {
  if (result < 0) return result;
  const std::optional<int> given = faults.strike();
  if (!given) return result;
  return *given <= 0 ? *given : std::min(result, *given);
}

// So that `auto` reads from the disk what was written a moment ago.
int64_t nobody_knows(int, uint64_t, uint64_t) { return -EPERM; }

sluice::OsTable faulty_table() {
  sluice::OsTable table = sluice::os_native();
  table.read_at = read_faultily<&sluice::OsTable::read_at>;
  table.read_uncached = read_faultily<&sluice::OsTable::read_uncached>;
  table.completion = complete_faultily;
  return table;
}

// The system's table is another one for a while; `auto` finds nothing in the page cache.
class OtherTable {
 public:
  OtherTable(sluice::OsTable table, sluice_switch direct) : table_(table) {
    if (direct == SLUICE_AUTO) table_.cached_bytes = nobody_knows;
    sluice::os_replace(&table_);
  }
  ~OtherTable() { sluice::os_replace(nullptr); }
  OtherTable(const OtherTable &) = delete;
  OtherTable &operator=(const OtherTable &) = delete;

 private:
  sluice::OsTable table_;
};

// The number behind the last " at " of the text.
uint64_t place_in(const std::string &text) {
  const size_t at = text.rfind(" at ");
  uint64_t place = UINT64_MAX;
  if (at != std::string::npos)
    std::from_chars(text.data() + at + 4, text.data() + text.size(), place);
  return place;
}

constexpr size_t kFileBytes = 8 * kSlot + 1234;

// A file of which two ranges, with a gap between them, go to odd places of a buffer: 8 reads.
class Load : public Reading {
 public:
  explicit Load(const Way &way)
      : Reading(way), way_(way), path_(folder_.file("f")), data_(pattern(kFileBytes, 8)) {
    write();
    open(path_, 1 << 20);
    know_file();
  }

  void write() { write_file(path_, data_.data(), data_.size()); }
  // Anew: what was found out about it is forgotten.
  void reopen() {
    CHECK(sluice_file_close(file) == SLUICE_OK);
    REQUIRE(sluice_file_open(session.runtime, path_.c_str(), &file) == SLUICE_OK);
    know_file();
  }
  std::vector<sluice_read_range> ranges() const {
    return {{file, 3, kFirst, base() + 1, nullptr, "alpha"},
            {file, kSecondAt, kFileBytes - kSecondAt, base() + 1 + kFirst, nullptr, "beta"}};
  }
  sluice_status run() { return read(ranges()); }
  std::vector<unsigned char> wanted() const { return of(data_); }
  std::vector<unsigned char> of(const std::vector<unsigned char> &data) const {
    std::vector<unsigned char> both = part(data, 3, kFirst);
    both.insert(both.end(), data.begin() + kSecondAt, data.end());
    return both;
  }
  std::vector<unsigned char> file_part(size_t offset, size_t bytes) const {
    return part(data_, offset, bytes);
  }
  std::vector<unsigned char> got() { return device_bytes(1, kFirst + kFileBytes - kSecondAt); }
  void check_bytes() { CHECK(got() == wanted()); }
  void check_works() {
    REQUIRE_MESSAGE(run() == SLUICE_OK, last_error());
    check_bytes();
  }

  // The last error, that of a read: names the file, one of the ranges, and a byte of the file.
  void check_place() const {
    const std::string text = last_error();
    INFO(text);
    CHECK(text.find(path_) != std::string::npos);
    CHECK((text.find(": alpha: ") != std::string::npos ||
           text.find(": beta: ") != std::string::npos));
    CHECK(place_in(text) < kFileBytes);
  }
  void check_error(int number) const {
    sluice_error error = SLUICE_ERROR_INIT;
    CHECK(sluice_error_get(&error) == SLUICE_OK);
    CHECK(error.domain == SLUICE_DOMAIN_SYSTEM);
    CHECK(error.code == number);
    check_place();
  }

  bool direct_works() const { return direct_works_; }
  bool on_threads() const { return way_.io == SLUICE_IO_THREADS; }
  bool through_registered_buffers() const {
    sluice_io_info info = SLUICE_IO_INFO_INIT;
    CHECK(sluice_io_info_get(session.device, &info) == SLUICE_OK);
    return way_.io == SLUICE_IO_URING && info.fixed_buffers;
  }
  const std::string &path() const { return path_; }
  const Way &way() const { return way_; }

  static constexpr size_t kFirst = 250000, kSecondAt = 300001;

 private:
  // The direct read by which it is tried comes before those that are counted.
  void know_file() {
    sluice_file_info info = SLUICE_FILE_INFO_INIT;
    REQUIRE(sluice_file_info_get(file, &info) == SLUICE_OK);
    direct_works_ = info.direct_io;
  }

  const Way way_;
  const TemporaryFolder folder_;
  const std::string path_;
  const std::vector<unsigned char> data_;
  bool direct_works_ = false;
};

// Loads with `fault` at the first read, at the second, ... until there is no such read: `judge` is
// told how each that was hit has ended. Then everything works.
template <typename Judge>
void at_each_read(Load &load, Fault fault, Judge judge) {
  for (fault.at = 1; fault.at < 100; ++fault.at) {
    CAPTURE(fault.at);
    faults.arm(fault);
    const sluice_status status = load.run();
    const bool hit = faults.disarm() != 0;
    INFO(last_error());
    if (hit)
      judge(status);
    else
      CHECK(status == SLUICE_OK);
    load.check_works();
    if (!hit) break;
  }
  CHECK(fault.at > 8);
  CHECK(fault.at < 100);
}

}  // namespace

TEST_CASE("short counts and interruptions change nothing") {
  for (const int result : {1, 511, 4096, 5000, -EINTR, -EAGAIN}) {
    CAPTURE(result);
    each_file_way([&](const Way &way) {
      const OtherTable table(faulty_table(), way.direct);
      Load load(way);
      const uint64_t before = load.session.stats().direct_io_fallbacks;
      faults.arm({result, 2, 2});
      CHECK(load.run() == SLUICE_OK);
      CHECK(faults.disarm() >= 4);
      CHECK(load.session.stats().direct_io_fallbacks == before);
      load.check_bytes();
      load.check_works();
    });
  }
}

TEST_CASE("a read that makes no progress is tried so many times, and not for ever") {
  constexpr int kMost = sluice::kMaxReadAttempts;
  for (const int number : {EINTR, EAGAIN}) {
    CAPTURE(number);
    each_file_way([&](const Way &way) {
      const OtherTable table(faulty_table(), way.direct);
      Load load(way);
      const std::vector<sluice_read_range> one{
          {load.file, 8192, 5000, load.base() + 1, nullptr, "alpha"}};
      faults.arm({-number, 1, 1, kMost});
      CHECK(load.read(one) == SLUICE_OK);
      CHECK(faults.disarm() == kMost);
      faults.arm({-number, 1, 1, kMost + 1});
      CHECK(load.read(one) != SLUICE_OK);
      CHECK(faults.disarm() == kMost + 1);
      load.check_error(number);
      faults.arm({-number, 1, 1});
      CHECK(load.run() != SLUICE_OK);
      CHECK(faults.disarm() <= 8 * (kMost + 1));
      load.check_error(number);
      load.check_works();
    });
  }
}

TEST_CASE("a refusal at any read: the load goes on from there without what was refused") {
  for (const int number : {EINVAL, EFAULT, EOPNOTSUPP}) {
    CAPTURE(number);
    each_file_way([&](const Way &way) {
      const OtherTable table(faulty_table(), way.direct);
      Load load(way);
      at_each_read(load, {-number}, [&](sluice_status status) {
        // What can be given up: registered buffers and direct reads; of `auto`, some are plain.
        const bool plain = way.direct == SLUICE_OFF || !load.direct_works();
        if (load.through_registered_buffers() || (way.direct == SLUICE_ON && !plain))
          CHECK(status == SLUICE_OK);
        if (load.on_threads() && plain && (way.direct == SLUICE_OFF || number != EOPNOTSUPP))
          CHECK(status != SLUICE_OK);
        status == SLUICE_OK ? load.check_bytes() : load.check_error(number);
        if (load.on_threads() && !plain && status == SLUICE_OK) {
          sluice_file_info info = SLUICE_FILE_INFO_INIT;
          CHECK(sluice_file_info_get(load.file, &info) == SLUICE_OK);
          CHECK((way.direct == SLUICE_AUTO || !info.direct_io));
        }
        load.reopen();
      });
    });
  }
}

TEST_CASE("an error of the disk at any read is reported, with its code and place") {
  each_file_way([&](const Way &way) {
    const OtherTable table(faulty_table(), way.direct);
    Load load(way);
    at_each_read(load, {-EIO}, [&](sluice_status status) {
      CHECK(status == SLUICE_IO_ERROR);
      load.check_error(EIO);
    });
    faults.arm({-EIO, 1, 1});
    CHECK(load.run() == SLUICE_IO_ERROR);
    CHECK(faults.disarm() <= 8);
    load.check_error(EIO);
    load.check_works();
  });
}

TEST_CASE("no bytes in the middle of a file: it ended, whatever its size says") {
  each_file_way([&](const Way &way) {
    const OtherTable table(faulty_table(), way.direct);
    Load load(way);
    at_each_read(load, {0}, [&](sluice_status status) {
      CHECK(status == SLUICE_END_OF_FILE);
      load.check_place();
    });
  });
}

TEST_CASE("a file that was truncated after opening names itself, the range and the place") {
  const TemporaryFolder folder;
  const auto data = pattern(300000, 3);
  each_way([&](const Way &way) {
    write_file(folder.file("f"), data.data(), data.size());
    Reading reading(way);
    reading.open(folder.file("f"), 1 << 20);
    std::filesystem::resize_file(folder.file("f"), 150001);
    CHECK(reading.read({{reading.file, 0, 300000, reading.base(), nullptr, "layer.7"}}) ==
          SLUICE_END_OF_FILE);
    const std::string message = last_error();
    CHECK(message.find("layer.7") != std::string::npos);
    CHECK(message.find(folder.file("f")) != std::string::npos);
    // What is still there can be read: the failure left nothing behind.
    REQUIRE(reading.read({{reading.file, 0, 150001, reading.base(), nullptr, nullptr}}) ==
            SLUICE_OK);
    CHECK(reading.device_bytes(0, 150001) == part(data, 0, 150001));
  });
}

// They share a read.
TEST_CASE("of many small ranges the first one that isn't whole is named") {
  constexpr size_t kCount = 10, kBytes = 5000, kEach = 6000;
  each_file_way([&](const Way &way) {
    const OtherTable table(faulty_table(), way.direct);
    Load load(way);
    std::vector<std::string> names;
    for (size_t i = 0; i < kCount; ++i) names.push_back("small." + std::to_string(i));
    std::vector<sluice_read_range> ranges;
    for (size_t i = 0; i < kCount; ++i)
      ranges.push_back(
          {load.file, i * kEach, kBytes, load.base() + i * kBytes, nullptr, names[i].c_str()});
    for (size_t i = 0; i < kCount; ++i) {
      CAPTURE(i);
      for (const size_t left : {size_t{0}, kBytes - 1}) {
        fs::resize_file(load.path(), i * kEach + left);
        CHECK(load.read(ranges) == SLUICE_END_OF_FILE);
        const std::string text = last_error();
        INFO(text);
        CHECK(text.find(": " + names[i] + ": ") != std::string::npos);
      }
    }
    load.write();
    load.check_works();
  });
}

TEST_CASE("a file that is deleted or replaced after opening is still read") {
  const TemporaryFolder folder;
  const auto data = pattern(100000, 4), other = pattern(100000, 5);
  each_way([&](const Way &way) {
    write_file(folder.file("f"), data.data(), data.size());
    Reading reading(way);
    reading.open(folder.file("f"), 1 << 20);
    std::filesystem::rename(folder.file("f"), folder.file("old"));
    write_file(folder.file("f"), other.data(), other.size());
    REQUIRE(reading.read({{reading.file, 0, 100000, reading.base(), nullptr, nullptr}}) ==
            SLUICE_OK);
    CHECK(reading.device_bytes(0, 100000) == data);
    std::filesystem::remove(folder.file("old"));
    REQUIRE(reading.read({{reading.file, 0, 100000, reading.base(), nullptr, nullptr}}) ==
            SLUICE_OK);
    CHECK(reading.device_bytes(0, 100000) == data);
  });
}

TEST_CASE("a file that is truncated while it is read ended there") {
  constexpr uint64_t kCut = 2 * kSlot + 1001;
  for (const uint64_t cut : {uint64_t{0}, kCut}) {
    CAPTURE(cut);
    each_file_way([&](const Way &way) {
      const OtherTable table(faulty_table(), way.direct);
      Load load(way);
      Fault fault;
      fault.act = [&] { fs::resize_file(load.path(), cut); };
      at_each_read(load, fault, [&](sluice_status status) {
        // What is hit has not been read yet, or has been, and so have others in flight.
        if (cut == 0 && load.on_threads()) CHECK(status == SLUICE_END_OF_FILE);
        if (status == SLUICE_OK) {
          load.check_bytes();
        } else {
          CHECK(status == SLUICE_END_OF_FILE);
          load.check_place();
        }
        load.write();
      });
    });
  }
}

TEST_CASE("a file that is replaced, and then deleted, while it is read: the one that was opened") {
  const auto other = pattern(kFileBytes, 5);
  each_file_way([&](const Way &way) {
    const OtherTable table(faulty_table(), way.direct);
    Load load(way);
    const std::string old = load.path() + ".old";
    for (int at = 1; at <= 8; ++at) {
      CAPTURE(at);
      Fault fault{0, at};
      fault.act = [&] {
        fs::rename(load.path(), old);
        write_file(load.path(), other.data(), other.size());
      };
      faults.arm(fault);
      CHECK(load.run() == SLUICE_OK);
      CHECK(faults.disarm() == 1);
      load.check_bytes();
      load.check_works();
      fault.act = [&] { fs::remove(old); };
      faults.arm(fault);
      CHECK(load.run() == SLUICE_OK);
      CHECK(faults.disarm() == 1);
      load.check_bytes();
      load.check_works();
      load.write();
      load.reopen();
    }
  });
}

TEST_CASE("a file that is overwritten while it is read: its old and its new bytes") {
  const auto other = pattern(kFileBytes, 5);
  each_file_way([&](const Way &way) {
    const OtherTable table(faulty_table(), way.direct);
    Load load(way);
    const auto before = load.wanted(), after = load.of(other);
    Fault fault;
    fault.act = [&] {
      std::fstream file(load.path(), std::ios::binary | std::ios::in | std::ios::out);
      file.write(reinterpret_cast<const char *>(other.data()),
                 static_cast<std::streamsize>(other.size()));
    };
    at_each_read(load, fault, [&](sluice_status status) {
      CHECK(status == SLUICE_OK);
      const auto got = load.got();
      bool mixture = true;
      for (size_t i = 0; i < got.size(); ++i) mixture &= got[i] == before[i] || got[i] == after[i];
      CHECK(mixture);
      load.write();
    });
  });
}

// The three kinds of destinations in host memory: some are read straight into.
TEST_CASE("faults of reads into host memory") {
  for (const int result : {1, 0, -EINTR, -EINVAL, -EIO}) {
    CAPTURE(result);
    each_file_way([&](const Way &way) {
      const OtherTable table(faulty_table(), way.direct);
      Load load(way);
      std::vector<unsigned char> plain(150000), both(99999);
      void *pinned = nullptr;
      REQUIRE(sluice_pinned_alloc(load.session.device, 120000, 4096, &pinned) == SLUICE_OK);
      const auto run = [&] {
        std::fill(plain.begin(), plain.end(), 0);
        std::memset(pinned, 0, 120000);
        return load.read(
            {{load.file, 17, plain.size(), 0, plain.data(), "alpha"},
             {load.file, 204800, 120000, load.base(), pinned, "beta"},
             {load.file, 400001, both.size(), load.base() + 200000, both.data(), "alpha"}});
      };
      const auto check = [&] {
        CHECK(plain == load.file_part(17, plain.size()));
        CHECK(both == load.file_part(400001, both.size()));
        CHECK(std::memcmp(pinned, load.file_part(204800, 120000).data(), 120000) == 0);
        CHECK(load.device_bytes(0, 120000) == load.file_part(204800, 120000));
        CHECK(load.device_bytes(200000, both.size()) == both);
      };
      bool hit = true;
      for (int at = 1; hit; ++at) {
        CAPTURE(at);
        REQUIRE(at < 20);
        faults.arm({result, at});
        const sluice_status status = run();
        hit = faults.disarm() != 0;
        INFO(last_error());
        const bool harmless = !hit || result == 1 || result == -EINTR;
        if (status == SLUICE_OK) {
          CHECK((harmless || result == -EINVAL));
          check();
        } else {
          CHECK(!harmless);
          CHECK((status == SLUICE_END_OF_FILE) == (result == 0));
          load.check_place();
        }
        load.reopen();
        REQUIRE(run() == SLUICE_OK);
        check();
      }
      CHECK(sluice_pinned_free(load.session.device, pinned) == SLUICE_OK);
    });
  }
}

// Headers are read with plain reads, whatever the way of reading is.
TEST_CASE("faults of reads of a checkpoint's header") {
  const TemporaryFolder folder;
  const std::string path = folder.file("model.safetensors");
  write_checkpoint(path, {70001, 1, 4096}, 7);
  const OtherTable table(faulty_table(), SLUICE_OFF);
  Session session;
  REQUIRE(session.status() == SLUICE_OK);
  sluice_checkpoint *checkpoint = nullptr;
  const auto open_with = [&](const Fault &fault) {
    faults.arm(fault);
    const sluice_status status = sluice_checkpoint_open(session.runtime, path.c_str(), &checkpoint);
    if (status == SLUICE_OK) CHECK(sluice_checkpoint_close(checkpoint) == SLUICE_OK);
    if (status != SLUICE_OK) CHECK(last_error().find(path) != std::string::npos);
    return status;
  };
  for (const int harmless : {1, 7, -EINTR, -EAGAIN}) {
    CAPTURE(harmless);
    CHECK(open_with({harmless, 1, 2}) == SLUICE_OK);
    CHECK(faults.disarm() >= 1);
  }
  CHECK(open_with({1, 1, 1}) == SLUICE_OK);
  for (const int fatal : {-EINTR, -EAGAIN, -EIO, -EINVAL, 0}) {
    CAPTURE(fatal);
    CHECK(open_with({fatal, 1, 1}) != SLUICE_OK);
    CHECK(faults.disarm() <= static_cast<int>(sluice::kMaxReadAttempts));
    int at = 1;
    for (;; ++at) {
      CAPTURE(at);
      REQUIRE(at < 20);
      const sluice_status status = open_with({fatal, at});
      if (faults.disarm() == 0) break;
      if (fatal == -EIO) CHECK(status == SLUICE_IO_ERROR);
      if (fatal == 0) CHECK(status == SLUICE_END_OF_FILE);
      CHECK((status == SLUICE_OK) == (fatal == -EINTR || fatal == -EAGAIN));
    }
    CHECK(at > 2);
    CHECK(open_with({0, 1000}) == SLUICE_OK);
  }
}

TEST_CASE("a whole checkpoint: a tensor is named, and the next load works") {
  const TemporaryFolder folder;
  const std::vector<size_t> sizes{70001, 1, 131072, 4096, 99999};
  const std::string path = folder.file("model.safetensors");
  const auto data = write_checkpoint(path, sizes, 7);
  each_file_way([&](const Way &way) {
    const OtherTable table(faulty_table(), way.direct);
    Session session(options_of(way));
    REQUIRE(session.status() == SLUICE_OK);
    sluice_checkpoint *checkpoint = nullptr;
    REQUIRE(sluice_checkpoint_open(session.runtime, path.c_str(), &checkpoint) == SLUICE_OK);
    std::vector<uint64_t> addresses(sizes.size());
    sluice_buffer *weights = nullptr;
    const auto load = [&] {
      return sluice_checkpoint_load(checkpoint, session.device, 0, nullptr, nullptr, nullptr,
                                    nullptr, &weights, addresses.data());
    };
    const auto check = [&] {
      size_t offset = 0;
      for (size_t i = 0; i < sizes.size(); ++i) {
        std::vector<unsigned char> bytes(sizes[i]);
        CHECK(sluice_copy_to_host(session.device, addresses[i], sizes[i], nullptr, bytes.data()) ==
              SLUICE_OK);
        CHECK(bytes == part(data, offset, sizes[i]));
        offset += sizes[i];
      }
      sluice_buffer_destroy(weights);
    };
    REQUIRE(load() == SLUICE_OK);  // direct reads have been tried
    check();
    for (const int result : {-EIO, 0}) {
      CAPTURE(result);
      for (int at = 1;; ++at) {
        CAPTURE(at);
        REQUIRE(at < 20);
        faults.arm({result, at});
        const sluice_status status = load();
        const bool hit = faults.disarm() != 0;
        if (hit) {
          CHECK(status == (result == 0 ? SLUICE_END_OF_FILE : SLUICE_IO_ERROR));
          CHECK(last_error().find(": t") != std::string::npos);
          CHECK(last_error().find(path) != std::string::npos);
          CHECK(weights == nullptr);
          REQUIRE(load() == SLUICE_OK);
        }
        check();
        if (!hit) break;
      }
    }
    CHECK(sluice_checkpoint_close(checkpoint) == SLUICE_OK);
  });
}

TEST_CASE("a read that hangs holds up no other one, and is right in the end") {
  each_file_way([&](const Way &way) {
    sluice::OsTable rows = sluice::os_native();
    StalledReads stalled(&rows);
    const OtherTable table(rows, way.direct);
    Load load(way);
    const auto ranges = load.ranges();
    stalled.stall(load.path(), kSlot, 2 * kSlot);
    sluice_read *hanging = load.submit({ranges[0]});
    stalled.wait_for_first();
    for (int i = 0; i < 3; ++i) CHECK(load.finish(load.submit({ranges[1]})) == SLUICE_OK);
    uint64_t done = 0, total = 0;
    CHECK(sluice_read_progress(hanging, &done, &total) == SLUICE_OK);
    CHECK(done < total);
    stalled.let_through();
    CHECK(load.finish(hanging) == SLUICE_OK);
    load.check_bytes();
    load.check_works();
  });
}

TEST_CASE("reads that hang in the queues of all threads hold up no later one") {
  each_file_way([&](Way way) {
    if (way.io != SLUICE_IO_URING) return;  // a positioned read takes its thread along
    way.workers = 1;
    sluice::OsTable rows = sluice::os_native();
    StalledReads stalled(&rows);
    const OtherTable table(rows, way.direct);
    Load load(way);
    const auto ranges = load.ranges();
    stalled.stall(load.path(), kSlot, 2 * kSlot);
    sluice_read *hanging = load.submit({ranges[0]});
    stalled.wait_for_first();
    uint64_t done = 0, total = 0;
    do CHECK(sluice_read_progress(hanging, &done, &total) == SLUICE_OK);
    while (total - done > kSlot);
    for (int i = 0; i < 3; ++i) CHECK(load.finish(load.submit({ranges[1]})) == SLUICE_OK);
    stalled.let_through();
    CHECK(load.finish(hanging) == SLUICE_OK);
    load.check_bytes();
    load.check_works();
  });
}

TEST_CASE("a read that hangs can be cancelled, and begins nothing more") {
  each_file_way([&](const Way &way) {
    sluice::OsTable rows = sluice::os_native();
    StalledReads stalled(&rows);
    const OtherTable table(rows, way.direct);
    Load load(way);
    stalled.stall(load.path(), 0, kFileBytes);
    sluice_read *hanging = load.submit(load.ranges());
    stalled.wait_for_first();
    CHECK(sluice_read_cancel(hanging) == SLUICE_OK);
    stalled.let_through();
    CHECK(load.finish(hanging) == SLUICE_CANCELLED);
    std::set<uint64_t> slots;
    for (const uint64_t offset : stalled.begun()) slots.insert(offset / kSlot);
    CHECK(slots.size() <= 4);  // as many as the ring has
    load.check_works();
  });
}

TEST_CASE("deadlines pass while reads hang") {
  for (const uint32_t timeout_ms : {0, 1}) {
    CAPTURE(timeout_ms);
    each_file_way([&](const Way &way) {
      sluice::OsTable rows = sluice::os_native();
      StalledReads stalled(&rows);
      const OtherTable table(rows, way.direct);
      Load load(way);
      stalled.stall(load.path(), 0, kFileBytes);
      sluice_read *hanging = load.submit(load.ranges(), timeout_ms);
      if (timeout_ms == 0) stalled.wait_for_first();
      // Behind it, with nothing that could be begun.
      CHECK(load.finish(load.submit({load.ranges()[1]}, 1)) == SLUICE_TIMED_OUT);
      stalled.let_through();
      CHECK(load.finish(hanging) == (timeout_ms == 0 ? SLUICE_OK : SLUICE_TIMED_OUT));
      if (timeout_ms == 0) load.check_bytes();
      load.check_works();
    });
  }
}
