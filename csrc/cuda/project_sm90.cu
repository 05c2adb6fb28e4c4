// The projection's matrix product for Hopper: CUTLASS's warp-specialised mainloop, one warp group fetching tiles by
// TMA, two multiplying them by WGMMA, and an epilogue that leaves each row's share of the sum of squares behind.
//
// RMSNorm needs whole rows, and a row of 4096 or 5120 columns spans more tiles than a cluster may hold CTAs. So each
// tile adds up the squares of its own accumulators and writes them, [tiles across, rows] float32, and `scale_rows`
// finishes; of few rows most are then still in L2. Atomic sums in one [rows] buffer would save nothing that matters (a
// float for every 256 elements), would need that buffer cleared first, and would make the last bits depend on the order
// of the tiles.
//
// The SwiGLU pair of the feed-forward layers is left to two matrix products and a pointwise kernel. One dual GEMM would
// save writing and reading [slots, M] twice, against products that take far longer; whether that pays is a question
// for a device.
//
// Without CUTLASS's headers, or when not compiled for sm_90a, it is never taken.
#include "project.h"

#ifdef REMORY_CUTLASS

#include <cutlass/cutlass.h>
#include <cutlass/epilogue/thread/activation.h>
#include <cutlass/gemm/device/gemm_universal_adapter.h>

#include <cute/tensor.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/epilogue/fusion/sm90_callbacks_tma_warpspecialized.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <vector>

namespace remory::cuda {
namespace {

using cute::_0;
using cute::_1;
using Element = cutlass::bfloat16_t;
using RowMajor = cutlass::layout::RowMajor;
using ColumnMajor = cutlass::layout::ColumnMajor;
namespace epilogue = cutlass::epilogue;

constexpr int kPacket = 16 / sizeof(Element);
constexpr auto kRound = cutlass::FloatRoundStyle::round_to_nearest;

using Tile = cute::Shape<cute::Int<kProjectionTileRows>, cute::Int<kProjectionTileColumns>, cute::_64>;
using Cluster = cute::Shape<cute::_2, _1, _1>;  // two CTAs above each other fetch their weights once

template <class T>
struct AddSquare {
  CUTLASS_DEVICE T operator()(T sum, T value) const { return sum + value * value; }
};

// Outside the matrices TMA reads zeros, whose squares need no test; null is never passed.
using SumSquares = epilogue::fusion::Sm90ColReduction<AddSquare, cutlass::plus, cutlass::plus, 0, Tile, float, float,
                                                      kRound, cute::Stride<_1, _0, int64_t>, 4, /*EnableNullptr=*/false,
                                                      /*FinalReduction=*/false, /*VisitCheckOOB=*/false>;
using Rounded = epilogue::fusion::Sm90Compute<epilogue::thread::Identity, Element, float, kRound>;
using Visitor =
    epilogue::fusion::Sm90EVT<Rounded, epilogue::fusion::Sm90EVT<SumSquares, epilogue::fusion::Sm90AccFetch>>;

using Epilogue =
    typename epilogue::collective::CollectiveBuilder<cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
                                                     epilogue::collective::EpilogueTileAuto, float, float, void,
                                                     RowMajor, kPacket, Element, RowMajor, kPacket,
                                                     epilogue::TmaWarpSpecializedCooperative, Visitor>::CollectiveOp;
using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, RowMajor, kPacket, Element, ColumnMajor, kPacket,
    float, Tile, Cluster,
    cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
    cutlass::gemm::KernelTmaWarpSpecializedCooperative>::CollectiveOp;
using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue>;
using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

// A tile at a time, a wave of tiles as square as possible: neighbours share rows and weights in L2. But the scheduler
// rounds the tiles up to multiples of the swizzle and computes what it adds.
int swizzle(const Projection& projection) {
  constexpr int64_t kClusterRows = cute::size<0>(Cluster{});
  const auto padded = [&](int64_t swizzle) {
    return cute::round_up(projection.row_tiles(), swizzle * kClusterRows) * cute::round_up(projection.tiles(), swizzle);
  };
  int widest = 8;
  while (widest > 1 && padded(widest) > padded(1) + padded(1) / 32) widest /= 2;
  return widest;
}

typename Gemm::Arguments arguments_of(const Projection& projection) {
  typename Gemm::Arguments arguments;
  arguments.mode = cutlass::gemm::GemmUniversalMode::kGemm;
  arguments.problem_shape = {static_cast<int>(projection.rows), static_cast<int>(projection.width),
                             static_cast<int>(projection.depth), 1};
  arguments.mainloop.ptr_A = static_cast<const Element*>(projection.features);
  arguments.mainloop.dA = {projection.feature_stride, _1{}, 0};
  arguments.mainloop.ptr_B = static_cast<const Element*>(projection.weight);
  arguments.mainloop.dB = {projection.weight_stride, _1{}, 0};
  arguments.epilogue.ptr_D = static_cast<Element*>(projection.out);
  arguments.epilogue.dD = {projection.width, _1{}, 0};
  arguments.epilogue.thread = {{{}, {projection.squares, 0.0f, {}}}, {}};
  arguments.scheduler.max_swizzle_size = swizzle(projection);
  arguments.hw_info.sm_count = multiprocessors();
  return arguments;
}

// Of the current device; asked once a process.
bool is_sm90() {
  static const std::vector<int> capabilities = [] {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess) devices = 0;
    std::vector<int> found(devices);
    for (int device = 0; device < devices; ++device) {
      int major = 0, minor = 0;
      static_cast<void>(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
      static_cast<void>(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
      found[device] = 10 * major + minor;
    }
    return found;
  }();
  int device = 0;
  return cudaGetDevice(&device) == cudaSuccess && static_cast<size_t>(device) < capabilities.size() &&
         capabilities[device] == 90;
}

}  // namespace

bool projects(const Projection& projection) { return is_sm90() && suits_tiles(projection, multiprocessors()); }

int project(const Projection& projection, void* stream) {
  const auto arguments = arguments_of(projection);
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  Gemm gemm;
  // No workspace: the squares are the caller's.
  cutlass::Status status = Gemm::can_implement(arguments);
  if (status == cutlass::Status::kSuccess) status = gemm.initialize(arguments, nullptr, cuda_stream);
  if (status == cutlass::Status::kSuccess) status = gemm.run(cuda_stream);
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess && status != cutlass::Status::kSuccess ? cudaErrorInvalidValue : error;
}

}  // namespace remory::cuda

#else

namespace remory::cuda {

bool projects(const Projection&) { return false; }

int project(const Projection&, void*) { return cudaErrorNotSupported; }

}  // namespace remory::cuda

#endif
