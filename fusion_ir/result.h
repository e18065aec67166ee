#pragma once

#include <tl/expected.hpp>

#include "fusion_ir/error.h"

namespace sinter {

/// Either a value or the typed reason why there is none. One alias, so that a later switch to
/// std::expected is one line.
template <class T>
using Result = tl::expected<T, Error>;

/// Builds the failing side of a Result.
inline tl::unexpected<Error> fail(Error error) { return tl::unexpected<Error>(std::move(error)); }

/// Visitor made of lambdas. The deduction guide is explicit because clang 16 still needs it.
template <class... Fs>
struct overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
overloaded(Fs...) -> overloaded<Fs...>;

}  // namespace sinter
