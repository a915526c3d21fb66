/**
 * A language model may serve one request in ten seconds: what is said of it does not depend on the
 * unit of a rate.
 */
import { expect, test } from 'vitest'
import type { LoadPoint } from '../../profiler/model/load-point.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import type { Objective } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { sampleInput } from '../samples.contract.ts'
import { listCandidates } from './candidates.ts'
import { A, again, B, disturbed, slow, tried } from './invented-trials.contract.ts'
import { recommend } from './recommend.ts'

const part = 1 / 1024
const slowPoint = ({ load, ...point }: LoadPoint): LoadPoint => ({
  ...point,
  load:
    load.kind === 'open'
      ? { ...load, rateRps: part * load.rateRps, durationS: load.durationS / part }
      : load,
  offeredRps: part * point.offeredRps,
  achievedRps: part * point.achievedRps,
  goodputRps: part * point.goodputRps,
  seconds: point.seconds / part,
})
const slowMeasurement = (m: Measurement): Measurement => ({
  ...m,
  capacityRps: part * m.capacityRps,
  capacityCi90Rps: [part * m.capacityCi90Rps[0], part * m.capacityCi90Rps[1]],
  saturationRps: part * m.saturationRps,
  points: m.points.map(slowPoint),
})
/** The same windows and latencies, each taking 1024 times as long. */
const slowTrial = (trial: FinishedTrial): FinishedTrial =>
  trial.state === 'complete' ? { ...trial, measurement: slowMeasurement(trial.measurement) } : trial

const cut = { outcome: 'pruned', capacityCi90Rps: [0, 150], bounds: 'upper' } as const
const histories: Readonly<Record<string, readonly FinishedTrial[]>> = {
  'measured once': [tried(1, A, 100), tried(2, B, 150)],
  confirmed: [tried(1, A, 100), again(2, A, [[97, 34]])],
  held: [tried(1, A, 100), again(2, A, [[97, 34]], false)],
  'held, without an interval': [
    tried(1, A, 100),
    again(2, A, [[97, 34]], false, { capacityCi90Rps: [0, Infinity] }),
  ],
  refuted: [tried(1, A, 100), again(2, A, [[85, 65]])],
  'refuted, and nothing below held': [tried(1, A, 100), again(2, A, [[40, 65]])],
  'refuted twice': [
    tried(1, A, 100, {
      windows: [
        [20, 20],
        [60, 30],
      ],
    }),
    again(2, A, [
      [97, 90],
      [62, 80],
    ]),
    again(3, A, [[50, 70]]),
  ],
  'only bounds': [
    tried(1, A, 100, { capacityCi90Rps: [0, 120], bounds: 'both' }),
    tried(2, B, 0, {
      outcome: 'budget',
      capacityCi90Rps: [0, 512],
      bounds: 'upper',
      windows: [],
    }),
  ],
  'cut short beside a confirmed one': [
    tried(1, A, 100),
    again(2, A, [[97, 34]]),
    tried(3, B, 150, cut),
  ],
  'cut short, and it could win': [tried(1, A, 50), again(2, A, [[48, 34]]), tried(3, B, 150, cut)],
  'a rival that may be better': [tried(1, A, 100), again(2, A, [[97, 34]]), tried(3, B, 205)],
  'at least': [
    tried(1, A, 100, {
      outcome: 'generator-limit',
      capacityCi90Rps: [100, Infinity],
      bounds: 'lower',
    }),
  ],
  'misses when idle, fails, died': [
    slow(1, A),
    tried(2, B, 0, { outcome: 'errors', capacityCi90Rps: [0, 0], windows: [] }),
    tried(3, { ...B, batchSize: 1 }, 0, { ...disturbed, outcome: 'server-died', windows: [] }),
  ],
  disturbed: [tried(1, A, 0, { ...disturbed, windows: [] })],
  'far from its saturation': [tried(1, A, 100, { saturationRps: 400 })],
}

const cheapest: Objective = { kind: 'price-per-request' }
const cases: readonly { what: string; objective: Objective; limitMs: number }[] = [
  ...Object.keys(histories).map((what) => ({ what, objective: cheapest, limitMs: 50 })),
  ...['measured once', 'confirmed', 'refuted'].map((what) => ({
    what,
    objective: cheapest,
    limitMs: 30,
  })),
  { what: 'confirmed', objective: { kind: 'max-rate', maxPricePerHour: 1 }, limitMs: 50 },
  { what: 'measured once', objective: { kind: 'max-rate', maxPricePerHour: 0.001 }, limitMs: 50 },
]

/** What is said, less the figures that are rates or follow from them. */
function saidOf(
  trials: readonly FinishedTrial[],
  objective: Objective,
  limitMs: number,
  unit: number,
) {
  const r = recommend({
    ...sampleInput,
    trials,
    objective,
    slo: { ...sampleInput.slo, limitMs },
    pricePerHour: ({ gpuMemoryPercent }) => 0.0144 * Number(gpuMemoryPercent),
  })
  const shapeOf = (text: string | undefined) => text?.replace(/\$?[\d.,]+/g, '#')
  return {
    conclusion: r.conclusion,
    verdict: shapeOf(r.verdict),
    binding: [r.binding.what, shapeOf(r.binding.evidence)],
    caveats: r.caveats.map(shapeOf),
    front: r.front.length,
    candidates: listCandidates(r).map(
      ({ trial, status, feasible, bound, sloMsFrom, derived, reason, capacityRps, missed }) => ({
        ...{ trial, status, feasible, bound, sloMsFrom, derived },
        reason: shapeOf(reason),
        capacity: (capacityRps / unit).toPrecision(9),
        missed: missed && (missed.rateRps / unit).toPrecision(9),
      }),
    ),
    whyNot: r.alternatives.map(({ whyNot }) => shapeOf(whyNot)),
  }
}

test.each(cases)(
  '$what, $objective.kind at $limitMs ms: the same at a thousandth of the rate',
  ({ what, objective, limitMs }) => {
    const trials = histories[what]!
    expect(saidOf(trials.map(slowTrial), objective, limitMs, part)).toEqual(
      saidOf(trials, objective, limitMs, 1),
    )
  },
)
