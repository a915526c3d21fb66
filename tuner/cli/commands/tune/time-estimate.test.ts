import { describe, expect, test } from 'vitest'
import { findArchitecture } from '../../../../trials/devices/architecture.ts'
import { createSimulatedLauncher } from '../../../../trials/launchers/simulated/simulated-launcher.ts'
import { inspectMachine } from '../../../../trials/machine/machine-facts.ts'
import type { FinishedTrial } from '../../../../trials/types.ts'
import type { Backend } from '../../../backends/backend.ts'
import { createLoadWork, runLoadWork } from '../../../backends/load-work.ts'
import { createSimulatedBackend } from '../../../backends/simulated-backend.ts'
import { bert, useWorkspace } from '../../../config/testing/workspace.ts'
import { runLoop } from '../../../loop/loop.ts'
import { assemble } from '../../../run/assemble.ts'
import { fakeStore } from '../../../testing/fakes.ts'
import { VirtualClock } from '../../../testing/virtual-clock.ts'
import { compareExperiments, estimateRunTime, noEarlierTrials } from './time-estimate.ts'

const { load, loadFile } = useWorkspace()
const took = (...seconds: number[]) => ({
  trials: seconds.map(
    (each) =>
      ({ state: 'complete', seconds: each, usage: { launchSeconds: each / 10 } }) as FinishedTrial,
  ),
  level: 'trials' as const,
})

describe('how long a run takes', () => {
  test('a server that was never started: its trials, its starts, and up to four confirmations', () => {
    const { expectedSeconds, maxSeconds, basis } = estimateRunTime(
      load({ ...bert, maxTrials: '10' }),
      500,
      noEarlierTrials,
    )
    // 10 trials of 3 s under open load, 4.5 s of loops and a start of 2 s; a confirmation of 30 s,
    // 3 s of warm-up, and its start.
    expect(expectedSeconds).toBeCloseTo(10 * 9.5 + 30 + 3 + 2)
    expect(maxSeconds).toBeCloseTo(10 * 19 + 4 * (90 + 3 + 10 + 4))
    expect(basis).toContain('for each of up to 14 starts')
  })

  test('a server that was: as its trials took, and its start in the confirmation too', () => {
    const { trials } = took(40, 60)
    const others = [
      { state: 'failed', seconds: 1 },
      { state: 'complete', purpose: 'confirmation', seconds: 900 },
    ] as FinishedTrial[]
    const found = estimateRunTime(load({ ...bert, maxTrials: '10' }), 500, {
      trials: [...trials, ...others],
      level: 'trials',
    })
    expect(found.parts.start).toEqual({ about: 5, atMost: 6 })
    expect(found.expectedSeconds).toBeCloseTo(10 * 50 + 30 + 3 + 5)
    expect(found.maxSeconds).toBeCloseTo(10 * 60 + 4 * (90 + 3 + 10 + 6))
    expect(found.basis).toBe('as its last 2 trials took, 50 s each')
    // Confirmations of the same length are taken as they were, all together.
    const alike = estimateRunTime(load({ ...bert, maxTrials: '10' }), 500, {
      trials: [...trials, ...others],
      level: 'confirmations',
    })
    expect(alike.expectedSeconds).toBeCloseTo(10 * 50 + 900)
    expect(alike.maxSeconds).toBeCloseTo(10 * 60 + 900)
  })

  test('of a server whose trials were of another length its start is known', () => {
    const { expectedSeconds, basis } = estimateRunTime(load({ ...bert, maxTrials: '10' }), 500, {
      ...took(400),
      level: 'start',
    })
    expect(expectedSeconds).toBeCloseTo(10 * (3 + 4.5 + 40) + 30 + 3 + 40)
    expect(basis).toBe('trials of 48 s each, including 40 s to start the server, as last time')
  })

  test('a server that runs is started by nobody; what is read of it takes its time', () => {
    const url = (more = '') =>
      loadFile(
        `model: m\nslo: 50ms\npredictor: {url: "http://h:1", protocol: json, path: /p}\n${more}`,
      )
    const { expectedSeconds, basis } = estimateRunTime(url(), 1, noEarlierTrials)
    expect(expectedSeconds).toBeCloseTo(7.5 + 33)
    expect(basis).toContain('the server is already running')
    expect(
      estimateRunTime(url('metrics: depth\n'), 1, noEarlierTrials).expectedSeconds,
    ).toBeCloseTo(7.5 + 33 + 2 * 3)
  })

  test('what cannot be known is named', () => {
    const { basis } = estimateRunTime(
      loadFile(
        'model: m\nslo: 50ms\npredictor: {command: [serve, "${prepared}"], prepare: [build], protocol: json, path: /p}\nload: {warmUp: 9}\n',
      ),
      1,
      noEarlierTrials,
    )
    expect(basis).toMatch(
      /starts, and so does the time of its prepare step and its warm-up requests$/,
    )
  })

  test('a space smaller than the budget, trials at once, no confirmation', () => {
    const four = estimateRunTime(load({ ...bert, confirm: false }), 4, took(10))
    expect(four.expectedSeconds).toBe(40)
    expect(
      estimateRunTime(load({ ...bert, confirm: false, parallel: '3' }), 4, took(10))
        .expectedSeconds,
    ).toBe(20)
  })

  test('a limit ends the search, after the trials that are under way; the confirmation follows', () => {
    const limited = (confirm: boolean) =>
      estimateRunTime(load({ ...bert, timeLimit: '30s', confirm }), 400, took(10)).expectedSeconds
    expect(limited(false)).toBe(40)
    expect(limited(true)).toBeCloseTo(40 + 30 + 3 + 1)
  })

  test('simulated time is not waited for', () => {
    const { expectedSeconds, maxSeconds, basis } = estimateRunTime(
      load({ ...bert, backend: 'simulated' }),
      500,
      took(90),
    )
    expect(expectedSeconds).toBeLessThan(15)
    expect(maxSeconds).toBeLessThan(60)
    expect(basis).toContain('simulated')
  })

  test('the same server is one that is started in the same way; its trials tell of others of their length', () => {
    const record = (flags: Record<string, string>) => ({
      spec: JSON.parse(JSON.stringify(load({ ...bert, ...flags }).document)),
    })
    expect(compareExperiments(record({}), load({ ...bert, slo: '90ms', maxTrials: '3' }))).toBe(
      'confirmations',
    )
    expect(compareExperiments(record({}), load({ ...bert, confirmTime: '9s' }))).toBe('trials')
    expect(compareExperiments(record({}), load({ ...bert, trialTime: '9s' }))).toBe('start')
    expect(compareExperiments(record({}), load({ ...bert, model: 'resnet50' }))).toBeUndefined()
    expect(compareExperiments(record({ backend: 'simulated' }), load(bert))).toBeUndefined()
  })
})

