#include "runtime/check/npy.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "fusion_ir/error.h"
#include "runtime/cache/file_descriptor.h"

namespace sinter {
namespace {

// The format: "NEP 1, A Simple File Format for NumPy Arrays", and numpy.lib.format.
constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kVersionBytes = 2;
/// NumPy pads headers of arrays to some 128 bytes; those of records are longer. Longer ones than
/// this are no array of a number.
constexpr uint32_t kMostHeaderBytes = 1U << 16U;
constexpr size_t kAlignment = 64;  // Of the data that follows the header.
constexpr size_t kMostAxes = 64;   // NumPy's own limit.

tl::unexpected<Error> refuse(const std::string& path, std::string_view what, std::string remedy,
                             std::optional<int64_t> measured = {},
                             std::optional<int64_t> limit = {}) {
  return fail(Error{.kind = ErrorKind::kInvalidArgument,
                    .message = fmt::format("'{}' {}", path, what),
                    .remedy = std::move(remedy),
                    .measured = measured,
                    .limit = limit});
}

constexpr const char* kSaveAgain = "write the file with numpy.save";

/// What a header says.
struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

/// Reads the header's text, a Python dictionary of three entries in any order.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : rest_(text) {}

  /// None where the text is no such dictionary.
  std::optional<Header> parse() {
    if (!take("{")) return std::nullopt;
    while (!take("}")) {
      const auto key = quoted();
      if (!key || !take(":") || !entry(*key)) return std::nullopt;
      if (!take(",")) {
        if (!take("}")) return std::nullopt;
        break;
      }
    }
    skip_space();
    if (!rest_.empty() || !has_descr_ || !has_order_ || !has_shape_) return std::nullopt;
    return std::move(header_);
  }

 private:
  void skip_space() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\n\r"), rest_.size()));
  }
  bool take(std::string_view text) {
    skip_space();
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  std::optional<std::string> quoted() {
    skip_space();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) return std::nullopt;
    const size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string out(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return out;
  }
  bool entry(std::string_view key) {
    if (key == "descr" && !has_descr_) {
      auto descr = quoted();
      has_descr_ = descr.has_value();
      header_.descr = std::move(descr).value_or("");
      return has_descr_;
    }
    if (key == "fortran_order" && !has_order_) {
      header_.fortran_order = take("True");
      has_order_ = header_.fortran_order || take("False");
      return has_order_;
    }
    if (key == "shape" && !has_shape_) return has_shape_ = shape();
    return false;
  }
  bool shape() {
    if (!take("(")) return false;
    while (!take(")")) {
      skip_space();
      int64_t size = 0;
      const auto [end, problem] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (problem != std::errc{} || size < 0 || header_.shape.size() == kMostAxes) return false;
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      header_.shape.push_back(size);
      if (!take(",")) {
        if (!take(")")) return false;
        break;
      }
    }
    return true;
  }

  std::string_view rest_;
  Header header_;
  bool has_descr_ = false;
  bool has_order_ = false;
  bool has_shape_ = false;
};

/// How NumPy writes a type, without the order of its bytes; the first is what write_npy() writes.
std::array<std::string_view, 2> descriptions_of(DType type) {
  switch (type) {
    case DType::kF64:
      return {"f8", "f8"};
    case DType::kF32:
      return {"f4", "f4"};
    case DType::kF16:
      return {"f2", "f2"};
    case DType::kBF16:
      return {"u2", "V2"};
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return {"u1", "V1"};
    case DType::kI64:
      return {"i8", "i8"};
    case DType::kI32:
      return {"i4", "i4"};
    case DType::kI8:
      return {"i1", "i1"};
    case DType::kU8:
      return {"u1", "u1"};
    case DType::kBool:
      return {"b1", "b1"};
  }
  unreachable();
}

/// True if the file has all of those bytes.
bool fills(const FileDescriptor& file, std::span<std::byte> to) {
  size_t done = 0;
  return read_up_to(file.get(), to, done) == 0 && done == to.size();
}

Result<Header> read_header(const FileDescriptor& file, const std::string& path) {
  std::array<std::byte, kMagic.size() + kVersionBytes + 4> start{};
  const auto prefix = std::span(start).first(kMagic.size() + kVersionBytes);
  if (!fills(file, prefix) || std::memcmp(start.data(), kMagic.data(), kMagic.size()) != 0) {
    return refuse(path, "is no .npy file: it does not begin with \\x93NUMPY", kSaveAgain);
  }
  const auto major = static_cast<int>(start[kMagic.size()]);
  if (major < 1 || major > 3) {
    return refuse(path, fmt::format("has .npy format {}, known are 1 to 3", major), kSaveAgain,
                  major, 3);
  }
  const size_t width = major == 1 ? 2 : 4;
  const auto length_bytes = std::span(start).subspan(prefix.size(), width);
  if (!fills(file, length_bytes)) return refuse(path, "ends within its header", kSaveAgain);
  uint32_t length = 0;
  for (size_t i = 0; i < width; ++i)
    length |= static_cast<uint32_t>(length_bytes[i]) << (8U * static_cast<uint32_t>(i));
  if (length > kMostHeaderBytes) {
    return refuse(path,
                  fmt::format("has a header of {} bytes, more than {}", length, kMostHeaderBytes),
                  "store one array of numbers", length, kMostHeaderBytes);
  }
  std::string text(length, '\0');
  if (!fills(file, std::as_writable_bytes(std::span(text))))
    return refuse(path, "ends within its header", kSaveAgain);
  auto header = HeaderParser(text).parse();
  if (!header) {
    return refuse(path,
                  "has a header that is no dictionary of 'descr' (one type), 'fortran_order' and "
                  "'shape'",
                  kSaveAgain);
  }
  return std::move(*header);
}

/// A regular file for reading. Opening waits for nobody, as it would for the writer of a FIFO.
Result<FileDescriptor> open_regular(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) {
    return refuse(path, fmt::format("cannot be opened: {}", system_message(errno)),
                  "name a file that can be read");
  }
  struct stat status {};
  if (fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode)) return file;
  return refuse(path, "is no regular file", "name a file");
}

