import { expect, test } from 'vitest'
import type { Observation, Problem } from '../../search/types.ts'
import { runFakes } from '../testing/fake-run.ts'
import { measurement } from '../testing/fakes.ts'

const disturbed = {
  ...measurement(0),
  outcome: 'disturbed',
  capacityCi90Rps: [0, Number.POSITIVE_INFINITY],
  known: 'nothing',
} as const

test('a disturbed trial says nothing: it is run again, three times, and once more after a trial that the machine left alone', async () => {
  const seen: (readonly Observation[])[] = []
  const assessStop = (_: Problem, observations: readonly Observation[]) => {
    seen.push([...observations])
    return { probabilityBetterExists: 1, tolerance: 0.05, stop: false }
  }
  const run = async (isSpoilt: (batch: number, trial: number) => boolean) => {
    let trials = 0
    const load = async ({ isolation }: { isolation: string }) =>
      isSpoilt(Number(isolation), ++trials) ? disturbed : measurement(100 * Number(isolation))
    const { parts, events } = await runFakes({ load, assessStop }, { confirm: false })
    expect(events.filter((e) => e.type === 'trial-finished' && e.retry)).toHaveLength(2)
    return [
      parts.store.appended.map(({ configuration }) => configuration.batchSize),
      seen.at(-1)!.map(({ configuration }) => configuration.batchSize),
    ]
  }
  // Whatever the rest of the machine does, it is this one that disturbs it: it is given up for
  // good.
  expect(await run((batch) => batch === 2)).toEqual([
    [1, 2, 2, 2, 4, 2, 8, 16],
    [1, 4, 8, 16],
  ])
  // Something else ran for the first three trials: what was thought best comes to its turn.
  expect(await run((_, trial) => trial < 4)).toEqual([
    [1, 1, 1, 2, 1, 4, 8, 16],
    [2, 1, 4, 8, 16],
  ])
})
