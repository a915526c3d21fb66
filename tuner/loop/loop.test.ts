import { describe, expect, test } from 'vitest'
import type { Observation, Problem } from '../../search/types.ts'
import { type FinishedTrial, InfeasibleError, LaunchError } from '../../trials/types.ts'
import { runFakes } from '../testing/fake-run.ts'
import {
  batchProblem,
  fakeExperiment,
  fakeLauncher,
  fakeParts,
  fakePredictor,
  measurement,
} from '../testing/fakes.ts'
import type { TuneEvent } from './events.ts'
import { runLoop } from './loop.ts'
import type { LoopParts } from './parts.ts'

const never = new AbortController().signal

describe('a run', () => {
  test('tries the space, confirms and recommends the best, and stores each trial before the next one', async () => {
    const { result, parts, events } = await runFakes()
    expect(result.reason).toBe('space-exhausted')
    expect(result.recommendation.best?.configuration).toEqual({ batchSize: 16 })
    expect(parts.store.appended.map((t) => t.purpose ?? 'search')).toEqual([
      'search',
      'search',
      'search',
      'search',
      'search',
      'confirmation',
    ])
    expect(parts.store.finished).toBe('done')
    const order = events
      .filter((e) => e.type === 'trial-started' || e.type === 'trial-finished')
      .map((e) => e.type)
    expect(order).toEqual(
      Array.from({ length: 10 }, (_, i) => (i % 2 === 0 ? 'trial-started' : 'trial-finished')),
    )
  })

  test('reports its plan first and its recommendation last, with timestamps', async () => {
    const written: unknown[][] = []
    const write = async (...given: unknown[]) => {
      written.push(given)
      return ['a.json']
    }
    const { events, result, parts } = await runFakes(
      { write, notices: ['emulated'] },
      { budget: { maxTrials: 3 }, load: { confirmSeconds: 30 } as never },
    )
    expect(events[0]).toEqual({
      at: '2026-01-01T00:00:00.250Z',
      type: 'experiment-started',
      experimentId: 'fake-1',
      name: 'fake',
      provenance: 'emulated',
      seed: 1,
      slo: { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 },
      maxTrials: 3,
      spaceSize: 5,
      notices: ['emulated'],
      resumedTrials: 0,
      countedTrials: 0,
      confirmSeconds: 30,
    })
    expect(events.at(-2)).toMatchObject({ type: 'stopped', reason: 'max-trials' })
    expect(events.at(-1)).toMatchObject({
      type: 'recommended',
      recommendation: result.recommendation,
      files: ['a.json'],
    })
    expect(written).toEqual([[result.recommendation, result.trials]])
    expect(result.trials).toEqual(parts.store.appended)
    const times = events.map(({ at }) => at)
    expect(times).toEqual([...times].sort())
  })

  test.each<
    [
      string,
      Parameters<typeof fakeParts>[0],
      Parameters<typeof fakeExperiment>[0],
      number | undefined,
    ]
  >([
    ['is announced with its duration', {}, { confirm: true }, 1],
    ['is not announced where it is disabled', {}, { confirm: false }, undefined],
    ['has no duration in virtual time', { provenance: 'simulated' }, { confirm: true }, undefined],
  ])('a confirmation %s', async (_, parts, experiment, seconds) => {
    const { events } = await runFakes(parts, { ...experiment, budget: { maxTrials: 1 } })
    expect(events[0]).toMatchObject({ type: 'experiment-started' })
    expect((events[0] as { confirmSeconds?: number }).confirmSeconds).toBe(seconds)
  })

  test('confirms nothing after a failed search', async () => {
    let tries = 0
    const launcher = fakeLauncher(async () => {
      if (++tries > 1) throw new LaunchError('gone', undefined, undefined, 'experiment')
      return fakePredictor({ isolation: '1' })
    })
    const { parts, result } = await runFakes({ launcher })
    expect(result.reason).toBe('failed')
    expect(parts.store.appended.filter((t) => t.purpose === 'confirmation')).toEqual([])
  })

  test('measures the default configuration first, as the baseline', async () => {
    const { parts } = await runFakes({ defaultConfiguration: { batchSize: 4 } })
    expect(parts.store.appended[0]).toMatchObject({
      configuration: { batchSize: 4 },
      purpose: 'default',
      number: 1,
    })
    expect(parts.store.appended.filter((t) => t.configuration.batchSize === 4)).toHaveLength(1)
  })

  test('prunes trials at the capacity that would cost as much as the best, except the baseline', async () => {
    const toBeat: (number | undefined)[] = []
    const parts = fakeParts({
      defaultConfiguration: { batchSize: 4 },
      problem: { ...batchProblem, pricePerHour: ({ batchSize }) => 0.36 + Number(batchSize) },
    })
    const measure = parts.backend.measure
    const backend: typeof parts.backend = {
      ...parts.backend,
      measure: (predictor, task, options, signal) => {
        if (task.kind === 'trial') toBeat.push(task.capacityToBeatRps)
        return measure(predictor, task, options, signal)
      },
    }
    await runLoop(
      fakeExperiment({ confirm: false, budget: { maxTrials: 3 } }),
      { ...parts, backend },
      [],
      () => undefined,
      never,
    )
    // Batch 4 serves 400 req/s at $4.36 per hour. Batch 1, at $1.36, must serve 1.36 / 4.36 of that,
    // and so on.
    expect(toBeat[0]).toBeUndefined()
    expect(toBeat[1]).toBeCloseTo((400 / 4.36) * 1.36, 9)
    expect(toBeat[2]).toBeCloseTo((400 / 4.36) * 2.36, 9)
  })

  test('records and counts infeasible trials, and does not retry them', async () => {
    const launcher = fakeLauncher(async (configuration) => {
      if (Number(configuration.batchSize) >= 8)
        throw new InfeasibleError('out-of-memory', 'needs 9 GiB')
      return fakePredictor({ isolation: String(configuration.batchSize) })
    })
    const { result, parts } = await runFakes({ launcher })
    expect(result.recommendation.best?.configuration).toEqual({ batchSize: 4 })
    expect(
      parts.store.appended
        .filter((t) => t.state === 'infeasible')
        .map((t) => t.configuration.batchSize),
    ).toEqual([8, 16])
  })

  test('retries a failed trial, and gives its configuration up after three attempts', async () => {
    const launcher = fakeLauncher(async (configuration) => {
      if (configuration.batchSize === 2) throw new LaunchError('no port')
      return fakePredictor({ isolation: String(configuration.batchSize) })
    })
    const { parts, events, result } = await runFakes({ launcher })
    const failed = parts.store.appended.filter((t) => t.state === 'failed')
    expect(failed.map((t) => t.configuration.batchSize)).toEqual([2, 2, 2])
    expect(events.filter((e) => e.type === 'trial-finished' && e.retry)).toHaveLength(2)
    expect(result.reason).toBe('space-exhausted')
  })

  test('ends after four failures in a row, with the last error', async () => {
    const launcher = fakeLauncher(async () => {
      throw new LaunchError('command not found: gunicorn')
    })
    const { result, parts, events } = await runFakes({ launcher })
    expect(result.reason).toBe('failed')
    expect(parts.store.appended).toHaveLength(4)
    expect(parts.store.finished).toBe('failed')
    expect(events.find((e) => e.type === 'stopped')).toMatchObject({
      detail: expect.stringContaining('command not found: gunicorn'),
    })
  })

  test('does not retry a failure that is final for a configuration or for the experiment', async () => {
    const refusing = fakeLauncher(async ({ batchSize }) => {
      if (batchSize === 2)
        throw new LaunchError('expected shape [8]', undefined, undefined, 'configuration')
      return fakePredictor({ isolation: String(batchSize) })
    })
    const one = await runFakes({ launcher: refusing })
    expect(one.parts.store.appended.filter((t) => t.state === 'failed')).toHaveLength(1)
    expect(one.result.reason).toBe('space-exhausted')
    const wrong = fakeLauncher(async () => {
      throw new LaunchError('it speaks another protocol', undefined, undefined, 'experiment')
    })
    const all = await runFakes({ launcher: wrong })
    expect(all.parts.store.appended).toHaveLength(1)
    expect(all.events.find((e) => e.type === 'stopped')).toMatchObject({
      reason: 'failed',
      detail: 'every other trial would fail like trial 1',
    })
  })

  test.each([
    ['max-trials', { budget: { maxTrials: 2 } }, 2],
    ['time-limit', { budget: { maxTrials: 20, timeLimitS: 2 } }, undefined],
    ['budget', { budget: { maxTrials: 20, maxCost: 1e-9 } }, 1],
  ] as const)('stops for the reason %s', async (reason, experiment, trials) => {
    const { result } = await runFakes({}, { ...experiment, confirm: false })
    expect(result.reason).toBe(reason)
    if (trials !== undefined) expect(result.trials).toHaveLength(trials)
    else expect(result.trials.length).toBeLessThan(5)
  })

  test('stops when the stop rule says so', async () => {
    const assessStop = (_: Problem, observations: readonly unknown[]) => ({
      probabilityBetterExists: observations.length >= 3 ? 0.02 : 0.5,
      tolerance: 0.05,
      stop: observations.length >= 3,
    })
    const { result, events } = await runFakes({ assessStop })
    expect(result.reason).toBe('certain')
    expect(events.find((e) => e.type === 'stopped')).toMatchObject({
      detail: expect.stringContaining('98 %'),
    })
  })

  test('runs the requested number of trials in parallel, never more', async () => {
    let running = 0
    let most = 0
    const load = async () => {
      running += 1
      most = Math.max(most, running)
      await new Promise((resolve) => setImmediate(resolve))
      running -= 1
      return measurement(100)
    }
    const { result } = await runFakes({ load }, { parallel: 3 })
    expect(most).toBe(3)
    expect(new Set(result.trials.map((t) => t.number)).size).toBe(result.trials.length)
  })

  test('continues a resumed experiment with the next number and its measured trials', async () => {
    const first = await runFakes({}, { budget: { maxTrials: 3 }, confirm: false })
    const parts = fakeParts()
    const result = await runLoop(
      fakeExperiment({ confirm: false }),
      parts,
      first.result.trials,
      () => undefined,
      never,
    )
    expect(parts.store.appended.map((t) => [t.number, t.configuration.batchSize])).toEqual([
      [4, 8],
      [5, 16],
    ])
    expect(result.trials).toHaveLength(5)
  })

  const disturbed = {
    ...measurement(100),
    outcome: 'host-interference',
    capacityRps: 0,
    capacityCi90Rps: [0, Number.POSITIVE_INFINITY],
  } as const
  const batches = (trials: readonly { readonly configuration: Record<string, unknown> }[]) =>
    trials.map((t) => t.configuration.batchSize)

  test.each([
    [
      'the load generator was the limit at every rate',
      {
        outcome: 'generator-limit',
        capacityCi90Rps: [0, Number.POSITIVE_INFINITY],
        bounds: 'none',
      },
    ],
    [
      'the server died',
      { outcome: 'server-died', capacityCi90Rps: [0, Number.POSITIVE_INFINITY], bounds: 'none' },
    ],
  ] as const)('tries a configuration again after a resumption where %s', async (_, invalid) => {
    const first = await runFakes({}, { budget: { maxTrials: 3 }, confirm: false })
    const [one, two, three] = first.result.trials as [FinishedTrial, FinishedTrial, FinishedTrial]
    const earlier = [
      one,
      {
        ...two,
        measurement: { ...measurement(100), ...invalid, capacityRps: 0 },
      } as FinishedTrial,
      three,
    ]
    const parts = fakeParts()
    await runLoop(fakeExperiment({ confirm: false }), parts, earlier, () => undefined, never)
    expect(batches(parts.store.appended)).toEqual([2, 8, 16])
  })

  test('fails without a statement of confidence where no predictor ever started', async () => {
    const launcher = fakeLauncher(async () => {
      throw new InfeasibleError('crashed', 'exit code 7; last lines: no such model')
    })
    const assessStop = () => ({ probabilityBetterExists: 0, tolerance: 0.05, stop: true })
    const { result, events } = await runFakes(
      { launcher, assessStop },
      { budget: { maxTrials: 2 } },
    )
    expect(result.reason).toBe('failed')
    expect(result.recommendation.confidence.probabilityWithinTolerance).toBeUndefined()
    expect(events.find((e) => e.type === 'stopped')).toMatchObject({
      detail: expect.stringContaining('last lines: no such model'),
    })
  })

  test('tries a configuration whose requests all fail twice, and observes it as infeasible', async () => {
    const observed: (readonly Observation[])[] = []
    const assessStop = (_: Problem, observations: readonly Observation[]) => {
      observed.push([...observations])
      return { probabilityBetterExists: 1, tolerance: 0.05, stop: false }
    }
    const refused = {
      ...measurement(0),
      outcome: 'errors',
      detail: '30 of 30 requests failed (status 503 × 30)',
    } as const
    const load = async ({ isolation }: { isolation: string }) =>
      isolation === '2' ? refused : measurement(100 * Number(isolation))
    const { parts } = await runFakes({ load, assessStop }, { confirm: false })
    expect(batches(parts.store.appended)).toEqual([1, 2, 2, 4, 8, 16])
    const observation = observed.at(-1)!.find(({ configuration }) => configuration.batchSize === 2)
    expect(observation).toMatchObject({
      state: 'infeasible',
      reason: expect.stringContaining('status 503 × 30'),
    })
  })

  test('does not count failed trials and confirmations of an interrupted run towards the maximum', async () => {
    const first = await runFakes({}, { budget: { maxTrials: 2 } })
    const [one, two, ...rest] = first.result.trials as [FinishedTrial, ...FinishedTrial[]]
    const failed = {
      ...two!,
      state: 'failed',
      error: 'no node',
      measurement: undefined,
    } as unknown as FinishedTrial
    expect(rest.some(({ purpose }) => purpose === 'confirmation')).toBe(true)
    const started: TuneEvent[] = []
    await runLoop(
      fakeExperiment({ confirm: false, budget: { maxTrials: 2 } }),
      fakeParts(),
      [one, failed, ...rest],
      (e) => started.push(e),
      never,
    )
    expect(started[0]).toMatchObject({
      type: 'experiment-started',
      resumedTrials: 2 + rest.length,
      countedTrials: 1,
    })
    expect(started.filter(({ type }) => type === 'trial-started')).toHaveLength(1)
  })

  test('repeats a disturbed confirmation once', async () => {
    const measure = async (predictor: { isolation: string }, task: { kind: string }) =>
      task.kind === 'trial' ? measurement(100 * Number(predictor.isolation)) : disturbed
    const { backend } = fakeParts()
    const { parts, result } = await runFakes({ backend: { ...backend, measure } })
    const confirmations = parts.store.appended.filter((t) => t.purpose === 'confirmation')
    expect(batches(confirmations)).toEqual([16, 16])
    expect(result.reason).toBe('space-exhausted')
  })

  test('does not repeat the confirmation of an earlier run', async () => {
    const first = await runFakes()
    const again = fakeParts()
    await runLoop(fakeExperiment(), again, first.result.trials, () => undefined, never)
    expect(again.store.appended).toEqual([])
  })

  test('confirms at a rate below the estimate, and does not count the confirmation as a trial', async () => {
    const ratesRps: number[] = []
    const { backend } = fakeParts()
    const measure: typeof backend.measure = async (predictor, task, ...rest) => {
      if (task.kind !== 'trial') ratesRps.push(task.rateRps)
      return backend.measure(predictor, task, ...rest)
    }
    const { events } = await runFakes(
      { backend: { ...backend, measure } },
      { budget: { maxTrials: 5 } },
    )
    expect(ratesRps).toHaveLength(1)
    expect(ratesRps[0]! / 1600).toBeGreaterThan(0.85)
    expect(ratesRps[0]! / 1600).toBeLessThan(1)
    expect(events.find((e) => e.type === 'stopped')).toMatchObject({
      reason: 'max-trials',
      detail: '5 trials',
    })
  })

  describe('a refuted confirmation', () => {
    /**
     * The stop rule ends the search after a trial with 150 req/s or more. Batches of 1 and 2 measure
     * 160 and 150, and the confirmation of the first finds 90.
     */
    const satisfied: LoopParts['assessStop'] = (_, observations) => {
      const stop = observations.some(
        (one) => one.state === 'complete' && (one.rate?.value ?? 0) >= 150,
      )
      return { probabilityBetterExists: stop ? 0.01 : 0.5, tolerance: 0.05, stop }
    }
    const load = async ({ isolation }: { isolation: string }) =>
      measurement(isolation === '1' ? 160 : 150)
    const { backend } = fakeParts({ load })
    const measure: typeof backend.measure = async (predictor, task, ...rest) =>
      task.kind !== 'trial' && predictor.isolation === '1'
        ? { ...measurement(90), capacityCi90Rps: [90, 110] }
        : backend.measure(predictor, task, ...rest)

    test('is an observation: a search that ended by a prediction continues, and so do confirmations', async () => {
      const { parts, result } = await runFakes({
        assessStop: satisfied,
        backend: { ...backend, measure },
      })
      expect(
        parts.store.appended.map(({ configuration, purpose }) => [
          configuration.batchSize,
          purpose ?? 'search',
        ]),
      ).toEqual([
        [1, 'search'],
        [1, 'confirmation'],
        [2, 'search'],
        [2, 'confirmation'],
      ])
      expect(result.reason).toBe('certain')
      expect(result.recommendation.best).toMatchObject({
        configuration: { batchSize: 2 },
        status: 'met',
      })
    })

    test('continues the search in a resumed run too', async () => {
      const first = await runFakes(
        { assessStop: satisfied, backend: { ...backend, measure } },
        { budget: { maxTrials: 1 } },
      )
      expect(first.result.trials).toHaveLength(2)
      const again = fakeParts({ assessStop: satisfied, load })
      await runLoop(fakeExperiment(), again, first.result.trials, () => undefined, never)
      expect(again.store.appended[0]).toMatchObject({ configuration: { batchSize: 2 } })
    })

    test('starts nothing once the maximum number of trials is reached', async () => {
      const { parts } = await runFakes(
        { assessStop: satisfied, backend: { ...backend, measure } },
        { budget: { maxTrials: 1 } },
      )
      expect(batches(parts.store.appended)).toEqual([1, 1])
    })
  })
})
