/**
 * CUDA's variables that hold a process to its part of GPUs under MPS: the share of the threads,
 * 0-1, and the memory on each GPU. From CUDA 11.5 on that is <device>=<limit>; devices count from 0
 * after CUDA_VISIBLE_DEVICES (NVIDIA MPS guide, "Memory Protection").
 */
export const mpsVariables = (share: number, memoryMiB: number | undefined, gpus = 1) => ({
  CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: String(Math.round(share * 100)),
  CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: Array.from(
    { length: gpus },
    (_, device) => `${device}=${memoryMiB}M`,
  ).join(','),
})