bool is_byte_order(char c) { return c == '<' || c == '>' || c == '=' || c == '|'; }

std::string shape_text(std::span<const int64_t> sizes) {
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

/// Row-major number of the element that stands at `position` of a file in Fortran order.
int64_t row_major_number(int64_t position, std::span<const int64_t> sizes,
                         std::span<const int64_t> strides) {
  int64_t out = 0;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    out += position % sizes[axis] * strides[axis];
    position /= sizes[axis];
  }
  return out;
}

}  // namespace

Result<HostTensor> read_npy(const std::string& path, DType type, const Sizes& sizes) {
  return as_result([&]() -> Result<HostTensor> {
    const auto file = open_regular(path);
    if (!file) return fail(file.error());
    auto header = read_header(*file, path);
    if (!header) return fail(header.error());

    std::string_view descr = header->descr;
    const bool has_order = !descr.empty() && is_byte_order(descr.front());
    const bool swaps = has_order && descr.front() == '>' && bytes_of(type) > 1;
    if (has_order) descr.remove_prefix(1);
    const auto known = descriptions_of(type);
    const bool one_axis_of_one = sizes.empty() && header->shape == std::vector<int64_t>{1};
    const bool has_sizes = std::ranges::equal(header->shape, sizes) || one_axis_of_one;
    if (std::ranges::find(known, descr) == known.end() || !has_sizes) {
      return refuse(
          path,
          fmt::format("holds '{}'{}, wanted is {}{}, which is '{}'{} there", header->descr,
                      shape_text(header->shape), type, shape_text(sizes), known[0],
                      known[1] == known[0] ? "" : fmt::format(" or '{}'", known[1])),
          "convert the array with astype and reshape, or choose other extents");
    }
    HostTensor tensor = HostTensor::poisoned(type, sizes);
    const auto width = static_cast<size_t>(bytes_of(type));
    constexpr int64_t kElementsAtOnce = 1 << 14;
    std::vector<std::byte> bytes(static_cast<size_t>(std::min(tensor.count(), kElementsAtOnce)) *
                                 width);
    const Sizes dense = dense_strides(sizes);
    for (int64_t first = 0; first < tensor.count(); first += kElementsAtOnce) {
      const int64_t count = std::min(kElementsAtOnce, tensor.count() - first);
      const auto chunk = std::span(bytes).first(static_cast<size_t>(count) * width);
      size_t got = 0;
      if (read_up_to(file->get(), chunk, got) != 0 || got != chunk.size()) {
        const int64_t held = first + static_cast<int64_t>(got / width);
        return refuse(path, fmt::format("ends after {} of {} elements", held, tensor.count()),
                      kSaveAgain, held, tensor.count());
      }
      for (int64_t i = 0; i < count; ++i) {
        uint64_t bits = 0;
        for (size_t k = 0; k < width; ++k) {
          const size_t from = static_cast<size_t>(i) * width + (swaps ? width - 1 - k : k);
          bits |= static_cast<uint64_t>(bytes[from]) << (8U * k);
        }
        if (type == DType::kBool && bits > 1) {
          return refuse(path, fmt::format("holds a bool of {}, not 0 or 1", bits), kSaveAgain);
        }
        tensor.set_bits(
            header->fortran_order ? row_major_number(first + i, sizes, dense) : first + i, bits);
      }
    }
    std::array<std::byte, 1> behind{};
    size_t got_behind = 0;
    if (read_up_to(file->get(), behind, got_behind) != 0 || got_behind != 0) {
      return refuse(path, fmt::format("goes on behind its {} elements", tensor.count()),
                    kSaveAgain);
    }
    return tensor;
  });
}

Result<void> write_npy(const std::string& path, const HostTensor& tensor) {
  return as_result([&]() -> Result<void> {
    static_assert(std::endian::native == std::endian::little);
    std::string shape;
    for (const int64_t size : tensor.sizes()) shape += fmt::format("{}, ", size);
    const std::string_view descr = descriptions_of(tensor.type())[0];
    std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                   bytes_of(tensor.type()) == 1 ? '|' : '<', descr, shape);
    constexpr size_t kPrefix = kMagic.size() + kVersionBytes + 2;
    text.resize((kPrefix + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment - kPrefix,
                ' ');
    text.back() = '\n';
    std::string out(kMagic);
    out += {'\x01', '\x00', static_cast<char>(text.size() & 0xffU),
            static_cast<char>(text.size() >> 8U)};
    out += text;
    for (int64_t i = 0; i < tensor.count(); ++i) {
      const uint64_t bits = tensor.bits(i);
      out.append(reinterpret_cast<const char*>(&bits),
                 static_cast<size_t>(bytes_of(tensor.type())));
    }
    FileDescriptor file(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666));
    int code = file.is_open() ? write_all(file.get(), out) : errno;
    if (code == 0) code = file.close();
    if (code != 0) {
      return refuse(path, fmt::format("cannot be written: {}", system_message(code)),
                    "name a file that can be written");
    }
    return {};
  });
}

}  // namespace sinter
