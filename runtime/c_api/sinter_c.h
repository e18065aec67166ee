#ifndef SINTER_RUNTIME_C_API_SINTER_C_H_
#define SINTER_RUNTIME_C_API_SINTER_C_H_

/*
 * Sinter for C and for whatever calls C: graph, plan, kernels, execution.
 *
 * Handles.   Objects are known by opaque handles, which are no addresses: they may be copied and
 *            compared, not looked into. A handle that was released, belongs to another kind of
 *            object or is no handle at all gives SINTER_INVALID_HANDLE wherever it is passed; no
 *            number is given out twice in a process. Release what a call gave you; the release
 *            of a null handle does nothing. An object lives on while a call or another object
 *            needs it.
 * Errors.    Calls return a status and take a last parameter `error`, null or the address of a
 *            handle: it is set to null, or where the call failed to an error that says more. There
 *            is no last error of a thread or of the process. A null handle beside a status other
 *            than SINTER_OK means that there was no memory left even for the error.
 * Results.   Where a call fails, the handles that it would have given are null.
 * Threads.   Every call may be made by any thread, by several at once, with the same handles. A
 *            builder's calls take turns.
 * Structs.   A struct that begins with `struct_size` has it set to sizeof by the caller, and all
 *            that the caller does not know or care for to zero, which means the default. Callers
 *            built with an older, smaller struct get the defaults of what they do not have; with a
 *            newer, larger one they are refused only where something unknown is not zero. What is
 *            filled in for the caller is filled in as far as the caller's size reaches. Sizes are
 *            multiples of 8, and at most 4096. Other structs never change.
 * Text.      Strings that are passed end with a zero byte, but for those with a size beside them.
 *            They are copied; nothing is kept of any pointer that is passed, unless said.
 * Units.     Sizes and offsets in bytes, shapes and strides in elements, times in microseconds.
 *
 * Null pointers are refused with SINTER_INVALID_ARGUMENT (null handles: SINTER_INVALID_HANDLE)
 * unless the parameter may be null by what is said of it.
 *
 * This is one file of more than 600 lines because C callers and tools that generate bindings take
 * one header. Some calls have more than six parameters: they are a part of the ABI, which stays.
 */

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SINTER_API __attribute__((visibility("default")))
#else
#define SINTER_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Changes where a caller of the older interface would no longer work; the library's SOVERSION. */
#define SINTER_ABI_VERSION 2

/* Most axes a tensor has. */
#define SINTER_MAX_RANK 8

/* One of the SINTER_* statuses below; values never change. */
typedef int32_t sinter_status;
enum {
  SINTER_OK = 0,
  SINTER_INVALID_FUSION = 1,     /* The graph, or text that describes one, is wrong. */
  SINTER_INVALID_ARGUMENT = 2,   /* An argument contradicts the graph, the plan or this header. */
  SINTER_UNSUPPORTED = 3,        /* The graph is right, but Sinter does not handle it. */
  SINTER_RESOURCE_EXHAUSTED = 4, /* Registers, shared memory, workspace, or memory of any kind. */
  SINTER_DEVICE_ERROR = 5,       /* The driver or NVRTC failed or is missing. */
  SINTER_INTERNAL_ERROR = 6,     /* A defect in Sinter. */
  SINTER_INVALID_HANDLE = 7,     /* A handle that names no live object of the kind asked for. */
  SINTER_CANCELLED = 8           /* A callback of the caller cancelled the call. */
};

typedef struct sinter_error sinter_error;       /* Why a call failed. */
typedef struct sinter_text sinter_text;         /* A string. */
typedef struct sinter_builder sinter_builder;   /* A fusion in the making. */
typedef struct sinter_fusion sinter_fusion;     /* A graph. */
typedef struct sinter_device sinter_device;     /* What a device offers, live or from a preset. */
typedef struct sinter_runtime sinter_runtime;   /* Driver, compiler and kernel cache. */
typedef struct sinter_plan sinter_plan;         /* Which kernels run a graph, and why. */
typedef struct sinter_compiled sinter_compiled; /* A plan's kernels, compiled but not loaded. */
typedef struct sinter_executable sinter_executable; /* A plan compiled and loaded on a device. */
typedef struct sinter_ranged sinter_ranged;         /* A graph prepared for ranges of sizes. */
typedef struct sinter_tuning_database sinter_tuning_database; /* Schedules that were measured. */

/* ---- Version -------------------------------------------------------------------------------- */

/* "0.1.0". Lives as long as the library. */
SINTER_API const char* sinter_version(void);
/* SINTER_ABI_VERSION of the library; compare it with the header's where the library was opened at
 * run time. */
SINTER_API uint32_t sinter_abi_version(void);
/* "InvalidFusion"; "unknown" for a number that is no status. Lives as long as the library. */
SINTER_API const char* sinter_status_name(sinter_status status);

/* ---- Errors and text ------------------------------------------------------------------------ */

/* Strings are never null, and live until the error is released. */
typedef struct sinter_error_info {
  size_t struct_size;
  sinter_status status;
  int32_t has_measured; /* Whether `measured` and `limit` mean something: 0 or 1. */
  int32_t has_limit;
  int32_t reserved;
  int64_t measured;    /* The value that broke the limit, in the limit's unit. */
  int64_t limit;       /* The limit itself. */
  const char* kind;    /* sinter_status_name(status). */
  const char* message; /* One sentence. */
  const char* remedy;  /* What the caller can do; empty if nothing is known. */
  const char* log;     /* Text of the compiler or driver, refusals of a planner; often empty. */
  const char* text;    /* All of it for people. */
  const char* json;    /* {"kind", "message", "remedy", "values", "ops", "measured", "limit", "log",
                          "line", "column"}; the last five where there are such. */
  int64_t line;        /* Of an error in text: where it is, from 1, as the message says; else 0. */
  int64_t column;      /* In bytes, from 1. */
} sinter_error_info;

