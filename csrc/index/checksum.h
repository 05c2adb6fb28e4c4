// CRC-32C: finds every flipped bit and every burst of up to 32 of them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace remory::index {

// Goes on from the checksum of what came before; 0 to begin with.
uint32_t crc32c(uint32_t before, const void* data, size_t size);

}  // namespace remory::index
