#include "tests/campaign/worker.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace sinter {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;  // Shadow memory takes terabytes of addresses.
#else
constexpr bool kIsSanitized = false;
#endif

/// False at the end of the stream.
bool read_all(int from, char* to, size_t size) {
  while (size > 0) {
    const ssize_t got = read(from, to, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

bool write_all(int to, const char* from, size_t size) {
  while (size > 0) {
    const ssize_t put = write(to, from, size);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    from += put;
    size -= static_cast<size_t>(put);
  }
  return true;
}

std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw std::runtime_error("no pipe could be made");
  return ends;
}

/// What the process of a worker does until there are no more orders.
[[noreturn]] void serve(const Worker::Work& work, const WorkLimits& limits, int orders,
                        int results) {
  if (!kIsSanitized) {
    const rlimit bytes{static_cast<rlim_t>(limits.bytes), static_cast<rlim_t>(limits.bytes)};
    setrlimit(RLIMIT_AS, &bytes);
  }
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  uint64_t piece = 0;
  while (read_all(orders, std::bit_cast<char*>(&piece), sizeof piece)) {
    const std::string text = work(piece);
    const uint64_t size = text.size();
    if (!write_all(results, std::bit_cast<const char*>(&size), sizeof size) ||
        !write_all(results, text.data(), text.size()))
      break;
  }
  // Nothing of the parent's is to be flushed or destroyed a second time.
  _exit(0);
}

}  // namespace

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Worker::Worker(Worker&& other) noexcept
    : work_(std::move(other.work_)),
      limits_(other.limits_),
      process_(std::exchange(other.process_, -1)),
      orders_(std::exchange(other.orders_, -1)),
      results_(std::exchange(other.results_, -1)),
      piece_(std::exchange(other.piece_, std::nullopt)),
      started_(other.started_),
      cpu_at_start_(other.cpu_at_start_),
      received_(std::move(other.received_)) {}

Worker::~Worker() { end(); }

void Worker::launch() {
  const std::array<int, 2> orders = make_pipe();
  const std::array<int, 2> results = make_pipe();
  process_ = fork();
  if (process_ < 0) throw std::runtime_error("no process could be started");
  if (process_ == 0) {
    close(orders[1]);
    close(results[0]);
    serve(work_, limits_, orders[0], results[1]);
  }
  close(orders[0]);
  close(results[1]);
  orders_ = orders[1];
  results_ = results[0];
  received_.clear();
}

void Worker::end() {
  if (process_ < 0) return;
  close(orders_);
  close(results_);
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
  process_ = orders_ = results_ = -1;
}

void Worker::start(uint64_t piece) {
  if (process_ < 0) launch();
  piece_ = piece;
  started_ = steady_seconds();
  cpu_at_start_ = cpu_of_process();
  if (write_all(orders_, std::bit_cast<const char*>(&piece), sizeof piece)) return;
  // It ended between two pieces.
  end();
  launch();
  write_all(orders_, std::bit_cast<const char*>(&piece), sizeof piece);
}

double Worker::cpu_of_process() const {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(process_, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0.0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

WorkResult Worker::failed(std::string failure) {
  end();
  piece_.reset();
  return {.text = {}, .cpu_seconds = 0.0, .failure = std::move(failure)};
}

std::optional<WorkResult> Worker::poll() {
  pollfd waiting{.fd = results_, .events = POLLIN, .revents = 0};
  while (::poll(&waiting, 1, 0) > 0) {
    std::array<char, 65536> buffer{};
    const ssize_t got = read(results_, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      int status = 0;
      waitpid(process_, &status, 0);
      const std::string how = WIFSIGNALED(status)
                                  ? fmt::format("ended by signal {} ({})", WTERMSIG(status),
                                                strsignal(WTERMSIG(status)))
                                  : fmt::format("ended with status {}", WEXITSTATUS(status));
      close(orders_);
      close(results_);
      process_ = orders_ = results_ = -1;
      return failed(how);
    }
    received_.append(buffer.data(), static_cast<size_t>(got));
    uint64_t size = 0;
    if (received_.size() < sizeof size) continue;
    std::memcpy(&size, received_.data(), sizeof size);
    if (received_.size() < sizeof size + size) continue;
    WorkResult result{.text = received_.substr(sizeof size),
                      .cpu_seconds = cpu_of_process() - cpu_at_start_};
    received_.clear();
    piece_.reset();
    return result;
  }
  if (cpu_of_process() - cpu_at_start_ > limits_.cpu_seconds)
    return failed(fmt::format("took more than {} s of CPU time", limits_.cpu_seconds));
  if (steady_seconds() - started_ > limits_.wall_seconds)
    return failed(fmt::format("took more than {} s", limits_.wall_seconds));
  return std::nullopt;
}

void wait_for_any(const std::vector<Worker>& workers, int milliseconds) {
  std::vector<pollfd> waiting;
  for (const Worker& worker : workers) {
    if (worker.is_busy())
      waiting.push_back({.fd = worker.descriptor(), .events = POLLIN, .revents = 0});
  }
  ::poll(waiting.data(), waiting.size(), milliseconds);
}

WorkResult run_isolated(const std::function<std::string()>& work, const WorkLimits& limits) {
  std::vector<Worker> workers;
  workers.emplace_back([&work](uint64_t) { return work(); }, limits);
  workers.front().start(0);
  while (true) {
    if (auto result = workers.front().poll()) return std::move(*result);
    constexpr int kPatience = 100;  // Milliseconds between looks at the clock.
    wait_for_any(workers, kPatience);
  }
}

}  // namespace sinter