/* Describes an error. These two calls give no errors of their own. */
SINTER_API sinter_status sinter_error_describe(const sinter_error* error, sinter_error_info* info);
SINTER_API sinter_status sinter_error_release(sinter_error* error);

/* The bytes of a text and how many they are, without the zero byte behind them; `size` may be null.
 * They live until the text is released. */
SINTER_API sinter_status sinter_text_view(const sinter_text* text, const char** data, size_t* size,
                                          sinter_error** error);
SINTER_API sinter_status sinter_text_release(sinter_text* text, sinter_error** error);

/* ---- Graphs --------------------------------------------------------------------------------- */

/* Reads `size` bytes of .fir text (grammar in fusion_ir/README.md). */
SINTER_API sinter_status sinter_fusion_parse(const char* text, size_t size, sinter_fusion** fusion,
                                             sinter_error** error);
/* The graph as .fir text. */
SINTER_API sinter_status sinter_fusion_print(const sinter_fusion* fusion, sinter_text** text,
                                             sinter_error** error);

typedef struct sinter_fusion_info {
  size_t struct_size;
  size_t input_count;
  size_t output_count;
  size_t symbol_count;
  size_t op_count;
  size_t value_count;
  const char* name; /* Lives until the fusion is released. */
} sinter_fusion_info;
SINTER_API sinter_status sinter_fusion_describe(const sinter_fusion* fusion,
                                                sinter_fusion_info* info, sinter_error** error);

/* A named extent, which gets its size when a plan is made. */
typedef struct sinter_symbol_info {
  size_t struct_size;
  const char* name;     /* Lives until the fusion is released. */
  int64_t hint;         /* Size where none is given; 0: none. */
  int64_t divisible_by; /* What sizes promise to be multiples of. */
} sinter_symbol_info;
SINTER_API sinter_status sinter_fusion_symbol(const sinter_fusion* fusion, size_t index,
                                              sinter_symbol_info* info, sinter_error** error);
SINTER_API sinter_status sinter_fusion_release(sinter_fusion* fusion, sinter_error** error);

/* A value of a builder, as it gave it out; refused by any other builder. The lower 32 bits are its
 * number in the graph: 3 for what .fir writes as %v3. */
typedef uint64_t sinter_value;

/* Begins a graph. */
SINTER_API sinter_status sinter_builder_create(const char* name, sinter_builder** builder,
                                               sinter_error** error);
/* Declares a named extent. `hint` 0: none; `divisible_by` 0 is 1. */
SINTER_API sinter_status sinter_builder_symbol(sinter_builder* builder, const char* name,
                                               int64_t hint, int64_t divisible_by,
                                               sinter_error** error);
/*
 * Appends an op, which is anything that .fir can say. `op` is its text there without the values:
 * "input align(4)", "constant 0x1p-3", "cast", "add", "broadcast axes(0)", "reduce.sum over(1)",
 * "slice start(0) stop(8) step(2)", "external matmul".
 *
 * types     Of the results: "bf16[rows, 4096]", "f32[rows], f32[rows]". Needed for input, constant,
 *           cast, broadcast, reshape, iota and external; may be null or empty for others, and is
 *           checked where it is not.
 * operands  Values that earlier calls gave; may be null if there are none.
 * name      Of the first result, for printed text and messages; may be null.
 * results   Gets the results; `result_count` says how many it has room for, which
 *           must be as many as the op has: 2 for welford and logsumexp, those of `types` for
 *           external, else 1.
 *
 * Operands of pointwise functions and reductions are made alike with visible ops: storage types are
 * cast to the type they are computed in, operands to their common type, shapes broadcast as in
 * NumPy. A failure may leave such casts behind, which nothing reads.
 */
SINTER_API sinter_status sinter_builder_op(sinter_builder* builder, const char* op,
                                           const char* types, const sinter_value* operands,
                                           size_t operand_count, const char* name,
                                           sinter_value* results, size_t result_count,
                                           sinter_error** error);
/* Declares a value as the next output. `layout` as behind a returned value in .fir: "strides(cols,
 * 1) align(4) alias(%v0)", each part optional; null: dense, 16 bytes, memory of its own. `name` may
 * be null. */
SINTER_API sinter_status sinter_builder_output(sinter_builder* builder, sinter_value value,
                                               const char* name, const char* layout,
                                               sinter_error** error);
/* Names a value, for printed text and messages, in place of the name it has. */
SINTER_API sinter_status sinter_builder_name(sinter_builder* builder, sinter_value value,
                                             const char* name, sinter_error** error);
/* Type and shape of a value: "f32[rows, 4096]". */
SINTER_API sinter_status sinter_builder_type(const sinter_builder* builder, sinter_value value,
                                             sinter_text** type, sinter_error** error);
/* The graph so far. The builder stays as it is and can go on. */
SINTER_API sinter_status sinter_builder_finish(const sinter_builder* builder,
                                               sinter_fusion** fusion, sinter_error** error);
SINTER_API sinter_status sinter_builder_release(sinter_builder* builder, sinter_error** error);

/* ---- Progress and log ---------------------------------------------------------------------- */

/* What is about to begin. */
enum {
  SINTER_STAGE_PLAN = 0,   /* Schedules are asked for a part of the graph. */
  SINTER_STAGE_COMPILE = 1 /* A kernel is compiled. */
};
/* Its strings live until the callback returns. */
typedef struct sinter_progress {
  size_t struct_size;
  int32_t stage; /* SINTER_STAGE_*. */
  int32_t reserved;
  size_t steps;        /* Of this stage before this one. */
  const char* family;  /* Of schedules. */
  const char* segment; /* Name of the graph that it is about. */
} sinter_progress;
/* Called before every step, by one thread at a time, though not always the one that made the call;
 * gives 1 to cancel, which ends the call with SINTER_CANCELLED, else 0. */
