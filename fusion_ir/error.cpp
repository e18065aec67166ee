#include "fusion_ir/error.h"

#include <algorithm>

#include "fusion_ir/text_position.h"

namespace sinter {
namespace {

/// Bytes of the UTF-8 sequence that `text` starts with; 0 if it starts with none (RFC 3629,
/// section 4: shortest forms only, no surrogates, nothing beyond U+10FFFF).
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xc2 && lead < 0xe0   ? 2
                        : lead >= 0xe0 && lead < 0xf0 ? 3
                        : lead >= 0xf0 && lead < 0xf5 ? 4
                                                      : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  }
  const bool is_long_form = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xf0 && byte(1) < 0x90);
  const bool is_no_character =
      (lead == 0xed && byte(1) >= 0xa0) || (lead == 0xf4 && byte(1) > 0x8f);
  return is_long_form || is_no_character ? 0 : length;
}

/// Bytes that are no UTF-8 become U+FFFD: JSON has no other way to say them.
std::string json_string(std::string_view text) {
  constexpr std::string_view kReplacement = "\xef\xbf\xbd";
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    if (length != 1) {
      out += length == 0 ? kReplacement : text.substr(0, length);
      text.remove_prefix(std::max<size_t>(length, 1));
      continue;
    }
    const char c = text.front();
    text.remove_prefix(1);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
        } else {
          out += c;
        }
    }
  }
  return out + "\"";
}

template <class IdType>
std::string json_ids(const std::vector<IdType>& ids) {
  std::string out = "[";
  for (const auto id : ids) out += fmt::format("{}\"{}\"", out.size() > 1 ? "," : "", id);
  return out + "]";
}

}  // namespace

std::string_view name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidFusion:
      return "InvalidFusion";
    case ErrorKind::kInvalidArgument:
      return "InvalidArgument";
    case ErrorKind::kUnsupported:
      return "Unsupported";
    case ErrorKind::kResourceExhausted:
      return "ResourceExhausted";
    case ErrorKind::kDeviceError:
      return "DeviceError";
    case ErrorKind::kInternalError:
      return "InternalError";
    case ErrorKind::kCancelled:
      return "Cancelled";
  }
  unreachable();
}

std::string Error::text() const {
  std::string out = fmt::format("{}: {}", name_of(kind), message);
  std::string where;
  for (const auto id : values) where += fmt::format("{}{}", where.empty() ? "" : ", ", id);
  for (const auto id : ops) where += fmt::format("{}{}", where.empty() ? "" : ", ", id);
  if (!where.empty()) out += fmt::format(" [{}]", where);
  if (measured && limit) {
    out += fmt::format(" (got {}, limit {})", *measured, *limit);
  } else if (measured) {
    out += fmt::format(" (got {})", *measured);
  }
  if (!remedy.empty()) out += fmt::format(". Remedy: {}", remedy);
  if (!log.empty()) out += "\n" + log;
  return out;
}

std::string Error::json() const {
  std::string out =
      fmt::format("{{\"kind\":{},\"message\":{},\"remedy\":{},\"values\":{},\"ops\":{}",
                  json_string(name_of(kind)), json_string(message), json_string(remedy),
                  json_ids(values), json_ids(ops));
  if (measured) out += fmt::format(",\"measured\":{}", *measured);
  if (limit) out += fmt::format(",\"limit\":{}", *limit);
  if (!log.empty()) out += fmt::format(",\"log\":{}", json_string(log));
  if (const auto position = position_of(*this)) {
    if (!position->file.empty()) out += fmt::format(",\"file\":{}", json_string(position->file));
    out += fmt::format(",\"line\":{},\"column\":{}", position->line, position->column);
  }
  return out + "}";
}

bool ends_the_work(const Error& error) {
  return error.kind == ErrorKind::kInternalError || error.kind == ErrorKind::kCancelled;
}

void throw_error(Error error) { throw SinterException(std::move(error)); }

Error no_host_memory() {
  return {.kind = ErrorKind::kResourceExhausted,
          .message = "the process has no memory left",
          .remedy = "free host memory, or choose smaller extents"};
}

void throw_internal(std::string_view condition, std::string_view message,
                    std::source_location where) {
  throw_error(
      {.kind = ErrorKind::kInternalError,
       .message = fmt::format("{} does not hold at {}:{}{}{}", condition, where.file_name(),
                              where.line(), message.empty() ? "" : ": ", message),
       .remedy = "this is a defect in Sinter: please report it with the fusion that caused it"});
}

}  // namespace sinter