describe('whole runs in virtual time', () => {
  const launchS = 40
  const flags = { ...bert, gpus: 'T4,V100', cores: '1,2', batch: '1,8,32' }

  /**
   * Trials have the search that real servers are measured by, and its length; starts and loads take
   * the clock's time.
   */
  async function run(seed: number) {
    const experiment = load({ ...flags, backend: 'simulated', seed: String(seed) })
    const clock = new VirtualClock()
    const launcher = createSimulatedLauncher({
      architecture: findArchitecture(experiment.model.architecture),
      seed,
    })
    const parts = await assemble(experiment, `seed-${seed}`, fakeStore(), await inspectMachine())
    const backend: Backend = {
      ...createSimulatedBackend(experiment),
      launcher: {
        ...launcher,
        launch: async (...asked) => {
          await clock.sleep(launchS)
          const predictor = await launcher.launch(...asked)
          return {
            ...predictor,
            usage: async () => ({ ...(await predictor.usage()), launchSeconds: launchS }),
          }
        },
      },
      measure: async ({ target }, task, { number, onStep }, signal) => {
        const measurement = await runLoadWork(createLoadWork(experiment, task, number), {
          target,
          slo: experiment.slo,
          signal,
          onStep,
        })
        await clock.sleep(measurement.seconds)
        return measurement
      },
    }
    const looped = { ...parts, backend, now: () => clock.now, write: async () => [] }
    const { trials } = await clock.pass(
      runLoop(experiment, looped, [], () => undefined, new AbortController().signal),
    )
    return { trials, seconds: clock.now / 1000, spaceSize: parts.spaceSize }
  }

  test('what was stated before holds, once a start was seen: launches, warm-up, windows and confirmations are all in it', async () => {
    const seed = 1
    const { trials, seconds, spaceSize } = await run(seed)
    const searched = trials.filter(({ purpose }) => purpose !== 'confirmation')
    const confirmed = trials.filter(({ purpose }) => purpose === 'confirmation')
    expect(confirmed.length).toBeGreaterThan(0)
    // As the first trial told of its start, with as many trials as there were.
    const planned = load({ ...flags, seed: String(seed), maxTrials: String(searched.length) })
    const { parts, expectedSeconds, maxSeconds } = estimateRunTime(planned, spaceSize, {
      trials: searched.slice(0, 1),
      level: 'start',
    })
    expect(parts.start).toEqual({ about: launchS, atMost: launchS })
    for (const each of searched) expect(each.seconds).toBeLessThanOrEqual(parts.trial.atMost)
    expect(confirmed.reduce((sum, each) => sum + each.seconds, 0)).toBeLessThanOrEqual(
      parts.confirmation.atMost,
    )
    expect(seconds).toBeLessThanOrEqual(maxSeconds)
    expect(expectedSeconds / seconds).toBeGreaterThan(0.75)
    expect(expectedSeconds / seconds).toBeLessThan(1.33)
  })
})