typedef int32_t (*sinter_progress_function)(void* user_data, const sinter_progress* progress);

/* Told what went wrong without failing a call, as one sentence: damaged entries of the cache, and
 * what could not be written to it. Called by any thread, by several at once. */
typedef void (*sinter_log_function)(void* user_data, const char* message);

/* ---- Devices and what runs them ------------------------------------------------------------- */

/* All of it may be left at zero. */
typedef struct sinter_runtime_options {
  size_t struct_size;
  const char* driver_library;  /* Null: $SINTER_LIBCUDA, or libcuda.so.1. */
  const char* nvrtc_library;   /* Null: $SINTER_NVRTC, or libnvrtc.so.13, .12, a CUDA Toolkit's. */
  const char* cache_directory; /* Of compiled kernels. Null: $SINTER_CACHE_DIR, or ~/.cache/sinter,
                                  unless $SINTER_CACHE_DISABLE; empty: in memory only. */
  int64_t max_disk_bytes;      /* 0: 1 GiB. */
  int64_t max_memory_bytes;    /* 0: 256 MiB. */
  sinter_log_function log;     /* May be null. */
  void* log_data;              /* Its `user_data`; must live as long as the runtime. */
} sinter_runtime_options;

/* A kernel cache, with driver and compiler to be opened when first asked for, so that it works, and
 * plans can be made, without a GPU. One of them serves a process; `options` may be null. */
SINTER_API sinter_status sinter_runtime_create(const sinter_runtime_options* options,
                                               sinter_runtime** runtime, sinter_error** error);
/* How many devices the driver shows. SINTER_DEVICE_ERROR where there is no driver. */
SINTER_API sinter_status sinter_runtime_device_count(sinter_runtime* runtime, int32_t* count,
                                                     sinter_error** error);
/* What the runtime's cache did since it was made. */
typedef struct sinter_cache_info {
  size_t struct_size;
  int64_t memory_hits;
  int64_t disk_hits;
  int64_t misses;         /* Compilations asked for, failed ones included. */
  int64_t damaged;        /* Entries on disk that were removed. */
  int64_t evicted;        /* Entries on disk that made room. */
  int64_t write_failures; /* Entries that could not be written. */
} sinter_cache_info;
SINTER_API sinter_status sinter_runtime_cache_info(sinter_runtime* runtime, sinter_cache_info* info,
                                                   sinter_error** error);
/* What executables of the runtime hold lives on until they are released. */
SINTER_API sinter_status sinter_runtime_release(sinter_runtime* runtime, sinter_error** error);

/* A device by the name of its preset, ignoring case, spaces, '-' and '_': A100, H100, H200, B200,
 * GB200, RTX PRO 6000, RTX 4090, L4. Needs no GPU. */
SINTER_API sinter_status sinter_device_preset(const char* name, sinter_device** device,
                                              sinter_error** error);
/* A device by `size` bytes of JSON, as sinter_device_json gives it. A field "base" names the preset
 * whose values stand for fields that are left out; without it all are needed. "cost" may have
 * constants of the cost model that differ from those of the preset: {"row": {"chunk_ns": 450}}. */
SINTER_API sinter_status sinter_device_parse(const char* json, size_t size, sinter_device** device,
                                             sinter_error** error);
/* A device of this machine, by its number. */
SINTER_API sinter_status sinter_device_query(sinter_runtime* runtime, int32_t ordinal,
                                             sinter_device** device, sinter_error** error);
/* Name, architecture, budgets and rates as a JSON object. */
SINTER_API sinter_status sinter_device_json(const sinter_device* device, sinter_text** json,
                                            sinter_error** error);
SINTER_API sinter_status sinter_device_release(sinter_device* device, sinter_error** error);

/* ---- Plans ---------------------------------------------------------------------------------- */

/* A symbol's size. */
typedef struct sinter_extent {
  const char* name;
  int64_t size;
} sinter_extent;

/* Values by name, or by number in the simplified graph ("%v12"). */
typedef struct sinter_value_group {
  const char* const* values;
  size_t count;
} sinter_value_group;

/* When a graph becomes several kernels: also where that is predicted to be faster than one that
 * runs it whole, or only if nothing does. */
enum { SINTER_CUT_FASTER = 0, SINTER_CUT_NEEDED = 1 };

/* Pins are obeyed or refused, never changed. Numbers that are 0 are left to the planner. */
typedef struct sinter_plan_options {
  size_t struct_size;
  const char* schedule; /* The whole schedule as .sched text; null: none. */
  const char* family;   /* "multi_wave"; null: any. */
  int64_t threads_per_row;
  int64_t rows_per_block;
  int64_t vector_width;
  int64_t unroll;
  const char* residency;   /* Of kept values: "register", "shared", "reload"; null: any. */
  int32_t cutting;         /* SINTER_CUT_*. */
  int32_t keep_graph;      /* 1: plan the graph as it is, without simplification. */
  const char* const* cuts; /* Values that go through memory. */
  size_t cut_count;
  const sinter_value_group* joins; /* Each: values that one kernel makes. */
  size_t join_count;
  const sinter_tuning_database* tuned; /* What was measured is used, or why not is a decision; null:
                                          nothing measured. */
  int32_t check_indices; /* 1: executions leave the indices of every "take" in the workspace, for
                            sinter_executable_check_indices. */
  int32_t cublaslt; /* 1: cuBLASLt may compute matrix products, where it is predicted to be faster
                       than kernels of Sinter. Where it cannot be opened, these are compiled. */
  sinter_progress_function progress; /* May be null. */
  void* progress_data;               /* Its `user_data`. */
  /* Once they are spent, the plan that runs the whole graph in one kernel is given if it is known
   * by then, and a decision says so; else SINTER_RESOURCE_EXHAUSTED. 0: no limit. A plan that took
   * less is the same as without. */
  double budget_seconds;
  /* A plan of the same graph for the same device at other sizes, whose cuts and schedules are taken
   * over where they fit, else SINTER_UNSUPPORTED, or SINTER_RESOURCE_EXHAUSTED where a schedule is
   * refused: not beside pins. Null: none. */
  const sinter_plan* like;
  int32_t defer_scales; /* 1: scales of rows may move behind contractions, where that is predicted
                           to be faster: sums of (x r) w become sums of x w, times r. What the graph
                           rounds after scaling is then not rounded, and sums may overflow that
                           did not. */
  int32_t no_teams;     /* 1: no kernel is chosen whose blocks wait for each other through global
                           memory.     The launch of such a kernel is cooperative: it is refused where
                           not     all of     its blocks can run at the same time. */
} sinter_plan_options;

