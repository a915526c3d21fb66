/**
 * CUDA variables that limit a process under MPS: active threads as a share, 0-1, and memory on each
 * GPU. Since CUDA 11.5 the memory is <device>=<limit>, with devices counted from 0 within
 * CUDA_VISIBLE_DEVICES (NVIDIA MPS guide, "Memory Protection").
 */
export const createMpsVariables = (share: number, memoryMiB: number | undefined, gpus = 1) => ({
  CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: String(Math.round(share * 100)),
  CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: Array.from(
    { length: gpus },
    (_, device) => `${device}=${memoryMiB}M`,
  ).join(','),
})
