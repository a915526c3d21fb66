import { expect, test } from 'vitest'
import type { Configuration, Observation, Problem } from '../../search/types.ts'
import type { Experiment } from '../experiment/types.ts'
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

/** A run in which the machine disturbs some trials, by batch and by how many came before. */
async function run(
  isDisturbed: (batch: number, trial: number) => boolean,
  experiment: Partial<Experiment> = {},
) {
  const taught: (readonly Observation[])[] = []
  const assessStop = (_: Problem, observations: readonly Observation[]) => {
    taught.push([...observations])
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
    learned: batches(taught.at(-1)!),
    busy: events.filter(
      (e) => e.type === 'warning' && e.message.includes('keeps this machine busy'),
    ).length,
    retriedNext: events.filter((e) => e.type === 'trial-finished' && e.retry).length,
  }
}

test.each<[string, (batch: number, trial: number) => boolean, number[], number[], number]>([
  [
    'after each trial that the machine leaves alone, four times in all',
    (batch) => batch === 2,
    [1, 2, 2, 4, 2, 8, 2, 16],
    [1, 4, 8, 16],
    1,
  ],
  [
    'after others where the machine was busy at first',
    (_, trial) => trial < 4,
    [1, 1, 2, 2, 1, 4, 8, 16],
    [2, 1, 4, 8, 16],
    2,
  ],
  [
    'at last where nothing else is left to try',
    (batch) => batch === 16,
    [1, 2, 4, 8, 16, 16, 16, 16],
    [1, 2, 4, 8],
    1,
  ],
])(
  'a disturbed trial says nothing: it is retried once, then others come first, and it is tried again %s',
  async (_, isDisturbed, tried, learned, retriedNext) => {
    const { result: __, busy: ___, ...seen } = await run(isDisturbed)
    expect(seen).toEqual({ tried, learned, retriedNext })
  },
)

test.each([
  [1, 0],
  [4, 1],
])('a machine that disturbs %d trials is warned of %d times', async (disturbances, warnings) => {
  const { busy } = await run((_, trial) => trial <= disturbances)
  expect(busy).toBe(warnings)
})

test('disturbed attempts take no place of the trials that may run', async () => {
  const { tried } = await run((batch) => batch === 2, { budget: { maxTrials: 3 } })
  expect(tried).toEqual([1, 2, 2, 4, 2, 8])
})

test('a machine that stays busy ends the run, which keeps what was measured and says how to go on', async () => {
  const { tried, result } = await run((batch) => batch > 1, { budget: { maxTrials: 6 } })
  expect(tried).toEqual([1, 2, 2, 4, 4, 8, 8])
  expect(result).toMatchObject({
    reason: 'machine-busy',
    detail: expect.stringMatching(/disturbed 6 attempts.*tune resume --max-trials 6/),
    recommendation: { best: { configuration: { batchSize: 1 } } },
  })
})
