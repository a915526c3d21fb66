/** Invented histories of trials: what each comes to is the same on every surface (one-truth.test.ts). */

import type { Measurement, Slo } from '../../profiler/types.ts'
import type { Status } from '../../reports/recommendation/status.ts'
import type { Conclusion } from '../../reports/recommendation/types.ts'
import type { Configuration } from '../../search/types.ts'
import type { FinishedTrial, Provenance } from '../../trials/types.ts'
import { type Windows, window } from './windows.contract.ts'

export interface History {
  readonly what: string
  readonly trials: readonly FinishedTrial[]
  /** Of the run. */
  readonly flags?: Readonly<Record<string, unknown>>
  /** What is asked of it afterwards. */
  readonly asked?: { readonly slo?: string; readonly rps?: string }
  readonly provenance?: Provenance
  readonly conclusion: Conclusion
  readonly exit: number
  /** Status by trial. */
  readonly statuses: Readonly<Record<number, Status>>
  readonly best?: { readonly trial: number; readonly capacityRps: number; readonly sloMs?: number }
  /** A caveat says so. */
  readonly caveat?: RegExp
}

const slo: Slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
/** Rising prices: A is the cheapest. */
const [A, B, C] = [25, 50, 100].map(
  (gpuMemoryPercent): Configuration => ({
    cpuCores: 2,
    memoryMiB: 4096,
    gpu: 'T4',
    gpuMemoryPercent,
    batchSize: 8,
    maxDelayMs: 2,
  }),
) as [Configuration, Configuration, Configuration]

interface Tried extends Partial<Omit<Measurement, 'points'>> {
  readonly windows?: Windows
}

/** Measured once: an estimate with its interval, and windows as [rate, p99]. */
function tried(number: number, configuration: Configuration, capacityRps: number, change: Tried = {}): FinishedTrial {
  const { windows = [[0.5 * capacityRps, 20]], ...rest } = change
  const idle = { ...window(1, 8).summary, requests: 200 }
  return trialOf(number, configuration, {
    outcome: 'converged',
    capacityRps,
    capacityCi90Rps: [0.97 * capacityRps, 1.03 * capacityRps],
    slo,
    idle,
    saturationRps: 1.2 * capacityRps,
    points: windows.filter(([rate]) => rate > 0).map(([rate, p99Ms]) => window(rate, p99Ms, rest.slo ?? slo).point),
    requests: 4000,
    seconds: 7,
    caveats: [],
    ...rest,
  })
}

/** Measured again: the highest window that held is its capacity. `proven`: many requests; else the profiler lowers the interval. */
function again(
  number: number,
  configuration: Configuration,
  windows: Windows,
  proven = true,
  change: Partial<Measurement> = {},
): FinishedTrial {
  const limitMs = (change.slo ?? slo).limitMs
  const held = Math.max(0, ...windows.filter(([, p99Ms]) => p99Ms <= limitMs).map(([rate]) => rate))
  const measurement: Measurement = {
    ...(tried(number, configuration, held, { windows: [] }) as FinishedTrial & { state: 'complete' }).measurement,
    points: windows.map(([rate, p99Ms]) => window(rate, p99Ms, change.slo ?? slo, proven ? 30 : 0.4).point),
    outcome: held > 0 ? 'converged' : 'budget',
    capacityRps: held,
    capacityCi90Rps: held > 0 ? [held * (proven ? 1 : 0.95), Number.POSITIVE_INFINITY] : [0, 0.82 * (windows[0]?.[0] ?? 0)],
    known: held > 0 ? 'bound below' : 'bound above',
    ...change,
  }
  return { ...trialOf(number, configuration, measurement), purpose: 'confirmation', why: 'confirmation' }
}

function trialOf(number: number, configuration: Configuration, measurement: Measurement): FinishedTrial {
  const startedAt = new Date(Date.UTC(2026, 10, 20, 10, number)).toISOString()
  return { number, configuration, why: 'grid', startedAt, state: 'complete', measurement, seconds: 12, usage: { launchSeconds: 4 } }
}

const base = (number: number, configuration: Configuration) => {
  const { measurement: _, state: __, usage: ___, ...rest } = tried(number, configuration, 1) as FinishedTrial & { state: 'complete' }
  return rest
}
const outOfMemory = (number: number, configuration: Configuration): FinishedTrial => ({
  ...base(number, configuration),
  state: 'infeasible',
  reason: 'out-of-memory',
  detail: '5.1 GiB of 3.8 GiB',
})
const failed = (number: number, configuration: Configuration): FinishedTrial => ({
  ...base(number, configuration),
  state: 'failed',
  error: 'no free port',
})
const slow = (number: number, configuration: Configuration): FinishedTrial =>
  tried(number, configuration, 0, {
    outcome: 'slo-unattainable',
    capacityCi90Rps: [0, 0],
    idle: { ...window(1, 73).summary, requests: 200 },
    windows: [],
  })
