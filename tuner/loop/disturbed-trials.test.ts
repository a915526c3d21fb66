import { expect, test } from 'vitest'
import type { Configuration, Observation, Problem } from '../../search/types.ts'
import type { Experiment } from '../config/types.ts'
import { runFakes } from '../testing/fake-run.ts'
import { measurement } from '../testing/fakes.ts'

const disturbed = {
  ...measurement(0),
  outcome: 'host-interference',
  capacityCi90Rps: [0, Number.POSITIVE_INFINITY],
  bounds: 'none',
} as const

const batches = (trials: readonly { readonly configuration: Configuration }[]) =>
  trials.map(({ configuration }) => configuration.batchSize)

/** A run with disturbed trials, chosen by batch size and by the number of the trial. */
async function run(
  isDisturbed: (batch: number, trial: number) => boolean,
  experiment: Partial<Experiment> = {},
) {
  const observed: (readonly Observation[])[] = []
  const assessStop = (_: Problem, observations: readonly Observation[]) => {
    observed.push([...observations])
    return { probabilityBetterExists: 1, tolerance: 0.05, stop: false }
  }
  let trials = 0
  const load = async ({ isolation }: { isolation: string }) =>
    isDisturbed(Number(isolation), ++trials) ? disturbed : measurement(100 * Number(isolation))
  const { parts, events, result } = await runFakes(
    { load, assessStop },
    { confirm: false, ...experiment },
  )
  return {
    result,
    tried: batches(parts.store.appended),
    observedBatches: batches(observed.at(-1)!),
    busy: events.filter(
      (e) => e.type === 'warning' && e.message.includes('keeps this machine busy'),
    ).length,
    retriedNext: events.filter((e) => e.type === 'trial-finished' && e.retry).length,
  }
}

test.each<[string, (batch: number, trial: number) => boolean, number[], number[], number]>([
  [
    'after each undisturbed trial, four times in total',
    (batch) => batch === 2,
    [1, 2, 2, 4, 2, 8, 2, 16],
    [1, 4, 8, 16],
    1,
  ],
  [
    'after other configurations, where the machine is busy at first',
    (_, trial) => trial < 4,
    [1, 1, 2, 2, 1, 4, 8, 16],
    [2, 1, 4, 8, 16],
    2,
  ],
  [
    'at the end, where nothing else is left to try',
    (batch) => batch === 16,
    [1, 2, 4, 8, 16, 16, 16, 16],
    [1, 2, 4, 8],
    1,
  ],
])(
  'a disturbed trial is retried once at once, and then %s',
  async (_, isDisturbed, tried, observedBatches, retriedNext) => {
    const { result: __, busy: ___, ...seen } = await run(isDisturbed)
    expect(seen).toEqual({ tried, observedBatches, retriedNext })
  },
)

test.each([
  [1, 0],
  [4, 1],
])('after %d disturbed trials the user was warned %d times', async (disturbances, warnings) => {
  const { busy } = await run((_, trial) => trial <= disturbances)
  expect(busy).toBe(warnings)
})

test('disturbed attempts do not count towards the maximum number of trials', async () => {
  const { tried } = await run((batch) => batch === 2, { budget: { maxTrials: 3 } })
  expect(tried).toEqual([1, 2, 2, 4, 2, 8])
})

test('a machine that stays busy ends the run with its results and a hint to resume', async () => {
  const { tried, result } = await run((batch) => batch > 1, { budget: { maxTrials: 6 } })
  expect(tried).toEqual([1, 2, 2, 4, 4, 8, 8])
  expect(result).toMatchObject({
    reason: 'machine-busy',
    detail: expect.stringMatching(/disturbed 6 attempts.*tune resume --max-trials 6/),
    recommendation: { best: { configuration: { batchSize: 1 } } },
  })
})
