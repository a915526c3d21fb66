/**
 * The simulation against the emulated engine: a real predictor process whose device waits the same
 * modelled time.
 */
import { expect, test } from 'vitest'
import { watchMachine } from '../../../profiler/load/machine-watch.ts'
import { findArchitecture } from '../../devices/architecture.ts'
import { post, startForTest } from '../../predictor/testing.contract.ts'
import { createSimulatedLauncher } from './simulated-launcher.ts'

const configuration = { cpuCores: 2, gpu: 'T4', gpuMemoryPercent: 10, batchSize: 8, maxDelayMs: 2 }
const body = {
  inputs: [{ name: 'text', shape: [1], datatype: 'BYTES', data: ['how much does a seat cost'] }],
}

/** Answers per second of a closed loop, after half a second of warm-up. */
async function servedRps(url: string, connections: number, seconds: number): Promise<number> {
  const start = performance.now() + 500
  const end = start + seconds * 1000
  let answers = 0
  await Promise.all(
    Array.from({ length: connections }, async () => {
      while (performance.now() < end) {
        const { status } = await post(url, body)
        expect(status).toBe(200)
        if (performance.now() >= start && performance.now() < end) answers++
      }
    }),
  )
  return answers / seconds
}

async function simulatedRps(connections: number, instances = 1): Promise<number> {
  const launcher = createSimulatedLauncher({ architecture: findArchitecture('bert'), seed: 1 })
  const { target } = await launcher.launch(
    { ...configuration, instances },
    1,
    new AbortController().signal,
  )
  if (target.kind !== 'virtual') throw new Error('not virtual')
  const seconds = 60
  return (
    target.server.play({ kind: 'closed', connections, durationS: seconds }).latencyMs.length /
    seconds
  )
}

test.each([
  [16, 1],
  [32, 2],
])(
  'saturated by %d connections, instances: %d, both serve the same to within 5 percent',
  async (connections, instances) => {
    const { url } = await startForTest({
      MODEL: 'bert',
      CPU_CORES: '2',
      GPU: 'T4',
      GPU_MEMORY_PERCENT: '10',
      BATCH_SIZE: '8',
      MAX_DELAY_MS: '2',
      INSTANCES: `${instances}`,
      PRECISION: 'fp16',
      GPU_SHARING: 'time-slice',
      SEQUENCE_LENGTH: '128',
    })
    const simulated = await simulatedRps(connections, instances)
    const watch = watchMachine(() => [process.pid], [process.pid])
    const emulated = await servedRps(`${url}/v2/models/bert/infer`, connections, 1.5)
    const { server = 0, generator = 0, stolen = 0 } = watch?.() ?? {}
    // Whatever else runs on the machine can only take answers away: where it kept the predictor
    // from a core, nothing is said of the least.
    const disturbed = Math.max(server, generator, stolen) > 0.02
    if (!disturbed) expect(emulated / simulated).toBeGreaterThan(0.95)
    expect(emulated / simulated).toBeLessThan(1.05)
  },
)