/* Plans a graph for a device: a pure function of its arguments, which measures nothing. Symbols
 * without an extent take their hints; `extents` may be null if there are none, `options` null. */
SINTER_API sinter_status sinter_plan_create(const sinter_fusion* fusion,
                                            const sinter_device* device,
                                            const sinter_extent* extents, size_t extent_count,
                                            const sinter_plan_options* options, sinter_plan** plan,
                                            sinter_error** error);

typedef struct sinter_plan_info {
  size_t struct_size;
  size_t input_count;
  size_t output_count;
  size_t kernel_count;
  size_t external_count;   /* Calls that the embedder runs between kernels. */
  int64_t workspace_bytes; /* Device memory that an execution needs besides its tensors. */
  double predicted_us;     /* Of all kernels. */
} sinter_plan_info;
SINTER_API sinter_status sinter_plan_describe(const sinter_plan* plan, sinter_plan_info* info,
                                              sinter_error** error);

/* DLDataType, field for field. */
typedef struct sinter_dtype {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} sinter_dtype;

/* A tensor that an execution takes: inputs, then outputs, in the order of the graph's. */
typedef struct sinter_tensor_info {
  size_t struct_size;
  const char*
      name; /* May be empty. Lives until the plan or executable that was asked is released. */
  const char* type;   /* Name of the element type: "bf16". Lives as long as the library. */
  sinter_dtype dtype; /* The same as in DLPack. */
  uint32_t value;     /* Its number in the planned graph, as messages name it. */
  int32_t rank;
  int32_t alias;     /* Of an output: the input whose memory it takes over; else -1. */
  int64_t alignment; /* Of the address of the first element. */
  int64_t shape[SINTER_MAX_RANK];
  int64_t strides[SINTER_MAX_RANK];
} sinter_tensor_info;
SINTER_API sinter_status sinter_plan_input(const sinter_plan* plan, size_t index,
                                           sinter_tensor_info* info, sinter_error** error);
SINTER_API sinter_status sinter_plan_output(const sinter_plan* plan, size_t index,
                                            sinter_tensor_info* info, sinter_error** error);

/* One kernel of a plan, as estimated. */
typedef struct sinter_kernel_info {
  size_t struct_size;
  double predicted_us;
  int64_t threads; /* Of a block. */
  int64_t blocks;
  int64_t registers;    /* Of a thread. */
  int64_t shared_bytes; /* Of a block. */
  int64_t bytes_read;
  int64_t bytes_written;
} sinter_kernel_info;
SINTER_API sinter_status sinter_plan_kernel(const sinter_plan* plan, size_t index,
                                            sinter_kernel_info* info, sinter_error** error);
/* CUDA C++ of a kernel; it includes device headers of Sinter by name. */
SINTER_API sinter_status sinter_plan_kernel_cuda(const sinter_plan* plan, size_t index,
                                                 sinter_text** cuda, sinter_error** error);
/* Its schedule as .sched text, which sinter_plan_options::schedule takes. */
SINTER_API sinter_status sinter_plan_kernel_schedule(const sinter_plan* plan, size_t index,
                                                     sinter_text** schedule, sinter_error** error);
/* The simplified graph, as planned, as .fir text. */
SINTER_API sinter_status sinter_plan_print(const sinter_plan* plan, sinter_text** text,
                                           sinter_error** error);
/* The plan as text that sinter_plan_load() reads back, in every process and on every machine with
 * the same version of the library: what runs, without the candidates that were not chosen and
 * without reasons. */
SINTER_API sinter_status sinter_plan_save(const sinter_plan* plan, sinter_text** text,
                                          sinter_error** error);
/* Reads `size` bytes that sinter_plan_save() wrote. Nothing is chosen or measured. Errors:
 * SINTER_INVALID_ARGUMENT (no such text, another version, a plan that breaks an invariant),
 * SINTER_INVALID_FUSION, SINTER_UNSUPPORTED (a schedule that is not legal). */
SINTER_API sinter_status sinter_plan_load(const char* text, size_t size, sinter_plan** plan,
                                          sinter_error** error);
/* What was chosen and why, on one screen. */
SINTER_API sinter_status sinter_plan_explain(const sinter_plan* plan, sinter_text** text,
                                             sinter_error** error);
/* The same as a JSON object: kernels with schedules, estimates and predictions, decisions with all
 * that was weighed, rejections with their numbers, cuts. */
SINTER_API sinter_status sinter_plan_explain_json(const sinter_plan* plan, sinter_text** json,
                                                  sinter_error** error);
/* What differs between two plans, for people; `equal` gets 1 if nothing does, else 0. Either may be
 * null. */
SINTER_API sinter_status sinter_plan_diff(const sinter_plan* a, const sinter_plan* b,
                                          int32_t* equal, sinter_text** text, sinter_error** error);
