#include "flat_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>

#include "checksum.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "another byte order would have to swap what it reads and writes");

namespace remory::index {
namespace {

constexpr char kMagic[] = "RemoryFI";
constexpr uint32_t kVersion = 1, kCertified = 1;
constexpr size_t kBuffer = size_t{1} << 20;
constexpr int64_t kElementsAtOnce = int64_t{1} << 21;

struct Header {
  char magic[8];
  uint32_t version, flags;
  uint64_t dimension, rows;
  uint8_t zeros[28];
  uint32_t checksum;

  uint32_t own_checksum() const { return crc32c(0, this, offsetof(Header, checksum)); }
};
static_assert(sizeof(Header) == 64);

class File {
 public:
  File(const std::string& path, int flags, const std::string& shown) : path_(shown) {
    do descriptor_ = open(path.c_str(), flags | O_CLOEXEC, 0666);
    while (descriptor_ < 0 && errno == EINTR);
    if (descriptor_ < 0) fail();
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  [[noreturn]] void fail() const { throw FileError(errno, path_); }

  struct stat status() const {
    struct stat status;
    if (fstat(descriptor_, &status) != 0) fail();
    return status;
  }

  void write(const void* data, size_t size) const {
    const auto* bytes = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t written = ::write(descriptor_, bytes, size);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail();
      bytes += written;
      size -= static_cast<size_t>(written);
    }
  }

  // Less than `size` only at the file's end.
  size_t read(void* data, size_t size) const {
    size_t done = 0;
    while (done < size) {
      const ssize_t got = ::read(descriptor_, static_cast<char*>(data) + done, size - done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail();
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    return done;
  }

  void sync() const {
    if (fsync(descriptor_) != 0) fail();
  }

 private:
  std::string path_;
  int descriptor_;
};

// Gathers small writes, and sums up everything.
class Writer {
 public:
  explicit Writer(const File& file) : file_(file) { buffer_.reserve(kBuffer); }

  void write(const void* data, size_t size) {
    checksum_ = crc32c(checksum_, data, size);
    const bool large = size > kBuffer / 2;
    if (large || buffer_.size() + size > kBuffer) flush();
    if (large) return file_.write(data, size);
    const auto* bytes = static_cast<const char*>(data);
    buffer_.insert(buffer_.end(), bytes, bytes + size);
  }

  void finish() {
    const uint32_t checksum = checksum_;
    write(&checksum, sizeof(checksum));
    flush();
  }

 private:
  void flush() {
    file_.write(buffer_.data(), buffer_.size());
    buffer_.clear();
  }

  const File& file_;
  std::vector<char> buffer_;
  uint32_t checksum_ = 0;
};

// Calls body(segment, first, rows) for each run of neighbouring live rows of at most `most`.
template <class Body>
void for_runs(const State& state, int64_t most, const Body& body) {
  for (size_t i = 0; i < state.segments->size(); ++i) {
    const Segment& segment = *(*state.segments)[i];
    const int64_t count = state.rows_of(i);
    const auto alive = [&](int64_t row) { return segment.died[row].load(std::memory_order_relaxed) > state.version; };
    for (int64_t first = 0; first < count;) {
      int64_t end = first;
      while (end < count && end - first < most && alive(end)) ++end;
      if (end > first) body(segment, first, end - first);
      first = std::max(end, first + 1);
    }
  }
}

void write_view(const FlatView& view, bool certified, const File& file) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(header.magic));
  header.version = kVersion;
  header.flags = certified ? kCertified : 0;
  header.dimension = static_cast<uint64_t>(view.dimension());
  header.rows = static_cast<uint64_t>(view.size());
  header.checksum = header.own_checksum();

  Writer writer(file);
  writer.write(&header, sizeof(header));
  // Runs of a size that is still in the cache when it goes from the checksum to the system.
  const int64_t width = view.dimension(), most = std::max<int64_t>(1, kElementsAtOnce / 8 / width);
  for_runs(view.state(), most, [&](const Segment& segment, int64_t first, int64_t rows) {
    writer.write(&segment.ids[first], static_cast<size_t>(rows) * sizeof(int64_t));
  });
  for_runs(view.state(), most, [&](const Segment& segment, int64_t first, int64_t rows) {
    writer.write(segment.row(first), static_cast<size_t>(rows * width) * sizeof(float));
  });
  writer.finish();
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Reads what the sizes promise and sums it up.
class Reader {
 public:
  Reader(const File& file, const std::string& path) : file_(file), path_(path) {}

