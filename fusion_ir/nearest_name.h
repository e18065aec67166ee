#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace sinter {

/// Edits that make `a` into `b`: insertions, deletions, replacements, and swaps of two neighbours
/// (Damerau-Levenshtein, optimal string alignment), ignoring case. Counts no further than
/// `most + 1`. Names beyond kLongestComparedName bytes are as far apart as that.
size_t edit_distance(std::string_view a, std::string_view b, size_t most);

/// Longer names are not compared: text may be hostile, and the cost is the product of the lengths.
inline constexpr size_t kLongestComparedName = 64;

/// The name that was most likely meant: the nearest of `names`, the first of several, within a
/// third of the length of `wrong` in edits, at least one. Empty if none is so near, or if the
/// nearest is `wrong` itself.
std::string_view nearest_name(std::string_view wrong, std::span<const std::string_view> names);

/// "did you mean 'add'? Otherwise use ...", as a remedy; only what follows where nothing is near.
std::string suggestion(std::string_view wrong, std::span<const std::string_view> names,
                       std::string_view otherwise);

}  // namespace sinter
