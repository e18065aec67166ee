#pragma once

#include <new>
#include <stdexcept>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

#include "fusion_ir/error.h"

namespace sinter {

/// Either a value or the typed reason why there is none. One alias, so that a later switch to
/// std::expected is one line.
template <class T>
using Result = tl::expected<T, Error>;

/// Builds the failing side of a Result.
inline tl::unexpected<Error> fail(Error error) { return tl::unexpected<Error>(std::move(error)); }

/// Runs the body of a function that returns a Result, which so throws nothing of Sinter's own: a
/// SinterException becomes the error it carries, and host memory that is missing, or cannot exist,
/// ResourceExhausted. What a function of the caller's throws beside that gets out.
template <class Body>
auto as_result(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const SinterException& exception) {
    return fail(exception.error());
  } catch (const std::bad_alloc&) {
    return fail(no_host_memory());
  } catch (const std::length_error&) {
    return fail(no_host_memory());
  }
}

/// What a Result holds; its error as a SinterException.
template <class T>
T taken(Result<T> result) {
  if (!result) throw_error(std::move(result).error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// Visitor made of lambdas. The deduction guide is explicit because clang 16 still needs it.
template <class... Fs>
struct overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
overloaded(Fs...) -> overloaded<Fs...>;

}  // namespace sinter