  [[noreturn]] void fail(const std::string& what) const { throw DamagedFile(path_ + " " + what); }

  void read(void* data, size_t size) {
    if (file_.read(data, size) != size) fail("is damaged: it ends early");
    checksum_ = crc32c(checksum_, data, size);
  }

  void check_end() {
    const uint32_t expected = checksum_;
    uint32_t written;
    read(&written, sizeof(written));
    if (written != expected) fail("is damaged: its checksum is not that of its contents");
  }

 private:
  const File& file_;
  const std::string& path_;
  uint32_t checksum_ = 0;
};

// Nothing is allocated by a number from the file before the file's size bears it out.
Header read_header(Reader& reader, const File& file) {
  const struct stat status = file.status();
  const auto size = static_cast<uint64_t>(status.st_size);
  Header header;
  if (!S_ISREG(status.st_mode) || size < sizeof(header)) reader.fail("is not an index: it is shorter than its header");
  reader.read(&header, sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(header.magic)) != 0) reader.fail("is not an index of Remory");
  if (header.checksum != header.own_checksum()) reader.fail("is damaged: its header is not what was written");
  if (header.version != kVersion) {
    reader.fail("is of format version " + std::to_string(header.version) + "; this Remory reads version " +
                std::to_string(kVersion));
  }
  if (header.dimension < 1 || header.dimension > static_cast<uint64_t>(kLargestDimension)) {
    reader.fail("is damaged: its dimension is " + std::to_string(header.dimension));
  }
  const uint64_t row_bytes = sizeof(int64_t) + header.dimension * sizeof(float);
  const uint64_t body = size - sizeof(header);
  if (body < sizeof(uint32_t) || header.rows != (body - sizeof(uint32_t)) / row_bytes ||
      (body - sizeof(uint32_t)) % row_bytes != 0) {
    reader.fail("is damaged: it should hold " + std::to_string(header.rows) + " rows of " + std::to_string(row_bytes) +
                " bytes, and is " + std::to_string(size) + " bytes long");
  }
  return header;
}

}  // namespace

void save(const FlatView& view, bool certified, const std::string& path) {
  // By chance, because processes of two containers may share a folder and a number.
  std::random_device chance;
  const std::string written = path + "." + std::to_string(chance()) + "-" + std::to_string(chance()) + ".partial";
  const File file(written, O_WRONLY | O_CREAT | O_EXCL, path);
  try {
    write_view(view, certified, file);
    file.sync();
    if (rename(written.c_str(), path.c_str()) != 0) file.fail();
  } catch (...) {
    unlink(written.c_str());
    throw;
  }
  File(folder_of(path), O_RDONLY | O_DIRECTORY, path).sync();
}

std::unique_ptr<FlatIndex> load(const std::string& path, int threads) {
  // A pipe has no size either; to open one would wait for who writes it.
  const File file(path, O_RDONLY | O_NONBLOCK, path);
  Reader reader(file, path);
  const Header header = read_header(reader, file);
  const auto rows = static_cast<int64_t>(header.rows), width = static_cast<int64_t>(header.dimension);
  auto index = std::make_unique<FlatIndex>(width, (header.flags & kCertified) != 0);
  std::vector<int64_t> ids(rows);
  reader.read(ids.data(), ids.size() * sizeof(int64_t));
  const int64_t most = std::max<int64_t>(1, kElementsAtOnce / width);
  std::vector<float> vectors(static_cast<size_t>(std::min(rows, most) * width));
  try {
    for (int64_t first = 0; first < rows; first += most) {
      const int64_t count = std::min(most, rows - first);
      reader.read(vectors.data(), static_cast<size_t>(count * width) * sizeof(float));
      index->add(ids.data() + first, vectors.data(), count, threads);
    }
  } catch (const InvalidInput& wrong) {
    reader.fail(std::string("is damaged: ") + wrong.what());
  }
  reader.check_end();
  return index;
}

}  // namespace remory::index
