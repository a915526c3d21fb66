/** The search of a run: what it reports, what it tries, when it ends. */
import { describe, expect, test } from 'vitest'
import type { Configuration, Suggestion } from '../../search/types.ts'
import { LaunchError } from '../../trials/types.ts'
import type { Experiment } from '../config/types.ts'
import { runFakes } from '../testing/fake-run.ts'
import {
  batchProblem,
  type FakeOverrides,
  fakeExperiment,
  fakeLauncher,
  fakeParts,
  fakePredictor,
  measurement,
  orderedSampler,
} from '../testing/fakes.ts'
import type { TuneEvent } from './events.ts'
import { Ledger } from './ledger.ts'
import { runLoop } from './loop.ts'

const never = new AbortController().signal
const batchesOf = (trials: readonly { readonly configuration: Configuration }[]) =>
  trials.map(({ configuration }) => configuration.batchSize)

/** A run without confirmation. */
async function search(
  overrides: FakeOverrides = {},
  experiment: Partial<Experiment> = {},
  signal = never,
) {
  const { events, result } = await runFakes(overrides, { confirm: false, ...experiment }, signal)
  const { reason, detail, trials } = result
  const eventsOf = <T extends TuneEvent['type']>(type: T) =>
    events.filter((event) => event.type === type) as Extract<TuneEvent, { type: T }>[]
  const messages = () => eventsOf('warning').map(({ message }) => message)
  return {
    ending: { reason, detail },
    trials,
    batches: batchesOf(trials),
    events,
    eventsOf,
    messages,
  }
}

/** Records which configurations the sampler must not suggest. */
function recordingSampler(change: (call: number) => Partial<Suggestion> = () => ({})) {
  const excluded: unknown[][] = []
  const sampler: typeof orderedSampler = {
    name: 'recording',
    suggest: (...options) => {
      excluded.push(options[2].map(({ batchSize }) => batchSize))
      const next = orderedSampler.suggest(...options)
      return next && { ...next, ...change(excluded.length) }
    },
  }
  return { sampler, excluded }
}

/** Fails to launch one batch size. */
const failingLauncher = (failing: number, error: () => Error = () => new LaunchError('no port')) =>
  fakeLauncher(async ({ batchSize }) => {
    if (batchSize === failing) throw error()
    return fakePredictor({ isolation: String(batchSize) })
  })

describe('events of a trial', () => {
  test('report its start, readiness, result, cost and the assessment of the stop rule', async () => {
    const predicted = { rate: 90, low: 80, high: 110, feasible: 1 }
    const { sampler } = recordingSampler(() => ({ predicted }))
    const assessment = { probabilityBetterExists: 0.6, tolerance: 0.05, stop: false }
    const { events, trials } = await search(
      { sampler, assessStop: () => assessment },
      { budget: { maxTrials: 1 } },
    )
    const [trial] = trials
    const label = '{"batchSize":1}'
    const spent = trial!.seconds / 3600
    expect(events.slice(1, -2).map(({ at: _, ...event }) => event)).toEqual([
      {
        type: 'trial-started',
        number: 1,
        suggestion: { configuration: { batchSize: 1 }, why: 'next in order', predicted },
        attempt: 1,
        label,
        pricePerHour: 1,
      },
      { type: 'predictor-ready', number: 1, isolation: '1', seconds: expect.any(Number) },
      {
        type: 'trial-finished',
        trial,
        label,
        pricePerHour: 1,
        retry: false,
        spent: expect.closeTo(spent, 12),
      },
      { type: 'best-changed', number: 1, label, costLabel: '$3.10 per million requests' },
      { type: 'stop-assessed', assessment, afterTrials: 1 },
    ])
  })

  test('announce a new best only when it changes', async () => {
    const load = async ({ isolation }: { isolation: string }) =>
      measurement([0, 300, 200, 0, 400, 0, 0, 0, 350][Number(isolation)] ?? 100)
    const { eventsOf } = await search({ load })
    expect(eventsOf('best-changed').map(({ number }) => number)).toEqual([1, 3])
  })

  test('do not announce the best of the interrupted run again', async () => {
    const first = await search({}, { budget: { maxTrials: 5 } })
    const earlier = first.trials.toReversed().slice(0, 4)
    const events: TuneEvent[] = []
    await runLoop(
      fakeExperiment({ confirm: false }),
      fakeParts(),
      earlier,
      (event) => events.push(event),
      never,
    )
    expect(events.filter(({ type }) => type === 'trial-finished')).toHaveLength(1)
    expect(events.filter(({ type }) => type === 'best-changed')).toEqual([])
  })

  test('contain the warnings of the sampler', async () => {
    const { sampler } = recordingSampler((call) =>
      call === 2 ? { warning: 'the fit fell back' } : {},
    )
    const { messages } = await search({ sampler })
    expect(messages()).toEqual(['the fit fell back'])
  })

  test('number the attempts; the stop rule is not evaluated after a failure', async () => {
    const { eventsOf } = await search(
      { launcher: failingLauncher(1) },
      { budget: { maxTrials: 1 } },
    )
    expect(eventsOf('trial-started').map(({ attempt }) => attempt)).toEqual([1, 2, 3, 1])
    expect(eventsOf('trial-started')[0]!.suggestion).not.toHaveProperty('predicted')
    expect(eventsOf('stop-assessed').map(({ afterTrials }) => afterTrials)).toEqual([1])
    expect(eventsOf('best-changed').map(({ number }) => number)).toEqual([4])
  })
})