const disturbed = { outcome: 'disturbed', capacityRps: 0, capacityCi90Rps: [0, Number.POSITIVE_INFINITY], known: 'nothing' } as const
const asStoredBefore = (trial: FinishedTrial): FinishedTrial => {
  if (trial.state !== 'complete') return trial
  const { known: _, ...measurement } = trial.measurement
  return { ...trial, measurement: { ...measurement, points: measurement.points.map(({ latencies: __, ...point }) => point) } }
}

const tight: Slo = {
  percentile: 0.99,
  limitMs: 200,
  maxErrorRate: 0.001,
  limits: [
    { metric: 'ttft', limitMs: 200 },
    { metric: 'tpot', limitMs: 30 },
    { metric: 'e2e', limitMs: 2000 },
  ],
}

export const histories: readonly History[] = [
  {
    what: 'confirmed',
    trials: [tried(1, C, 900), tried(2, A, 500), again(3, A, [[485, 34]])],
    conclusion: 'confirmed',
    exit: 0,
    statuses: { 1: 'measured', 2: 'confirmed' },
    best: { trial: 2, capacityRps: 485, sloMs: 34 },
  },
  {
    what: 'held, with too few requests to prove it',
    trials: [tried(1, A, 500), again(2, A, [[485, 34]], false)],
    conclusion: 'confirmed',
    exit: 0,
    statuses: { 1: 'held' },
    best: { trial: 1, capacityRps: 485, sloMs: 34 },
  },
  {
    what: 'held at a lower rate than the one asked for',
    trials: [
      tried(1, A, 500),
      again(2, A, [
        [485, 62],
        [461, 55],
        [436, 44],
      ]),
    ],
    conclusion: 'confirmed',
    exit: 0,
    statuses: { 1: 'confirmed' },
    best: { trial: 1, capacityRps: 436, sloMs: 44 },
  },
  {
    what: 'measured once, and nothing since',
    trials: [tried(1, A, 500)],
    conclusion: 'unconfirmed',
    exit: 4,
    statuses: { 1: 'measured' },
    best: { trial: 1, capacityRps: 500 },
  },
  {
    what: 'not confirmed by choice',
    trials: [tried(1, A, 500)],
    flags: { confirm: false },
    conclusion: 'not asked',
    exit: 0,
    statuses: { 1: 'measured' },
    best: { trial: 1, capacityRps: 500 },
  },
  {
    what: 'simulated',
    trials: [tried(1, A, 500), again(2, A, [[485, 34]])],
    provenance: 'simulated',
    conclusion: 'simulated',
    exit: 0,
    statuses: { 1: 'confirmed' },
    best: { trial: 1, capacityRps: 485, sloMs: 34 },
  },
  {
    what: 'refuted: what held in the trial stays',
    trials: [
      tried(1, A, 500, {
        windows: [
          [250, 20],
          [350, 30],
          [520, 60],
        ],
      }),
      again(2, A, [
        [485, 90],
        [436, 80],
        [398, 65],
      ]),
    ],
    conclusion: 'unconfirmed',
    exit: 4,
    statuses: { 1: 'refuted' },
    best: { trial: 1, capacityRps: 350, sloMs: 30 },
    caveat: /not confirmed: measured again it missed the SLO at 398 req\/s \(p99 65 ms\); 350 req\/s is what held/,
  },
  {
    what: 'refuted, and a rival that was measured once comes first',
    trials: [
      tried(1, A, 500, { windows: [[100, 20]] }),
      tried(2, B, 700),
      again(3, A, [
        [485, 90],
        [398, 65],
      ]),
    ],
    conclusion: 'unconfirmed',
    exit: 4,
    statuses: { 1: 'refuted', 2: 'measured' },
    best: { trial: 2, capacityRps: 700 },
  },
  {
    what: 'refuted twice: the lower miss counts',
    trials: [
      tried(1, A, 500, {
        windows: [
          [200, 20],
          [350, 30],
        ],
      }),
      again(2, A, [
        [485, 90],
        [398, 65],
      ]),
      again(3, A, [
        [340, 70],
        [279, 61],
      ]),
    ],
    conclusion: 'unconfirmed',
    exit: 4,
    statuses: { 1: 'refuted' },
    best: { trial: 1, capacityRps: 200, sloMs: 20 },
  },
  {
    what: 'refuted, then confirmed at a lower rate',
    trials: [
      tried(1, A, 500),
      again(2, A, [
        [485, 90],
        [398, 65],
      ]),
      again(3, A, [[300, 31]]),
    ],
    conclusion: 'confirmed',
    exit: 0,
    statuses: { 1: 'confirmed' },
    best: { trial: 1, capacityRps: 300, sloMs: 31 },
  },
  {
    what: 'confirmed, and refuted by a later verification',
    trials: [
      tried(1, A, 500, { windows: [[250, 20]] }),
      again(2, A, [[485, 34]]),
      again(3, A, [
        [485, 90],
        [398, 65],
      ]),
    ],
    conclusion: 'unconfirmed',
    exit: 4,
    statuses: { 1: 'refuted' },
    best: { trial: 1, capacityRps: 250, sloMs: 20 },
  },
  {
    what: 'refuted, and nothing below is known to hold',
    trials: [
      tried(1, A, 500, { windows: [[490, 51]] }),
      again(2, A, [
        [485, 90],
        [398, 65],
      ]),
    ],
    conclusion: 'none',
    exit: 3,
    statuses: { 1: 'refuted' },
  },
  {
    what: 'only an upper bound: [0, 512] is no capacity',
    trials: [tried(1, A, 0, { outcome: 'budget', capacityCi90Rps: [0, 512], known: 'bound above', windows: [[512, 70]] })],
    conclusion: 'none',
    exit: 3,
    statuses: { 1: 'bound' },
  },
  {
    what: 'an estimate whose interval begins at nothing, from an old store',
    trials: [
      tried(1, A, 400, { outcome: 'budget', capacityCi90Rps: [0, 512], windows: [[400, 70]] }),
      tried(2, B, 450),
      again(3, B, [[430, 40]]),
    ],
    conclusion: 'confirmed',
    exit: 0,
    statuses: { 1: 'bound', 2: 'confirmed' },
    best: { trial: 2, capacityRps: 430, sloMs: 40 },
    caveat: /not settled/,
  },
  {
    what: 'cut short beside a confirmed one',
    trials: [
      tried(1, A, 500),
      tried(2, C, 891, { outcome: 'beaten', capacityCi90Rps: [0, 891], known: 'bound above' }),
      again(3, A, [[485, 34]]),
    ],
    conclusion: 'confirmed',
    exit: 0,
    statuses: { 1: 'confirmed', 2: 'bound' },
    best: { trial: 1, capacityRps: 485, sloMs: 34 },
  },
  {
    what: 'at least: the generator was the limit',
    trials: [
      tried(1, A, 500, {
        outcome: 'generator-limit',
        capacityCi90Rps: [500, Number.POSITIVE_INFINITY],
        known: 'bound below',
        windows: [[500, 31]],
      }),
    ],
    conclusion: 'unconfirmed',
    exit: 4,
    statuses: { 1: 'bound' },
    best: { trial: 1, capacityRps: 500, sloMs: 31 },
    caveat: /lower bound/,
  },
  {
    what: 'disturbed alone',
    trials: [tried(1, A, 0, { ...disturbed, windows: [] })],
    conclusion: 'unknown',
    exit: 1,
    statuses: { 1: 'disturbed' },
  },
  {
    what: 'a confirmation that the machine disturbed says nothing',
    trials: [tried(1, A, 500), again(2, A, [[485, 90]], true, disturbed)],
    conclusion: 'unconfirmed',
    exit: 4,
    statuses: { 1: 'measured' },
    best: { trial: 1, capacityRps: 500 },
    caveat: /says nothing/,
  },
  {
    what: 'a confirmation that the generator could not hold says nothing',
    trials: [tried(1, A, 500), again(2, A, [[485, 90]], true, { outcome: 'generator-limit', known: 'nothing' })],
    conclusion: 'unconfirmed',
    exit: 4,
    statuses: { 1: 'measured' },
    best: { trial: 1, capacityRps: 500 },
  },
  {
    what: 'all miss the SLO',
    trials: [slow(1, A), slow(2, B)],
    conclusion: 'none',
    exit: 3,
    statuses: { 1: 'infeasible', 2: 'infeasible' },
  },
  {
    what: 'all out of memory',
    trials: [outOfMemory(1, A), outOfMemory(2, B)],
    conclusion: 'none',
    exit: 3,
    statuses: { 1: 'infeasible', 2: 'infeasible' },
  },
  { what: 'failed only', trials: [failed(1, A), failed(2, B)], conclusion: 'unknown', exit: 1, statuses: { 1: 'failed', 2: 'failed' } },
  { what: 'nothing yet', trials: [], conclusion: 'unknown', exit: 1, statuses: {} },
  {
    what: 'a rival a little better by one measurement',
    trials: [tried(1, A, 500), tried(2, B, 770), again(3, A, [[485, 34]])],
    conclusion: 'confirmed',
    exit: 0,
    statuses: { 1: 'confirmed', 2: 'measured' },
    best: { trial: 1, capacityRps: 485, sloMs: 34 },
    caveat: /not settled, better by what one measurement shows: .*trial 2/,
  },
  {
    what: 'a rival far better by one measurement',
    trials: [tried(1, A, 500), tried(2, B, 1500), again(3, A, [[485, 34]])],
    conclusion: 'unconfirmed',
    exit: 4,
    statuses: { 1: 'confirmed', 2: 'measured' },
    best: { trial: 2, capacityRps: 1500 },
  },
  {
    what: 'another SLO that the same windows prove',
    trials: [
      tried(1, A, 500, {
        windows: [
          [250, 20],
          [400, 30],
          [540, 80],
        ],
      }),
      again(2, A, [[485, 44]]),
    ],
    asked: { slo: '48ms' },
    conclusion: 'confirmed',
    exit: 0,
    statuses: { 1: 'confirmed' },
    best: { trial: 1, capacityRps: 485 },
  },
  {
    what: 'another SLO that the confirmation does not keep',
    trials: [
      tried(1, A, 500, {
        windows: [
          [100, 9],
          [250, 20],
          [400, 30],
        ],
      }),
      again(2, A, [[485, 34]]),
    ],
    asked: { slo: 'p95<12ms' },
    conclusion: 'unconfirmed',
    exit: 4,
    statuses: { 1: 'measured' },
  },
  {
    what: 'another objective',
    trials: [tried(1, A, 500), tried(2, C, 900), again(3, C, [[870, 41]])],
    flags: { objective: 'max-rate', maxPrice: '$20' },
    conclusion: 'confirmed',
    exit: 0,
    statuses: { 1: 'measured', 2: 'confirmed' },
    best: { trial: 2, capacityRps: 870, sloMs: 41 },
  },
  {
    what: 'all too dear',
    trials: [tried(1, A, 500), again(2, A, [[485, 34]])],
    flags: { objective: 'max-rate', maxPrice: '$0.001' },
    conclusion: 'none',
    exit: 3,
    statuses: { 1: 'confirmed' },
  },
  {
    what: 'a demand asked for afterwards',
    trials: [tried(1, A, 500), tried(2, C, 900), again(3, A, [[485, 34]])],
    asked: { rps: '1500' },
    conclusion: 'confirmed',
    exit: 0,
    statuses: { 1: 'confirmed', 2: 'measured' },
    best: { trial: 1, capacityRps: 485, sloMs: 34 },
  },
  {
    what: 'a language model under three limits',
    trials: [
      tried(1, A, 20, {
        slo: tight,
        windows: [
          [10, 90],
          [15, 150],
        ],
      }),
      again(2, A, [[19, 180]], true, { slo: tight }),
    ],
    flags: { slo: undefined, sloTtft: '200ms', sloTpot: '30ms', sloE2e: '2s', model: 'llama-3.1-8b' },
    conclusion: 'confirmed',
    exit: 0,
    statuses: { 1: 'confirmed' },
    best: { trial: 1, capacityRps: 19, sloMs: 180 },
  },
  {
    what: 'resumed: failed at first, measured later, confirmed',
    trials: [failed(1, A), failed(2, A), tried(3, A, 500), again(4, A, [[485, 34]])],
    conclusion: 'confirmed',
    exit: 0,
    statuses: { 3: 'confirmed' },
    best: { trial: 3, capacityRps: 485, sloMs: 34 },
  },
  {
    what: 'crashed when it was measured again',
    trials: [tried(1, A, 500), { ...outOfMemory(2, A), purpose: 'confirmation' }, tried(3, B, 300)],
    conclusion: 'unconfirmed',
    exit: 4,
    statuses: { 1: 'infeasible', 3: 'measured' },
    best: { trial: 3, capacityRps: 300 },
  },
  {
    what: 'imported: no windows of open load',
    trials: [tried(1, A, 500, { windows: [] })],
    conclusion: 'unconfirmed',
    exit: 4,
    statuses: { 1: 'measured' },
    best: { trial: 1, capacityRps: 500 },
  },
  {
    what: 'a store of an earlier version',
    trials: [tried(1, A, 500), again(2, A, [[485, 34]])].map(asStoredBefore),
    conclusion: 'confirmed',
    exit: 0,
    statuses: { 1: 'confirmed' },
    best: { trial: 1, capacityRps: 485, sloMs: 34 },
  },
]
