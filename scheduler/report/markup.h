#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sinter {

// Names come from callers and may contain any bytes. These functions return well-formed UTF-8:
// ill-formed bytes become U+FFFD, control characters become blanks.

/// Escapes text for an XML element or quoted attribute.
std::string xml_escaped(std::string_view text);

/// Escapes text for the inside of a quoted Graphviz string.
std::string dot_escaped(std::string_view text);

/// The first characters of a text. If it has more than `most` characters, at least 1, the rest is
/// replaced by "…".
std::string shortened(std::string_view text, size_t most);

/// Number of characters of a text; an ill-formed byte counts as one.
size_t character_count(std::string_view text);

}  // namespace sinter