describe('the choice of trials', () => {
  test('excludes configurations that run or were given up', async () => {
    const { sampler, excluded } = recordingSampler()
    const launcher = failingLauncher(
      2,
      () => new LaunchError('a shape', undefined, undefined, 'configuration'),
    )
    const { batches } = await search({ sampler, launcher }, { parallel: 2 })
    expect(excluded[0]).toEqual([])
    expect(excluded[1]).toEqual([1])
    expect(excluded.at(-1)).toContain(2)
    expect([...batches].sort((a, b) => Number(a) - Number(b))).toEqual([1, 2, 4, 8, 16])
  })

  test('keeps to the maximum at a time and in total, counting running trials', async () => {
    let running = 0
    let most = 0
    const load = async () => {
      most = Math.max(most, ++running)
      await new Promise((resolve) => setImmediate(resolve))
      running--
      return measurement(100)
    }
    const three = await search({ load }, { parallel: 3, budget: { maxTrials: 4 } })
    expect(three.ending).toEqual({ reason: 'max-trials', detail: '4 trials' })
    expect([most, three.trials.length]).toEqual([3, 4])
    const two = await search({ load }, { parallel: 4, budget: { maxTrials: 2 } })
    expect(two.trials).toHaveLength(2)
  })

  test('avoids an unplaced configuration in this run, and tries it again in a resumed one', async () => {
    const states: string[][] = []
    const sampler: typeof orderedSampler = {
      name: 'recording',
      suggest: (...options) => {
        states.push(options[1].map(({ state }) => state))
        return orderedSampler.suggest(...options)
      },
    }
    const launcher = failingLauncher(
      1,
      () => new LaunchError('no node has a T4', undefined, undefined, 'run'),
    )
    const { ending, trials, batches } = await search(
      { launcher, sampler },
      { budget: { maxTrials: 2 } },
    )
    expect(ending.detail).toContain('one configuration that fitted on no node is not measured')
    expect(batches.filter((batch) => batch === 1)).toHaveLength(1)
    expect(states.at(-1)).toEqual(['infeasible', 'complete'])
    const resumed = new Ledger({ ...fakeParts(), earlier: trials })
    expect(resumed.collectObservations().map(({ state }) => state)).toEqual([
      'complete',
      'complete',
    ])
  })
})

