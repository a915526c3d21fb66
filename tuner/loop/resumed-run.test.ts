/**
 * A run that is killed after any event and resumed ends like an uninterrupted run: the same trials in
 * the same order, the same confirmations, the same recommendation.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import { inspectMachine } from '../../trials/machine/machine-facts.ts'
import {
  type FinishedTrial,
  LaunchError,
  type Launcher,
  type TrialStore,
} from '../../trials/types.ts'
import type { Backend } from '../backends/backend.ts'
import { experimentIn } from '../backends/testing/served.ts'
import { assemble } from '../run/assemble.ts'
import { fakeStore, measurement } from '../testing/fakes.ts'
import { runKilled } from '../testing/killed-run.ts'
import type { LoopParts } from './parts.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-resumed-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const machine = await inspectMachine()

type Disruption = (parts: LoopParts) => Pick<Backend, 'launcher' | 'measure'>

/** Runs an experiment in virtual time, uninterrupted and killed. */
async function simulated(document: object, disrupt: Disruption = ({ backend }) => backend) {
  const experiment = experimentIn(folder, {
    ...{ model: 'bert', slo: '50ms', backend: 'simulated', devices: 'emulated', seed: 1 },
    space: {
      gpu: ['T4', 'L4'],
      cpuCores: [1, 2],
      batchSize: [1, 8, 32],
      gpuMemoryPercent: [50, 100],
    },
    ...document,
  })
  const assembled = await assemble(experiment, 'killed-1', fakeStore(), machine)
  const { launcher, measure } = disrupt({ ...assembled, now: () => 0 })
  const servers = new Map<string, ReturnType<Launcher['launch']>>()
  const measured = new Map<string, ReturnType<Backend['measure']>>()
  const parts: LoopParts = {
    ...assembled,
    write: async () => [],
    now: () => 0,
    backend: {
      ...assembled.backend,
      // A seed gives the same measurement each time, so measure once; only the events are repeated.
      launcher: {
        ...launcher,
        launch: (configuration, number, signal) =>
          once(servers, [configuration, number], () =>
            launcher.launch(configuration, number, signal),
          ),
      },
      measure: async (predictor, task, options) => {
        const { points, ...rest } = await once(measured, [task, options.number], () =>
          measure(predictor, task, { ...options, onStep() {} }, new AbortController().signal),
        )
        for (const point of points.slice(0, 2)) options.onStep(point, 'search')
        return { points, ...rest }
      },
    },
  }
  const end = (kills: readonly number[]) =>
    runKilled(experiment, (store: TrialStore) => ({ ...parts, store }), kills)
  const { events, ...uninterrupted } = await end([])
  return { end, uninterrupted, events: events.length }
}

/** Computes a value once per question. */
function once<T>(known: Map<string, Promise<T>>, question: unknown, make: () => Promise<T>) {
  const key = JSON.stringify(question)
  const found = known.get(key) ?? make()
  known.set(key, found)
  return found
}

/** A trial in one line, for readable failures. */
const inBrief = ({ number, configuration, purpose, state, why }: FinishedTrial) =>
  `${number} ${purpose ?? ''} ${JSON.stringify(configuration)} ${state}: ${why}`

/** Some trials fail, some are disturbed, and the first confirmations are refuted. */
const troubled: Disruption = ({ backend }) => ({
  launcher: {
    ...backend.launcher,
    launch: async (configuration, number, ...rest) => {
      if (number % 5 === 2) throw new LaunchError(`no port for trial ${number}`)
      return backend.launcher.launch(configuration, number, ...rest)
    },
  },
  measure: async (predictor, task, options, signal) => {
    const { number } = options
    const nothing = { capacityRps: 0, bounds: 'none' as const }
    if (task.kind === 'trial' && number % 4 === 3)
      return {
        ...measurement(0),
        ...nothing,
        outcome: 'host-interference',
        capacityCi90Rps: [0, Number.POSITIVE_INFINITY],
      }
    const measured = await backend.measure(predictor, task, options, signal)
    return task.kind === 'confirmation' && number % 3 > 0
      ? {
          ...measured,
          capacityRps: 0.5 * task.rateRps,
          capacityCi90Rps: [0.5 * task.rateRps, 0.6 * task.rateRps],
          bounds: 'both',
        }
      : measured
  },
})

describe('killed after any event and resumed', () => {
  test.each<[string, object, Disruption?]>([
    ['a search that the stop rule ends', { budget: { maxTrials: 12 } }],
    ['a search that ends at the maximum number of trials', { budget: { maxTrials: 4 }, seed: 2 }],
    [
      'failed and disturbed trials, and refuted confirmations',
      { budget: { maxTrials: 7 } },
      troubled,
    ],
    ['the same with another seed and without confirmations', { seed: 5, confirm: false }, troubled],
  ])('%s: all trials equal those of the uninterrupted run', async (_, document, disrupt) => {
    const { end, uninterrupted, events } = await simulated(document, disrupt)
    expect(uninterrupted.trials.length).toBeGreaterThan(2)
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: events }), { minLength: 1, maxLength: 2 }),
        async (kills) => {
          const { events: _, reason, ...resumed } = await end(kills)
          expect(resumed.trials.map(inBrief)).toEqual(uninterrupted.trials.map(inBrief))
          const { reason: expected, ...same } = uninterrupted
          expect(isDeepStrictEqual(resumed, same), 'to the last figure').toBe(true)
          // Undefined: the last process died after it had stored the result.
          expect([expected, undefined]).toContain(reason)
        },
      ),
      { numRuns: fc.readConfigureGlobal().numRuns ?? 3 },
    )
  })
})

test('parallel trials that were under way are repeated, each under its number', async () => {
  const { end, events } = await simulated({ budget: { maxTrials: 6 }, parallel: 2 })
  for (let kill = 1; kill < events; kill += 5) {
    const begun = new Map<number, unknown>()
    const resumed = await end([kill])
    for (const event of resumed.events)
      if (event.type === 'trial-started') {
        const { configuration } = event.suggestion
        expect(begun.get(event.number) ?? configuration).toEqual(configuration)
        begun.set(event.number, configuration)
      }
    const trials = resumed.trials.filter(({ purpose }) => purpose !== 'confirmation')
    expect(trials.map(({ number }) => number)).toEqual([...begun.keys()].sort((a, b) => a - b))
  }
})
