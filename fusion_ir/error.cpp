#include "fusion_ir/error.h"

namespace sinter {
namespace {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
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
  if (!remedy.empty()) out += fmt::format(" Remedy: {}", remedy);
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
  return out + "}";
}

void throw_error(Error error) { throw SinterException(std::move(error)); }

void throw_internal(std::string_view condition, std::string_view message,
                    std::source_location where) {
  throw_error(
      {.kind = ErrorKind::kInternalError,
       .message = fmt::format("{} does not hold at {}:{}{}{}", condition, where.file_name(),
                              where.line(), message.empty() ? "" : ": ", message),
       .remedy = "this is a defect in Sinter: please report it with the fusion that caused it"});
}

}  // namespace sinter
