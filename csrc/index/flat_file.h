// A flat index as one file. Little-endian:
//   "RemoryFI", version u32 = 1, flags u32 (1: certified), dimension u64, rows u64, zeros to 60 bytes, and the
//   CRC-32C of these 60 bytes; then ids i64 [rows], vectors f32 [rows, dimension], and the CRC-32C of all before.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include "flat_index.h"

namespace remory::index {

// The file is damaged, or of another version.
struct DamagedFile : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The system refused; `code` is its errno.
struct FileError : std::runtime_error {
  FileError(int code, const std::string& path) : std::runtime_error(path), code(code), path(path) {}
  int code;
  std::string path;
};

// Written beside `path` and put in its place when all of it is on the disk: there is always the old file or the new.
void save(const FlatView& view, bool certified, const std::string& path);

std::unique_ptr<FlatIndex> load(const std::string& path, int threads);

}  // namespace remory::index
