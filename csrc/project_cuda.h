// The projection of features with RMSNorm behind it, where the device's matrix units are fed by a kernel of ours.
#pragma once

#include <optional>

#include "checks.h"

namespace remory {

// RMSNorm(features · fcᵀ) * norm, [rows, D] bfloat16, of features [rows, L*D], fc [D, L*D] and norm [D] float32, on
// `stream` of the current device, which is theirs. Nothing where the device, the dtype, the alignment or the sizes ask
// for torch's product.
std::optional<Tensor> project_cuda(const Arguments& arguments, const Tensor& features, const Tensor& fc,
                                   const Tensor& norm, double eps, void* stream);

}  // namespace remory
