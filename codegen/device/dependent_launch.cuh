#pragma once

// Programmatic dependent launch, from sm_90: a kernel's blocks may start while the kernel before it
// on the stream still runs. Instructions after the PTX ISA 7.8, "griddepcontrol".

// This block has nothing against the dependent kernel's start. It starts once every block has said
// so or has ended.
__device__ __forceinline__ void launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// Waits until the kernel before this one has ended and what it wrote can be read.
__device__ __forceinline__ void wait_for_previous() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
