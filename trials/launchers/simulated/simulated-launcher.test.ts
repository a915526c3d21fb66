import { findArchitecture } from '../../devices/architecture.ts'
import { launcherContract } from '../launcher.contract.ts'
import { createSimulatedLauncher } from './simulated-launcher.ts'

const base = { cpuCores: 2, gpu: 'T4', gpuMemoryPercent: 100, batchSize: 8 }

launcherContract('the simulated launcher', {
  create: () =>
    createSimulatedLauncher({
      architecture: findArchitecture('bert'),
      seed: 1,
    }),
  good: base,
  other: { ...base, batchSize: 16 },
  infeasible: { configuration: { ...base, gpuMemoryPercent: 1 }, reason: 'out-of-memory' },
  leftovers: () => [],
  abortAfterMs: [0],
})