/* How a plan is drawn: as an SVG document, or as text for Graphviz. */
enum { SINTER_DRAWING_SVG = 0, SINTER_DRAWING_DOT = 1 };
/* A picture of the kernels and calls, and of what passes between them. */
SINTER_API sinter_status sinter_plan_draw(const sinter_plan* plan, int32_t form,
                                          sinter_text** drawing, sinter_error** error);
SINTER_API sinter_status sinter_plan_release(sinter_plan* plan, sinter_error** error);

/* ---- Compilation ---------------------------------------------------------------------------- */

/* All of it may be left at zero. */
typedef struct sinter_compile_options {
  size_t struct_size;
  int32_t threads;                   /* Kernels compiled at once; 0: 1. */
  int32_t forbid_replanning;         /* As in sinter_prepare_options. */
  sinter_progress_function progress; /* May be null. */
  void* progress_data;               /* Its `user_data`. */
  double budget_seconds; /* No kernel is begun after so many: SINTER_RESOURCE_EXHAUSTED. 0: no
                            limit. */
} sinter_compile_options;

/* Compiles a plan's kernels for the plan's device, which need not be in this machine: there need be
 * no GPU and no driver. They come from the runtime's cache where it has them. `options` may be
 * null. */
SINTER_API sinter_status sinter_plan_compile(sinter_runtime* runtime, const sinter_plan* plan,
                                             const sinter_compile_options* options,
                                             sinter_compiled** compiled, sinter_error** error);
typedef struct sinter_compiled_info {
  size_t struct_size;
  size_t kernel_count;
  size_t compiled_count; /* Kernels that were in no cache. */
  double predicted_us;   /* Of all kernels, with the compiled resources. */
} sinter_compiled_info;
SINTER_API sinter_status sinter_compiled_describe(const sinter_compiled* compiled,
                                                  sinter_compiled_info* info, sinter_error** error);
/* One kernel, as the compiler left it. Pointers live until the object is released. */
typedef struct sinter_compiled_kernel_info {
  size_t struct_size;
  const char* entry;        /* Its extern "C" name. */
  const char* architecture; /* "sm_90a" */
  const void* cubin;        /* An ELF image for cuModuleLoadData. */
  size_t cubin_bytes;
  int64_t registers; /* Of a thread. */
  int64_t spill_store_bytes;
  int64_t spill_load_bytes;
  int64_t stack_bytes;
  int64_t shared_bytes; /* Of a block, those that are asked for at the launch left out. */
  int64_t threads;      /* Of a block. */
  double predicted_us;  /* With the compiled resources. */
} sinter_compiled_kernel_info;
SINTER_API sinter_status sinter_compiled_kernel(const sinter_compiled* compiled, size_t index,
                                                sinter_compiled_kernel_info* info,
                                                sinter_error** error);
/* CUDA C++ of a kernel, as compiled. */
SINTER_API sinter_status sinter_compiled_kernel_cuda(const sinter_compiled* compiled, size_t index,
                                                     sinter_text** cuda, sinter_error** error);
/* As sinter_executable_explain_json. */
SINTER_API sinter_status sinter_compiled_explain_json(const sinter_compiled* compiled,
                                                      sinter_text** json, sinter_error** error);
SINTER_API sinter_status sinter_compiled_release(sinter_compiled* compiled, sinter_error** error);

/* ---- Tensors -------------------------------------------------------------------------------- */

/*
 * DLPack 1.x. Where dlpack/dlpack.h was included before this header its own types are used, so that
 * they pass without a cast; else these, which are the same field for field.
 */
#ifdef DLPACK_DLPACK_H_
typedef DLTensor sinter_dl_tensor;
#else
typedef struct sinter_dl_device {
  int32_t device_type; /* 2: CUDA, 13: CUDA managed memory; 1: CPU. */
  int32_t device_id;
} sinter_dl_device;
typedef struct sinter_dl_tensor {
  void* data; /* Device address. */
  sinter_dl_device device;
  int32_t ndim;
  sinter_dtype dtype; /* code 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 10 float8_e4m3fn, 12
                         float8_e5m2. */
  int64_t* shape;
  int64_t* strides;     /* Null: dense row-major. */
  uint64_t byte_offset; /* From `data` to the first element. */
} sinter_dl_tensor;
#endif

#if defined(DLPACK_DLPACK_H_) && defined(DLPACK_MAJOR_VERSION)
typedef DLManagedTensorVersioned sinter_dl_managed_tensor;
#else
typedef struct sinter_dl_version {
  uint32_t major;
  uint32_t minor;
} sinter_dl_version;
typedef struct sinter_dl_managed_tensor {
  sinter_dl_version version;
  void* manager_ctx;
  void (*deleter)(struct sinter_dl_managed_tensor* self);
  uint64_t flags; /* Bit 0: read-only. */
  sinter_dl_tensor dl_tensor;
} sinter_dl_managed_tensor;
#endif

/* A tensor of the caller, as exactly one of two pointers; the other is null. It is borrowed: its
 * deleter is never called, and the caller keeps its memory until the work on the stream is over. */
typedef struct sinter_tensor {
  const sinter_dl_tensor* plain; /* Also that within a DLManagedTensor. */
  const sinter_dl_managed_tensor* versioned;
} sinter_tensor;

/* ---- Execution ------------------------------------------------------------------------------ */

/* An `external` op of the graph, to be run by the embedder. All of it is valid until the callback
 * returns. */
typedef struct sinter_external_request {
  size_t struct_size;
  const char* name;
  const sinter_dl_tensor* inputs;
  size_t input_count;
  const sinter_dl_tensor* outputs; /* To be written, all of each. */
  size_t output_count;
  void* stream;        /* CUstream. */
  char* message;       /* The callback may write why it failed here, */
  size_t message_size; /* with the zero byte in as many bytes. */
} sinter_external_request;

/* Enqueues an external call on the request's stream. May be called by any thread that executes, by
 * several at once, and while the stream is captured: it then must not allocate or synchronise. A
 * status other than SINTER_OK ends the execution. */