describe('the baseline', () => {
  const deviceModel = { ...batchProblem, priorLogRate: () => 0 }
  const defaultConfiguration = { batchSize: 4 }
  const purposes = ({ trials }: Awaited<ReturnType<typeof search>>) =>
    trials.map(({ purpose }) => purpose)
  const certain = () => ({ probabilityBetterExists: 0.01, tolerance: 0.05, stop: true })

  test('is the first trial where there is no device-model prior', async () => {
    const run = await search({ defaultConfiguration }, { budget: { maxTrials: 2 } })
    expect([run.batches, purposes(run)]).toEqual([
      [4, 1],
      ['default', undefined],
    ])
  })

  test('is the last trial with a device-model prior, within the maximum', async () => {
    const run = await search(
      { defaultConfiguration, problem: deviceModel },
      { budget: { maxTrials: 3 } },
    )
    expect(run.ending).toEqual({ reason: 'max-trials', detail: '3 trials' })
    expect([run.batches, purposes(run)]).toEqual([
      [1, 2, 4],
      [undefined, undefined, 'default'],
    ])
  })

  test('follows a search that the stop rule ended', async () => {
    const run = await search({ defaultConfiguration, problem: deviceModel, assessStop: certain })
    expect(run.ending.reason).toBe('certain')
    expect(run.batches).toEqual([1, 4])
  })

  test('does not take the only trial', async () => {
    const run = await search(
      { defaultConfiguration, problem: deviceModel },
      { budget: { maxTrials: 1 } },
    )
    expect([run.batches, purposes(run)]).toEqual([[1], [undefined]])
  })

  test('is the trial of the search where that suggests the default configuration', async () => {
    const run = await search(
      { defaultConfiguration: { batchSize: 1 }, problem: deviceModel },
      { budget: { maxTrials: 2 } },
    )
    expect([run.batches, purposes(run)]).toEqual([
      [1, 2],
      ['default', undefined],
    ])
  })

  test('runs beside the first trial where trials run in parallel', async () => {
    const { eventsOf } = await search(
      { defaultConfiguration, problem: deviceModel },
      { parallel: 2, budget: { maxTrials: 3 } },
    )
    const started = eventsOf('trial-started').map(({ suggestion }) => suggestion)
    expect(batchesOf(started)).toEqual([1, 4, 2])
  })

  test('is left out once the time limit is reached', async () => {
    const run = await search(
      { defaultConfiguration: { batchSize: 16 }, problem: deviceModel },
      { budget: { maxTrials: 20, timeLimitS: 3 } },
    )
    expect(run.ending.reason).toBe('time-limit')
    expect(run.batches).not.toContain(16)
  })

  test('is retried after a failure, at most three times in total', async () => {
    const run = await search({
      defaultConfiguration,
      problem: deviceModel,
      launcher: failingLauncher(4),
      assessStop: certain,
    })
    expect(run.ending.reason).toBe('certain')
    expect([run.batches, purposes(run)]).toEqual([
      [1, 4, 4, 4],
      [undefined, 'default', 'default', 'default'],
    ])
  })

  test('is repeated after a disturbed attempt although the other trials are used up', async () => {
    const load = async ({ isolation }: { isolation: string }) =>
      isolation === '4'
        ? { ...measurement(0), outcome: 'host-interference' as const, bounds: 'none' as const }
        : measurement(100)
    const run = await search(
      { defaultConfiguration, problem: deviceModel, load },
      { budget: { maxTrials: 3 } },
    )
    expect(run.batches).toEqual([1, 2, 4, 4])
  })
})

