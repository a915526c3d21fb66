/** The whole loop on fakes. */
import type { Experiment } from '../config/types.ts'
import type { TuneEvent } from '../loop/events.ts'
import { runLoop } from '../loop/loop.ts'
import { type FakeOverrides, fakeExperiment, fakeParts } from './fakes.ts'

export async function runFakes(
  overrides: FakeOverrides = {},
  experiment: Partial<Experiment> = {},
  signal = new AbortController().signal,
) {
  const parts = fakeParts(overrides)
  const events: TuneEvent[] = []
  const result = await runLoop(
    fakeExperiment(experiment),
    parts,
    [],
    (event) => events.push(event),
    signal,
  )
  return { parts, events, result }
}
