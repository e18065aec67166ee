#include "benchmarks/result_file.h"

#include <lzma.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace sinter::bench {
namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string decompressed(const std::string& packed, const std::string& path) {
  constexpr uint64_t kMostMemory = uint64_t{256} << 20;
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, kMostMemory, 0) != LZMA_OK)
    throw std::runtime_error("cannot decompress " + path);
  stream.next_in = reinterpret_cast<const uint8_t*>(packed.data());
  stream.avail_in = packed.size();
  std::string out;
  std::array<uint8_t, 65536> part{};
  lzma_ret result = LZMA_OK;
  while (result == LZMA_OK) {
    stream.next_out = part.data();
    stream.avail_out = part.size();
    result = lzma_code(&stream, LZMA_FINISH);
    out.append(reinterpret_cast<const char*>(part.data()), part.size() - stream.avail_out);
  }
  lzma_end(&stream);
  if (result != LZMA_STREAM_END) throw std::runtime_error(path + " is damaged");
  return out;
}

}  // namespace

std::string read_result(const std::string& path) {
  const std::string packed = path.ends_with(".xz") ? path : path + ".xz";
  if (packed != path && std::filesystem::exists(path)) return bytes_of(path);
  return decompressed(bytes_of(packed), packed);
}

}  // namespace sinter::bench