typedef sinter_status (*sinter_external_function)(void* user_data,
                                                  const sinter_external_request* request);

typedef struct sinter_prepare_options {
  size_t struct_size;
  int32_t device;            /* Number of the device to load on. */
  int32_t check_addresses;   /* 1: ask the driver at every execution whether each address belongs to
                                the device. */
  int32_t compile_threads;   /* Kernels compiled at once; 0: 1. */
  int32_t forbid_replanning; /* 1: where compiled kernels spill or take more registers than planned,
                                do not try other schedules. */
  sinter_external_function external; /* Needed where the graph has external calls. */
  void* external_data;               /* Its `user_data`; must live as long as the executable. */
  sinter_progress_function progress; /* Of compiling; may be null. */
  void* progress_data;               /* Its `user_data`; must live as long as the executable. */
  double budget_seconds;             /* Of compiling, as in sinter_compile_options. */
} sinter_prepare_options;

/* Compiles a plan's kernels with NVRTC, or takes them from the cache, and loads them. `options` may
 * be null: the first device. */
SINTER_API sinter_status sinter_executable_prepare(sinter_runtime* runtime, const sinter_plan* plan,
                                                   const sinter_prepare_options* options,
                                                   sinter_executable** executable,
                                                   sinter_error** error);

typedef struct sinter_executable_info {
  size_t struct_size;
  size_t input_count;
  size_t output_count;
  size_t kernel_count;
  size_t compiled_count;   /* Kernels that were in no cache. */
  int64_t workspace_bytes; /* Device memory that an execution needs besides its tensors. */
  double predicted_us;     /* Of all kernels, with the compiled resources. */
  int32_t device;
  int32_t reserved;
} sinter_executable_info;
SINTER_API sinter_status sinter_executable_describe(const sinter_executable* executable,
                                                    sinter_executable_info* info,
                                                    sinter_error** error);
SINTER_API sinter_status sinter_executable_input(const sinter_executable* executable, size_t index,
                                                 sinter_tensor_info* info, sinter_error** error);
SINTER_API sinter_status sinter_executable_output(const sinter_executable* executable, size_t index,
                                                  sinter_tensor_info* info, sinter_error** error);
/* The plan as compiled, in the form of sinter_plan_explain_json, with "compiled": registers, spills
 * and what else was tried, of every kernel. */
SINTER_API sinter_status sinter_executable_explain_json(const sinter_executable* executable,
                                                        sinter_text** json, sinter_error** error);
/* CUDA C++ of a kernel, as compiled. */
SINTER_API sinter_status sinter_executable_kernel_cuda(const sinter_executable* executable,
                                                       size_t index, sinter_text** cuda,
                                                       sinter_error** error);

/* Gives `bytes` > 0 of device memory, at a multiple of 256, for work that is enqueued on `stream`
 * from here on. Any status but SINTER_OK ends the execution before anything is enqueued. */
typedef sinter_status (*sinter_allocate_function)(void* user_data, int64_t bytes, void* stream,
                                                  void** address);
/* Takes it back: it is free for others behind what was enqueued on `stream`. */
typedef void (*sinter_free_function)(void* user_data, void* address, void* stream);

typedef struct sinter_execute_args {
  size_t struct_size;
  const sinter_tensor* inputs; /* In the order of the graph's. */
  size_t input_count;
  const sinter_tensor* outputs;
  size_t output_count;
  void* stream;    /* CUstream; null: the legacy default stream. */
  void* workspace; /* Device address, a multiple of 256; may be null where none is needed. */
  int64_t workspace_bytes;           /* At least those of sinter_executable_info. */
  sinter_allocate_function allocate; /* With `release`, in place of a workspace; else null. */
  sinter_free_function release;
  void* allocator_data; /* Their `user_data`. */
} sinter_execute_args;

/*
 * Enqueues the kernels on the stream and returns. Tensors are checked before anything is enqueued:
 * their number, DLPack version, device, type, rank, shape, strides, address, read-only flags of
 * outputs, overlaps. Allocates no device memory and waits for nothing, so the stream may be
 * captured. The device's primary context need not be current. Executions that may run at once have
 * workspaces that share no byte.
 */
SINTER_API sinter_status sinter_executable_execute(const sinter_executable* executable,
                                                   const sinter_execute_args* args,
                                                   sinter_error** error);
/*
 * Whether every "take" of the graph got indices inside of its axis in the execution that used this
 * workspace last, of a plan with sinter_plan_options::check_indices. The caller has synchronised
 * with the execution, or with the replay of a graph captured of it, and nothing has written to the
 * workspace since. An index outside gives SINTER_INVALID_ARGUMENT: `measured` is the index, `limit`
 * the elements of the axis, the message names the take, its index and the position by numbers of
 * the graph as it was built, and the log has a line for each take. Copies the indices to the host.
 * `workspace` may be null where none is needed. An allocator keeps no workspace until then, so
 * executions of such a plan refuse one.
 */
SINTER_API sinter_status sinter_executable_check_indices(const sinter_executable* executable,
                                                         const void* workspace,
                                                         int64_t workspace_bytes,
                                                         sinter_error** error);
/* When no call uses it any more the executable waits for its device, since its kernels may still
 * run, and unloads them. A graph captured of an execution needs it for as long as it is replayed;
 * do not release under stream capture. */
SINTER_API sinter_status sinter_executable_release(sinter_executable* executable,
                                                   sinter_error** error);

/* ---- Ranges of sizes ------------------------------------------------------------------------ */

/* Sizes that a symbol may take, both ends among them; of these the multiples of what the symbol
 * promises to be divisible by are meant. */
typedef struct sinter_extent_range {
  const char* name;
  int64_t least;
  int64_t most;
} sinter_extent_range;

