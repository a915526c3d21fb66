import fc from 'fast-check'
import { expect, test } from 'vitest'
import { replaceLimit } from '../../../profiler/model/slo.ts'
import { createObjective, getRequiredInput, objectiveKinds } from '../../../search/objective.ts'
import { defaultPriceBook } from '../../../trials/prices/book.ts'
import type { FinishedTrial } from '../../../trials/types.ts'
import { listCandidates } from '../../recommendation/candidates.ts'
import { complete, measured, sampleInput } from '../../samples.contract.ts'
import type { DashboardExperiment } from './page-data.ts'
import { pickOwnQuestion, Ranker } from './ranking.ts'

const { slo } = sampleInput
const experiment = {
  ...{
    id: 'many',
    name: 'many',
    createdAt: '2026',
    state: 'done',
    provenance: 'measured',
    seed: 1,
    model: 'bert',
    hardware: '',
    load: '',
    sampler: 'bo',
  },
  ...{
    maxTrials: 1,
    slo,
    objective: { kind: 'price-per-request' },
    headroom: 0,
    prices: defaultPriceBook,
    parameters: [],
    notices: [],
    specification: '',
  },
} satisfies DashboardExperiment

const gpus = ['T4', 'L4', 'A10G', 'V100', 'A100-40GB']
const configuration = (i: number) => ({
  cpuCores: 1 + (i % 4),
  gpu: gpus[i % 5]!,
  gpuMemoryPercent: 100,
  batchSize: 1 + Math.floor(i / 20),
})

/** A thousand configurations, some measured twice, some of which cannot serve. */
function manyTrials(seed: number, spread: number): FinishedTrial[] {
  const noise = (i: number) => Math.exp(spread * Math.sin(seed + 12.9898 * i) * 2)
  const trials: FinishedTrial[] = []
  for (let i = 0; i < 1_200; i++) {
    const number = trials.length + 1
    const rate = 100 * noise(i)
    const unloadedMs = 5 + 20 * Math.abs(Math.cos(i))
    const trial = complete(
      number,
      configuration(i),
      measured(rate, unloadedMs),
      i === 0 ? { purpose: 'default' } : {},
    )
    if (i % 17 === 3) {
      const { number, configuration, why, startedAt, seconds } = trial
      trials.push({
        number,
        configuration,
        why,
        startedAt,
        seconds,
        state: 'infeasible',
        reason: 'out-of-memory',
        detail: 'x',
      })
    } else trials.push(trial)
    if (i % 29 === 5)
      trials.push(
        complete(number + 1, configuration(i), measured(rate * 0.98, 6), {
          purpose: 'confirmation',
        }),
      )
  }
  return trials
}

test('what the contenders say is what all trials say: verdict, gain, what is not settled, and those that come next', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 1e6 }),
      fc.double({ min: 0.05, max: 1, noNaN: true }),
      fc.double({ min: 8, max: 120, noNaN: true }),
      fc.constantFrom(
        ...objectiveKinds.filter(
          (kind) => getRequiredInput(kind) !== 'metric' && kind !== 'min-energy',
        ),
      ),
      (seed, spread, limitMs, kind) => {
        const trials = manyTrials(seed, spread)
        const whatIf = {
          ...pickOwnQuestion(experiment),
          slo: replaceLimit(slo, 0, limitMs),
          objective: createObjective(kind, { demandRps: 5_000, headroom: 0.2, maxPricePerHour: 3 }),
        }
        const ranker = new Ranker(experiment)
        const all = ranker.recommend(trials, whatIf)
        const quick = ranker.recommendQuickly(trials, whatIf)
        // What limits it is told by its neighbours, and notes by all trials: they come with the
        // rest.
        const { alternatives: _, front: __, caveats: ___, binding: ____, ...said } = all
        expect(quick).toMatchObject(said)
        const next = (of: typeof all) =>
          listCandidates(of)
            .slice(0, 20)
            .filter((c) => c.feasible)
        expect(next(quick)).toEqual(next(all))
        expect(listCandidates(quick).length).toBeLessThan(listCandidates(all).length / 2)
      },
    ),
    { numRuns: fc.readConfigureGlobal().numRuns ?? 6 },
  )
})

test('trials that come later are among them, and a question of the same trials again is answered the same', () => {
  const trials = manyTrials(4, 0.5)
  const ranker = new Ranker(experiment)
  const whatIf = pickOwnQuestion(experiment)
  const growing = trials.slice(0, 600)
  const before = ranker.recommendQuickly(growing, whatIf)
  growing.push(
    ...trials.slice(600),
    complete(
      9_999,
      { cpuCores: 1, gpu: 'T4', gpuMemoryPercent: 100, batchSize: 999 },
      measured(50_000, 2),
    ),
  )
  const after = ranker.recommendQuickly(growing, whatIf)
  expect(before.best?.trial).not.toBe(9_999)
  expect(after.best?.trial).toBe(9_999)
  expect(ranker.recommendQuickly(growing, whatIf)).toEqual(after)
})
