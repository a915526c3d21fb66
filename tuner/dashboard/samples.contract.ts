/**
 * A store with one experiment in it, for the tests of the dashboard. Measurements are made up after
 * a queue's formula.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { complete, measured } from '../../reports/samples.contract.ts'
import { openStore } from '../../trials/store/index.ts'
import type { FinishedTrial, TrialStore } from '../../trials/types.ts'
import type { HostContext } from '../config/context.ts'

/** What a hostile model or log would try. */
export const attack = `"><img src=x onerror="window.attacked=1"><script>window.attacked=1</script>`

export const document = {
  name: attack,
  model: { name: 'bert', architecture: 'bert' },
  slo: { percentile: 'p99', limit: '50ms', errorRate: '0.1%' },
  objective: 'price-per-request',
  headroom: '20%',
  backend: 'simulated',
  devices: 'auto',
  space: {
    cpuCores: [1, 2],
    gpu: ['T4', 'L4'],
    gpuMemoryPercent: [25, 100],
    batchSize: [1, 8, 32, 64],
  },
  budget: { maxTrials: 20 },
  seed: 7,
}

export const hostContext: HostContext = { cwd: '/', machine: { cpuCores: 2, gpus: [] } }

const on = (gpu: string, batchSize: number, gpuMemoryPercent: number, cpuCores = 2) => ({
  cpuCores,
  gpu,
  gpuMemoryPercent,
  batchSize,
})

/** Of the server's own; what it is called is hostile too. */
const depth = (value: number) => [{ name: 'depth', labels: { of: attack }, value }]

/** Trial 3 is cheapest at 50 ms; at 15 ms, which it cannot keep, trial 2 is. */
export const trials = (logPath: string): readonly FinishedTrial[] => [
  complete(1, on('T4', 1, 100), measured(150, 8), {
    purpose: 'default',
    usage: { gpuUtilization: 0.55, cpuCores: 0.8, launchSeconds: 12 },
  }),
  complete(
    2,
    on('T4', 8, 25),
    { ...measured(240, 10), metrics: depth(-2) },
    { usage: { gpuUtilization: 0.9, cpuCores: 1.2 } },
  ),
  {
    ...complete(3, on('L4', 32, 25, 1), { ...measured(900, 18), metrics: depth(4) }),
    predicted: { rate: 500, low: 300, high: 800, feasible: 0.98 },
  },
  { ...complete(4, on('L4', 32, 100), measured(1200, 60)), logPath },
  {
    number: 5,
    configuration: on('T4', 64, 25),
    why: 'expected improvement 12 %',
    startedAt: '2026-11-20T10:05:00.000Z',
    seconds: 4,
    state: 'infeasible',
    reason: 'out-of-memory',
    detail: attack,
    logPath: '/etc/passwd',
  },
  {
    number: 6,
    configuration: on('T4', 32, 100),
    why: attack,
    startedAt: '2026-11-20T10:06:00.000Z',
    seconds: 1,
    state: 'failed',
    error: attack,
  },
  complete(7, on('L4', 1, 100), measured(200, 8)),
]

/** Comes while the page is open: better than all before it. */
export const late: FinishedTrial = complete(8, on('L4', 8, 25, 1), measured(2400, 9))

export interface SampleStore {
  readonly path: string
  readonly id: string
  readonly store: TrialStore
  dispose(): Promise<void>
}

export async function sampleStore(): Promise<SampleStore> {
  const folder = mkdtempSync(join(tmpdir(), 'tune-dashboard-'))
  const path = join(folder, 'tune.db')
  const log = join(folder, 'predictor.log')
  writeFileSync(log, `ready\n${attack}\n`)
  const store = await openStore(path)
  const id = 'bert-7f3a'
  for (const [experiment, createdAt] of [
    ['older-0001', '2026-11-19T10:00:00.000Z'],
    [id, '2026-11-20T10:00:00.000Z'],
  ] as const) {
    await store.create({
      id: experiment,
      name: attack,
      createdAt,
      spec: document,
      provenance: 'emulated',
      seed: 7,
    })
    for (const trial of trials(log)) await store.append(experiment, trial)
  }
  await store.finish('older-0001', 'done')
  return {
    path,
    id,
    store,
    async dispose() {
      await store.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