describe('the end of a search', () => {
  test('comes at the time limit, counted from the start of the run', async () => {
    // The clock advances by 250 ms each time it is read, which a trial does several times.
    const { ending, trials } = await search({}, { budget: { maxTrials: 20, timeLimitS: 4 } })
    expect(ending.reason).toBe('time-limit')
    expect(trials.length).toBeGreaterThan(1)
    expect(trials.length).toBeLessThan(5)
  })

  test('reports how many configurations were tried where all were', async () => {
    expect((await search()).ending).toEqual({
      reason: 'space-exhausted',
      detail: 'all 5 configurations tried',
    })
  })

  test('comes before the next trial after an interrupt', async () => {
    const controller = new AbortController()
    controller.abort(new Error('Ctrl-C'))
    const { ending, trials } = await search({}, {}, controller.signal)
    expect(ending.reason).toBe('interrupted')
    expect(trials).toEqual([])
  })

  test('after a failure of the store waits for running trials, and stores those that finish', async () => {
    const stopped: string[] = []
    const launcher = fakeLauncher(async ({ batchSize }: Configuration) =>
      fakePredictor({
        isolation: String(batchSize),
        stop: async () => void stopped.push(String(batchSize)),
      }),
    )
    const load = ({ isolation }: { isolation: string }, _: unknown, signal: AbortSignal) =>
      new Promise<ReturnType<typeof measurement>>((resolve, reject) => {
        if (isolation === '1') return resolve(measurement(100))
        // The trial of batch 2 completes although it is aborted.
        signal.addEventListener('abort', () =>
          isolation === '2' ? resolve(measurement(200)) : reject(signal.reason),
        )
      })
    const parts = fakeParts({ launcher, load })
    const { append } = parts.store
    parts.store.append = async (id, trial) => {
      if (trial.configuration.batchSize === 1) throw new Error('disk full')
      await append(id, trial)
    }
    await expect(
      runLoop(fakeExperiment({ parallel: 3 }), parts, [], () => undefined, never),
    ).rejects.toThrow('disk full')
    expect(batchesOf(parts.store.appended)).toEqual([2])
    expect([...new Set(stopped)].sort()).toEqual(['1', '2', '4'])
  })
})

describe('a trial that waits for a node', () => {
  /** Batch 1 waits for its node, until `until` calls back. */
  const waitingLauncher = (until: (nodeAdded: () => void) => void, log: string[]) => ({
    ...fakeLauncher(async () => fakePredictor()),
    launch: async (
      { batchSize }: Configuration,
      _number: number,
      _signal: AbortSignal,
      onWaiting?: (what: string) => void,
    ) => {
      if (batchSize === 1) {
        onWaiting?.('a node (TriggeredScaleUp)')
        await new Promise<void>((resolve) => until(resolve))
      }
      log.push(`${batchSize} serves`)
      return fakePredictor({ isolation: String(batchSize) })
    },
  })

  test('lets one other trial run at a time, and is measured alone once its node is there', async () => {
    const log: string[] = []
    let addNode: () => void = () => undefined
    let measuring = 0
    let most = 0
    const launcher = waitingLauncher((nodeAdded) => {
      addNode = nodeAdded
    }, log)
    const load = async ({ isolation }: { isolation: string }) => {
      most = Math.max(most, ++measuring)
      // The node is added during the measurement of another trial.
      if (isolation === '4') addNode()
      await new Promise((resolve) => setTimeout(resolve, 5))
      measuring--
      log.push(`${isolation} measured`)
      return measurement(100)
    }
    const { batches, messages } = await search({ launcher, load }, { budget: { maxTrials: 4 } })
    expect(most).toBe(1)
    expect(log.indexOf('2 measured')).toBeLessThan(log.indexOf('1 serves'))
    expect(log.indexOf('1 measured')).toBeGreaterThan(log.indexOf('4 measured'))
    expect([...batches].sort()).toEqual([1, 2, 4, 8])
    expect(messages()).toEqual([
      'trial 1 waits for a node (TriggeredScaleUp); others run meanwhile',
    ])
  })

  test('is waited for where it is the only one left', async () => {
    const launcher = waitingLauncher((nodeAdded) => setTimeout(nodeAdded, 30), [])
    const { batches } = await search({ launcher }, { budget: { maxTrials: 1 } })
    expect(batches).toEqual([1])
  })

  test('ends when the run is interrupted', async () => {
    const controller = new AbortController()
    let stops = 0
    const launcher = {
      ...fakeLauncher(async () => fakePredictor()),
      launch: async (
        { batchSize }: Configuration,
        _number: number,
        _signal: AbortSignal,
        onWaiting?: (what: string) => void,
      ) => {
        onWaiting?.('a node')
        if (batchSize === 2) controller.abort(new Error('Ctrl-C'))
        return fakePredictor({ stop: async () => void stops++ })
      },
    }
    const { ending } = await search({ launcher }, {}, controller.signal)
    expect(ending.reason).toBe('interrupted')
    expect(stops).toBeGreaterThanOrEqual(2)
  })
})
