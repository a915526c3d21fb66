/**
 * Searches for the capacity whose windows, loops and queue model are as a script has them: what
 * they ask for next, and what they end with.
 */
import { expect } from 'vitest'
import type { Slowdown } from '../capacity/changes/speed-change.ts'
import { type Effort, efforts } from '../capacity/effort.ts'
import type {
  CapacityPosterior,
  estimatePosterior,
  SimulationBudget,
} from '../capacity/queue-model/posterior.ts'
import { searchCapacity } from '../capacity/search/capacity-search.ts'
import type { CapacitySearchOptions } from '../capacity/search-options.ts'
import { Session } from '../capacity/session.ts'
import { noLatency } from '../load/latency-summary.ts'
import { summariseRun } from '../load/load-point.ts'
import type { Load } from '../model/load.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { Slo } from '../model/slo.ts'
import { runOf, scriptedGenerator } from './scripted-generator.ts'
import { targetAt } from './servers.ts'

export const slo: Slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
export type Open = Extract<Load, { kind: 'open' }>

/** An open window of requests at even distances, each as long as `ms` says of it. */
export const windowOf = (
  load: Open,
  ms: number | ((i: number) => number) = 5,
  more: Partial<LoadRun> = {},
) =>
  runOf(
    load,
    Array.from({ length: Math.round(load.rateRps * load.durationS) }, (_, i) =>
      typeof ms === 'number' ? ms : ms(i),
    ),
    more,
  )
export const missing = (load: Open, more: Partial<LoadRun> = {}) =>
  windowOf(load, (i) => (i % 20 === 10 ? 60 : 5), more)
export const refusing = (load: Open) =>
  windowOf(load, (i) => (i % 20 === 10 ? Number.NaN : 5), {
    errorKinds: { 'status 429': Math.ceil(load.rateRps * load.durationS * 0.05) },
  })
export const gone = (load: Load) =>
  runOf(load, [Number.NaN, Number.NaN], { errorKinds: { refused: 2 } })
/** A closed loop that got 1,000 a second out of the server. */
export const loop = (load: Load, more: Partial<LoadRun> = {}) =>
  runOf(load, Array<number>(Math.round(1000 * load.durationS)).fill(8), {
    sentMs: new Float64Array(Math.round(1000 * load.durationS)),
    ...more,
  })
/** As many, none together with another. */
export const oneByOne = (load: Load) =>
  loop(load, {
    sentMs: Float64Array.from({ length: Math.round(1000 * load.durationS) }, (_, i) => i),
  })

export const posterior = (
  capacityRps: number,
  half = 0.01,
  more: Partial<CapacityPosterior> = {},
): CapacityPosterior => ({
  capacityRps,
  capacityCi90Rps: [capacityRps * (1 - half), capacityRps * (1 + half)],
  computeProbabilityBelow: () => 0.5,
  refusesWhenFull: false,
  hasOutages: false,
  saturationRps: 1000,
  saturationError: 0,
  ...more,
})

export interface Script {
  /** Of the open windows, the sweep first. */
  readonly window?: (load: Open, window: number) => LoadRun
  readonly loop?: (load: Load) => LoadRun
  readonly estimate?: (play: SimulationBudget, windows: number) => CapacityPosterior
  readonly effort?: Partial<Effort>
  readonly options?: CapacitySearchOptions & { readonly refusesBeyondRps?: number }
  /**
   * Where the server got slower, asked after each window: requests at even distances tell nothing
   * of a queue.
   */
  readonly slowdown?: (windows: number) => Slowdown | undefined
}
export async function searched({
  window = (load) => windowOf(load),
  loop: answer = (load) => loop(load),
  estimate = () => posterior(600),
  effort,
  options = {},
  slowdown = () => undefined,
}: Script) {
  const asked: Open[] = []
  const generator = scriptedGenerator((load) =>
    load.kind === 'open' ? window(load, asked.push(load) - 1) : answer(load),
  )
  const session = new Session(
    targetAt('http://127.0.0.1:1'),
    slo,
    generator,
    new AbortController().signal,
    () => {},
  )
  const run = runOf({ kind: 'closed', connections: 1, durationS: 1 }, Array<number>(200).fill(5))
  const { refusesBeyondRps, ...search } = options
  const posteriorEstimator: typeof estimatePosterior = (runs, _, play) =>
    estimate(play, runs.length)
  const found = await searchCapacity(
    {
      session,
      effort: { ...efforts.quick, ...effort },
      options: search,
      seed: 7,
      estimators: {
        estimatePosterior: posteriorEstimator,
        chooseDiscipline: () => ({ discipline: undefined, isMisfit: false }),
        detectSlowdown: (runs) => slowdown(runs.length),
      },
      report: { unloaded: noLatency, warmUp: undefined, caveats: [] },
    },
    {
      at: 'saturation',
      server: { unloaded: { run, point: summariseRun(run, slo) }, refusesBeyondRps },
    },
  )
  return { found, asked, loops: generator.asked.filter((load) => load.kind === 'closed'), session }
}
/** Within what requests of a window, a whole number, leave open. */
export const about = (rps: number) =>
  expect.toSatisfy((rate: number) => Math.abs(rate / rps - 1) < 0.02, `about ${rps}`)
export const rates = (asked: readonly Open[]) =>
  asked.map(({ rateRps }) => Math.round(10 * rateRps) / 10)
/** Ten windows of a second. */
export const ten = { windowS: 1, windows: 10, budgetS: 10 }