/* Which plans the sizes of a range get: that of the first sizes wherever it fits, or each its own,
 * the fastest for it. */
enum { SINTER_RANGE_ONE_PLAN = 0, SINTER_RANGE_PLAN_EACH = 1 };
/* What becomes of sizes outside the ranges: SINTER_INVALID_ARGUMENT, or a plan of their own. */
enum { SINTER_OUTSIDE_REFUSE = 0, SINTER_OUTSIDE_PLAN = 1 };

/* All of it may be left at zero. */
typedef struct sinter_ranged_options {
  size_t struct_size;
  const sinter_extent*
      fixed; /* Sizes of symbols without a range; those left out take their hint. */
  size_t fixed_count;
  const sinter_extent* first; /* Where is planned at once; symbols left out take their most. */
  size_t first_count;
  int32_t plans;         /* SINTER_RANGE_*. */
  int32_t outside;       /* SINTER_OUTSIDE_*. */
  double slower_at_most; /* Sizes for which the one plan is predicted to take longer than this
                            multiple of their own get that; at least 1. 0: never. */
  size_t kept;           /* Executables at hand at most; 0: 16. */
} sinter_ranged_options;

/*
 * Prepares a graph for all sizes of its ranges. Each set of sizes is prepared when it is first
 * asked for, and kept; kernels whose sizes differ in the outermost axes alone are compiled once.
 * What is wrong with the graph, the device or the first sizes is known at once, other sizes may
 * fail each for itself. `device` is that of `prepare_options`, or one like it; `plan_options` and
 * `prepare_options` hold for every size, so their callbacks must live as long; time budgets are for
 * single calls, and refused. Options may be null.
 */
SINTER_API sinter_status sinter_ranged_prepare(
    sinter_runtime* runtime, const sinter_fusion* fusion, const sinter_device* device,
    const sinter_extent_range* ranges, size_t range_count, const sinter_plan_options* plan_options,
    const sinter_prepare_options* prepare_options, const sinter_ranged_options* options,
    sinter_ranged** ranged, sinter_error** error);
/* The executable for these sizes, which is prepared if it is not at hand: ask before a stream is
 * captured. Symbols with a single size may be left out. */
SINTER_API sinter_status sinter_ranged_at(sinter_ranged* ranged, const sinter_extent* extents,
                                          size_t extent_count, sinter_executable** executable,
                                          sinter_error** error);
/* Executes at the sizes that the tensors have, which must agree with each other, as
 * sinter_executable_execute() does. The workspace is as large as that of the executable for these
 * sizes; with an allocator nobody need know. */
SINTER_API sinter_status sinter_ranged_execute(sinter_ranged* ranged,
                                               const sinter_execute_args* args,
                                               sinter_error** error);
typedef struct sinter_ranged_info {
  size_t struct_size;
  int64_t uses;     /* Times that sizes in the ranges were asked for. */
  int64_t plans;    /* Times that they had to be planned, failures included. */
  int64_t shared;   /* Of these, followed the plan of the first sizes. */
  int64_t failures; /* Plans that could not be made, compiled or prepared. */
  int64_t dropped;  /* Executables that made room for others. */
  size_t kept;      /* Executables at hand. */
} sinter_ranged_info;
SINTER_API sinter_status sinter_ranged_describe(const sinter_ranged* ranged,
                                                sinter_ranged_info* info, sinter_error** error);
/* The same for people, with the sizes at hand and why some have a plan of their own. */
SINTER_API sinter_status sinter_ranged_report(const sinter_ranged* ranged, sinter_text** text,
                                              sinter_error** error);
/* Executables that sinter_ranged_at() gave live on. Waits as sinter_executable_release() does. */
SINTER_API sinter_status sinter_ranged_release(sinter_ranged* ranged, sinter_error** error);

/* ---- Tuning --------------------------------------------------------------------------------- */

/* A file is only read; is written too; is made where there is none. */
enum { SINTER_TUNING_READ = 0, SINTER_TUNING_WRITE = 1, SINTER_TUNING_CREATE = 2 };

/* Opens a database of measured schedules, an SQLite file that any number of processes may use.
 * Measurements go by the runtime's NVRTC. A file that is damaged, or is something else, is
 * SINTER_INVALID_ARGUMENT and stays as it is; SINTER_UNSUPPORTED where there is no libsqlite3. */
SINTER_API sinter_status sinter_tuning_database_open(sinter_runtime* runtime, const char* path,
                                                     int32_t mode,
                                                     sinter_tuning_database** database,
                                                     sinter_error** error);
SINTER_API sinter_status sinter_tuning_database_release(sinter_tuning_database* database,
                                                        sinter_error** error);

/* Where tuning is. */
typedef struct sinter_tune_progress {
  size_t struct_size;
  size_t segment; /* That is tuned now, from 1, of so many. */
  size_t segment_count;
  size_t candidate; /* Measured of it so far, of so many. */
  size_t candidate_count;
  double untuned_us; /* Of the planner's choice. */
  double best_us;    /* Of the best confirmed so far. */
  double seconds;    /* Spent of the budget. */
  double budget_seconds;
} sinter_tune_progress;
/* Called on the thread that tunes; gives 1 to cancel, which keeps the best so far, else 0. */
typedef int32_t (*sinter_tune_function)(void* user_data, const sinter_tune_progress* progress);

/* All of it may be left at zero. */
typedef struct sinter_tune_options {
  size_t struct_size;
  int32_t device;                   /* Its number. */
  int32_t samples;                  /* Of each median, at least 15; 0: 15. */
  size_t top;                       /* Candidates of each segment; 0: 16. */
  double budget_seconds;            /* Compilation included; 0: 60. */
  uint64_t seed;                    /* Of the random inputs. */
  void* stream;                     /* Of the caller: refused while it is captured. */
  sinter_tune_function progress;    /* May be null. */
  void* progress_data;              /* Its `user_data`. */
  sinter_tuning_database* database; /* That keeps the result; null: nothing is kept. */
} sinter_tune_options;

