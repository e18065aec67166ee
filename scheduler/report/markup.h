#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sinter {

// Names come from callers and may hold anything. What these functions return is well-formed UTF-8:
// bytes that are none become U+FFFD, control characters blanks.

/// Text for an element or a quoted attribute of XML.
std::string xml_escaped(std::string_view text);

/// Text between the quotes of a string of Graphviz.
std::string dot_escaped(std::string_view text);

/// The first characters of a text, with "…" in the place of the rest if there are more than `most`,
/// which is at least 1.
std::string shortened(std::string_view text, size_t most);

/// Characters of a text, an ill-formed byte counting as one.
size_t character_count(std::string_view text);

}  // namespace sinter