/* Why tuning ended. */
enum {
  SINTER_TUNE_FINISHED = 0,
  SINTER_TUNE_BUDGET = 1,
  SINTER_TUNE_CANCELLED = 2,
  SINTER_TUNE_DEVICE = 3 /* The device failed, or a launch did not end; the report says which. */
};
typedef struct sinter_tune_info {
  size_t struct_size;
  size_t segment_count;  /* Of the plan, those that have a choice. */
  size_t measured_count; /* Of these. */
  size_t wrong_count;    /* Candidates with wrong results: defects, which are never chosen. */
  int32_t ended;         /* SINTER_TUNE_*. */
  int32_t is_hanging;    /* A launch did not end: end the process. */
  double tuned_us;       /* Sum over the segments; 0 where one was not measured. */
  double untuned_us;
  double seconds;
  /* The first segment that was not measured, as a kernel's name and why, cut where it is longer;
   * empty: all were. The report names all of them (`unmeasured`). */
  char unmeasured[256];
} sinter_tune_info;

/*
 * Plans a graph for a device of this machine and measures the best predicted schedules of each of
 * its segments there, on random inputs in memory of its own; the planner's choice stays unless
 * another is right and faster by more than the noise. Refused under stream capture, and with a time
 * budget in `plan_options`. What ends it early is in `info`, and the best confirmed is kept.
 * `options`, `info` and `json`, which gets every measurement, may be null.
 */
SINTER_API sinter_status sinter_tune(sinter_runtime* runtime, const sinter_fusion* fusion,
                                     const sinter_extent* extents, size_t extent_count,
                                     const sinter_plan_options* plan_options,
                                     const sinter_tune_options* options, sinter_tune_info* info,
                                     sinter_text** json, sinter_error** error);

/* ---- Execution without a GPU ---------------------------------------------------------------- */

/* All of it may be left at zero. */
typedef struct sinter_host_options {
  size_t struct_size;
  uint64_t seed;   /* Of the order in which warps and blocks take turns. */
  int32_t threads; /* Of the host that run blocks; 0: 1. */
  int32_t reserved;
  sinter_external_function external; /* Needed where the plan has external calls. It runs on the
                                        calling thread; tensors of its request lie in host memory
                                        (DLPack device type 1), and its stream is null. */
  void* external_data;               /* Its `user_data`. */
} sinter_host_options;

/*
 * Runs a plan's kernels in the interpreter, one after the other, on tensors in host memory (DLPack
 * device type 1, CPU), and returns when all is written. Needs no GPU, driver or compiler, and takes
 * some thousand times as long as a GPU. Tensors are checked as sinter_executable_execute() does,
 * but for overlaps: inputs are copied before anything is written. Addresses of any alignment will
 * do. An output that takes over the memory of an input (sinter_tensor_info::alias) is written where
 * the output's tensor lies, and the input stays as it was where that is another.
 *
 * What the interpreter finds wrong with a kernel - accesses out of bounds, races, deadlocks - is a
 * defect in Sinter: SINTER_INTERNAL_ERROR with a line for each finding in the log; the outputs are
 * then left as they were. An external call without a function is SINTER_INVALID_ARGUMENT. An index
 * of a "take" outside of its axis gives 0, as anywhere; of a plan with
 * sinter_plan_options::check_indices it is SINTER_INVALID_ARGUMENT, as
 * sinter_executable_check_indices() gives it, after the outputs are written. `options` may be null.
 */
SINTER_API sinter_status
sinter_plan_execute_on_host(const sinter_plan* plan, const sinter_tensor* inputs,
                            size_t input_count, const sinter_tensor* outputs, size_t output_count,
                            const sinter_host_options* options, sinter_error** error);

/* ---- Checks --------------------------------------------------------------------------------- */

/* All of it may be left at zero. */
typedef struct sinter_check_options {
  size_t struct_size;
  uint64_t seed;   /* Of sample data, and of the order in which warps and blocks take turns. */
  int32_t threads; /* Of the host that run blocks; 0: 1. */
  int32_t reserved;
  const char* const* data; /* Kinds of sample data, "constant in rows"; null: ordinary data, then as
                              many hard kinds as such sizes can afford. */
  size_t data_count;
} sinter_check_options;

typedef struct sinter_check_info {
  size_t struct_size;
  int32_t passed; /* 1 where nothing below is wrong. */
  int32_t reserved;
  size_t data_sets;      /* Looked at; the check ends at the first that shows something wrong. */
  size_t finding_count;  /* What the interpreter found wrong with kernels: defects in Sinter. */
  size_t mismatch_count; /* Outputs that are wrong: defects too. */
  size_t outside_count;  /* Of a plan that checks indices: takes with an index outside of its axis,
                            which are the caller's mistake and pass. */
  double worst_error_over_bound;
} sinter_check_info;

/*
 * Holds a plan against the graph that it was made of: runs its kernels in the interpreter, as
 * sinter_plan_execute_on_host() does, evaluates the graph in double precision with bounds of what
 * rounding may do, and compares. On `inputs`, tensors in host memory; or, where they are null and
 * none, on sample data. Something wrong is no failure of the call: `info` and `report`, with a line
 * for each, say so; both may be null, and `options`. Graphs with external calls are
 * SINTER_UNSUPPORTED: nothing says what the calls compute.
 */
SINTER_API sinter_status sinter_plan_check(const sinter_plan* plan, const sinter_tensor* inputs,
                                           size_t input_count, const sinter_check_options* options,
                                           sinter_check_info* info, sinter_text** report,
                                           sinter_error** error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SINTER_RUNTIME_C_API_SINTER_C_H_ */
