import { describe, expect, test } from 'vitest'
import type { Configuration, Suggestion } from '../../search/types.ts'
import { LaunchError } from '../../trials/types.ts'
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
import type { EventBody } from './events.ts'
import { Search } from './search-phase.ts'
import { TrialLog } from './trial-log.ts'

const never = new AbortController().signal
/** A search on its own: no confirmation, nothing recommended at the end. */
function search(
  overrides: FakeOverrides = {},
  experiment: Parameters<typeof fakeExperiment>[0] = {},
  signal = never,
) {
  const parts = fakeParts(overrides)
  const log = new TrialLog({
    objective: batchProblem.objective,
    pricePerHour: () => 1,
    earlier: [],
    withheld: () => new Set(),
  })
  const events: EventBody[] = []
  const running = new Search(
    fakeExperiment(experiment),
    parts,
    log,
    (event) => events.push(event),
    signal,
  )
  const of = <T extends EventBody['type']>(type: T) =>
    events.filter((e) => e.type === type) as Extract<EventBody, { type: T }>[]
  return {
    running,
    parts,
    log,
    events,
    of,
    batches: () => log.trials.map(({ configuration }) => configuration.batchSize),
  }
}
/** What the sampler is asked: the configurations that are taken. */
function listening(of: (n: number) => Partial<Suggestion> = () => ({})) {
  const taken: unknown[][] = []
  const sampler = {
    name: 'listening',
    suggest: (...given: Parameters<typeof orderedSampler.suggest>) => {
      taken.push(given[2].map(({ batchSize }) => batchSize))
      const next = orderedSampler.suggest(...given)
      return next && { ...next, ...of(taken.length) }
    },
  }
  return { sampler, taken }
}

describe('what is told', () => {
  test('of a trial: what is tried and why, that it came up, what it came to, what was spent, what the stop rule believes', async () => {
    const predicted = { rate: 90, low: 80, high: 110, feasible: 1 }
    const { sampler } = listening(() => ({ predicted }))
    const assessment = { probabilityBetterExists: 0.6, tolerance: 0.05, stop: false }
    const { running, events, log } = search(
      { sampler, assessStop: () => assessment },
      { budget: { maxTrials: 1 } },
    )
    await running.run()
    const [trial] = log.trials
    const label = '{"batchSize":1}'
    expect(events).toEqual([
      {
        type: 'trial-started',
        number: 1,
        suggestion: { configuration: { batchSize: 1 }, why: 'next in order', predicted },
        attempt: 1,
        label,
        pricePerHour: 1,
      },
      { type: 'predictor-ready', number: 1, isolation: '1', seconds: expect.any(Number) },
      { type: 'trial-finished', trial, label, pricePerHour: 1, retry: false, spent: log.spent },
      { type: 'best-changed', number: 1, label, costLabel: '$3.10 per million requests' },
      { type: 'stop-assessed', assessment, afterTrials: 1 },
    ])
    expect(log.spent).toBeCloseTo(trial!.seconds / 3600, 12)
    expect(running.assessment).toBe(assessment)
  })

  test('a new best, and only where it changed', async () => {
    const load = async ({ isolation }: { isolation: string }) =>
      measurement([0, 300, 200, 0, 400, 0, 0, 0, 350][Number(isolation)] ?? 100)
    const { running, of } = search({ load })
    await running.run()
    expect(of('best-changed').map(({ number }) => number)).toEqual([1, 3])
  })

  test('not the best that a resumed run knew before', async () => {
    const first = search({}, { budget: { maxTrials: 5 } })
    await first.running.run()
    const parts = fakeParts()
    const log = new TrialLog({
      objective: batchProblem.objective,
      pricePerHour: () => 1,
      earlier: [...first.log.trials].reverse().slice(0, 4),
      withheld: () => new Set(),
    })
    const events: EventBody[] = []
    await new Search(fakeExperiment(), parts, log, (event) => events.push(event), never).run()
    expect(events.filter(({ type }) => type === 'trial-finished')).toHaveLength(1)
    expect(events.filter(({ type }) => type === 'best-changed')).toEqual([])
  })

  test('what the sampler warns of', async () => {
    const { sampler } = listening((n) => (n === 2 ? { warning: 'the fit fell back' } : {}))
    const { running, of } = search({ sampler })
    await running.run()
    expect(of('warning')).toEqual([{ type: 'warning', message: 'the fit fell back' }])
  })

  test('of what has no place now once, as of something to keep away from in this run; a resumed run is told nothing of it', async () => {
    const seen: string[][] = []
    const sampler: typeof orderedSampler = {
      name: 'seeing',
      suggest: (...given) => {
        seen.push(given[1].map(({ state }) => state))
        return orderedSampler.suggest(...given)
      },
    }
    const launcher = fakeLauncher(async ({ batchSize }) => {
      if (batchSize === 1) throw new LaunchError('no node has a T4', undefined, undefined, 'run')
      return fakePredictor({ isolation: String(batchSize) })
    })
    const { running, log } = search({ launcher, sampler }, { budget: { maxTrials: 2 } })
    expect((await running.run()).detail).toContain(
      'one configuration that fitted on no node is not measured',
    )
    expect(log.trials.filter(({ configuration }) => configuration.batchSize === 1)).toHaveLength(1)
    expect(seen.at(-1)).toEqual(['infeasible', 'complete'])
    const options = {
      objective: batchProblem.objective,
      pricePerHour: () => 1,
      withheld: () => new Set<never>(),
    }
    expect(
      new TrialLog({ ...options, earlier: log.trials }).observations().map(({ state }) => state),
    ).toEqual(['complete', 'complete'])
  })

  test('which try it is, from the second on; a failed trial is no reason to ask the stop rule', async () => {
    const launcher = fakeLauncher(async ({ batchSize }) => {
      if (batchSize === 1) throw new LaunchError('no port')
      return fakePredictor({ isolation: String(batchSize) })
    })
    const { running, of } = search({ launcher }, { budget: { maxTrials: 1 } })
    await running.run()
    expect(of('trial-started').map(({ attempt }) => attempt)).toEqual([1, 2, 3, 1])
    expect(of('trial-started')[0]!.suggestion).not.toHaveProperty('predicted')
    expect(of('stop-assessed').map(({ afterTrials }) => afterTrials)).toEqual([1])
    expect(of('best-changed').map(({ number }) => number)).toEqual([4])
  })
})

describe('what is tried', () => {
  test('nothing that runs, and nothing that was given up', async () => {
    const { sampler, taken } = listening()
    const launcher = fakeLauncher(async ({ batchSize }) => {
      if (batchSize === 2) throw new LaunchError('a shape', undefined, undefined, 'configuration')
      return fakePredictor({ isolation: String(batchSize) })
    })
    const { running, batches } = search({ sampler, launcher }, { parallel: 2 })
    await running.run()
    expect(taken[0]).toEqual([])
    expect(taken[1]).toEqual([1])
    expect(taken.at(-1)).toContain(2)
    expect([...batches()].sort((a, b) => Number(a) - Number(b))).toEqual([1, 2, 4, 8, 16])
  })

  test('no more at once than asked, and no more in all: what runs counts', async () => {
    let running = 0
    let most = 0
    const load = async () => {
      most = Math.max(most, ++running)
      await new Promise((resolve) => setImmediate(resolve))
      running--
      return measurement(100)
    }
    const one = search({ load }, { parallel: 3, budget: { maxTrials: 4 } })
    expect(await one.running.run()).toEqual({ reason: 'max-trials', detail: '4 trials' })
    expect([most, one.log.trials.length]).toEqual([3, 4])
    const two = search({ load }, { parallel: 4, budget: { maxTrials: 2 } })
    await two.running.run()
    expect(two.log.trials).toHaveLength(2)
  })
})

describe('the yardstick', () => {
  const physics = { ...batchProblem, priorLogRate: () => 0 }
  const defaultConfiguration = { batchSize: 4 }
  const purposes = ({ log }: ReturnType<typeof search>) => log.trials.map(({ purpose }) => purpose)

  test('is first where nothing says where to begin', async () => {
    const one = search({ defaultConfiguration }, { budget: { maxTrials: 2 } })
    await one.running.run()
    expect([one.batches(), purposes(one)]).toEqual([
      [4, 1],
      ['default', undefined],
    ])
  })

  test('is last where physics does, one of the trials that may run', async () => {
    const one = search({ defaultConfiguration, problem: physics }, { budget: { maxTrials: 3 } })
    expect(await one.running.run()).toEqual({ reason: 'max-trials', detail: '3 trials' })
    expect([one.batches(), purposes(one)]).toEqual([
      [1, 2, 4],
      [undefined, undefined, 'default'],
    ])
  })

  test('follows a search that was sure', async () => {
    const assessStop = () => ({ probabilityBetterExists: 0.01, tolerance: 0.05, stop: true })
    const one = search({ defaultConfiguration, problem: physics, assessStop })
    expect(await one.running.run()).toMatchObject({ reason: 'certain' })
    expect(one.batches()).toEqual([1, 4])
  })

  test('does not take the only trial', async () => {
    const one = search({ defaultConfiguration, problem: physics }, { budget: { maxTrials: 1 } })
    await one.running.run()
    expect([one.batches(), purposes(one)]).toEqual([[1], [undefined]])
  })

  test('is the trial of it that the search asked for', async () => {
    const one = search(
      { defaultConfiguration: { batchSize: 1 }, problem: physics },
      { budget: { maxTrials: 2 } },
    )
    await one.running.run()
    expect([one.batches(), purposes(one)]).toEqual([
      [1, 2],
      ['default', undefined],
    ])
  })

  test('runs beside the first where trials run at once', async () => {
    const one = search(
      { defaultConfiguration, problem: physics },
      { parallel: 2, budget: { maxTrials: 3 } },
    )
    await one.running.run()
    expect(
      one.of('trial-started').map(({ suggestion }) => suggestion.configuration.batchSize),
    ).toEqual([1, 4, 2])
  })

  test('is left out once the time is up', async () => {
    const one = search(
      { defaultConfiguration: { batchSize: 16 }, problem: physics },
      { budget: { maxTrials: 20, timeLimitS: 3 } },
    )
    expect(await one.running.run()).toMatchObject({ reason: 'time-limit' })
    expect(one.batches()).not.toContain(16)
  })

  test('that fails is tried again, three times at most, and the search has ended for all that', async () => {
    const launcher = fakeLauncher(async ({ batchSize }) => {
      if (batchSize === 4) throw new LaunchError('no port')
      return fakePredictor({ isolation: String(batchSize) })
    })
    const assessStop = () => ({ probabilityBetterExists: 0.01, tolerance: 0.05, stop: true })
    const one = search({ defaultConfiguration, problem: physics, launcher, assessStop })
    expect(await one.running.run()).toMatchObject({ reason: 'certain' })
    expect([one.batches(), purposes(one)]).toEqual([
      [1, 4, 4, 4],
      [undefined, 'default', 'default', 'default'],
    ])
  })
})

test('a yardstick that the machine disturbed is tried once more where the trials that may run are spent', async () => {
  const load = async ({ isolation }: { isolation: string }) =>
    isolation === '4'
      ? { ...measurement(0), outcome: 'host-interference' as const, bounds: 'none' as const }
      : measurement(100)
  const one = search(
    {
      defaultConfiguration: { batchSize: 4 },
      problem: { ...batchProblem, priorLogRate: () => 0 },
      load,
    },
    { budget: { maxTrials: 3 } },
  )
  await one.running.run()
  expect(one.batches()).toEqual([1, 2, 4, 4])
})

describe('when it ends', () => {
  test('after so many seconds of its own, whatever the clock said when it began', async () => {
    // The clock goes on by a quarter of a second each time it is looked at: a trial is several
    // looks.
    const { running, log } = search({}, { budget: { maxTrials: 20, timeLimitS: 4 } })
    expect(await running.run()).toMatchObject({ reason: 'time-limit' })
    expect(log.trials.length).toBeGreaterThan(1)
    expect(log.trials.length).toBeLessThan(5)
  })

  test('all were tried: how many', async () => {
    expect(await search().running.run()).toEqual({
      reason: 'space-exhausted',
      detail: 'all 5 configurations tried',
    })
  })

  test('an interrupt is seen before the next trial', async () => {
    const controller = new AbortController()
    const { running, log } = search({}, {}, AbortSignal.any([controller.signal]))
    controller.abort(new Error('Ctrl-C'))
    await expect(running.run()).rejects.toThrow('Ctrl-C')
    expect(log.trials).toEqual([])
  })
})

test('abandoned, what runs is ended, waited for and counted where it finished in spite of it', async () => {
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
      // One is past the point at which it hears of it.
      signal.addEventListener('abort', () =>
        isolation === '2' ? resolve(measurement(200)) : reject(signal.reason),
      )
    })
  const { running, parts, batches } = search({ launcher, load }, { parallel: 3 })
  const { append } = parts.store
  parts.store.append = async (id, trial) => {
    if (trial.configuration.batchSize === 1) throw new Error('disk full')
    await append(id, trial)
  }
  await expect(running.run()).rejects.toThrow('disk full')
  expect(batches()).toEqual([])
  expect(await running.abandon(new Error('disk full'))).toBe(1)
  expect(batches()).toEqual([2])
  expect([...new Set(stopped)].sort()).toEqual(['1', '2', '4'])
})

describe('a trial that waits for a node', () => {
  /** Batch 1 waits until others have been measured, unless nothing else is left. */
  const waitingLauncher = (until: (done: () => void) => void, log: string[]) => ({
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

  test('lets others run meanwhile, one at a time, and is measured in a turn of its own', async () => {
    const log: string[] = []
    let node: () => void = () => undefined
    let measured = 0
    let most = 0
    const launcher = waitingLauncher((done) => {
      node = done
    }, log)
    const load = async ({ isolation }: { isolation: string }) => {
      measured++
      most = Math.max(most, measured)
      // Its node comes in the middle of another's measurement.
      if (isolation === '4') node()
      await new Promise((resolve) => setTimeout(resolve, 5))
      measured--
      log.push(`${isolation} measured`)
      return measurement(100)
    }
    const { running, batches, of } = search(
      { launcher, load },
      { parallel: 1, budget: { maxTrials: 4 } },
    )
    await running.run()
    expect(most).toBe(1)
    expect(log.indexOf('2 measured')).toBeLessThan(log.indexOf('1 serves'))
    expect(log.indexOf('1 measured')).toBeGreaterThan(log.indexOf('4 measured'))
    expect([...batches()].sort()).toEqual([1, 2, 4, 8])
    expect(of('warning')).toEqual([
      {
        type: 'warning',
        message: 'trial 1 waits for a node (TriggeredScaleUp); others run meanwhile',
      },
    ])
  })

  test('is waited for where it is all that is left', async () => {
    const launcher = waitingLauncher((done) => setTimeout(done, 30), [])
    const { running, batches } = search({ launcher }, { parallel: 1, budget: { maxTrials: 1 } })
    await running.run()
    expect(batches()).toEqual([1])
  })

  test('ends with the run', async () => {
    const stopped = new AbortController()
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
        if (batchSize === 2) stopped.abort(new Error('interrupted'))
        return fakePredictor({
          stop: async () => {
            stops++
          },
        })
      },
    }
    const { running } = search({ launcher }, { parallel: 1 }, stopped.signal)
    await expect(running.run()).rejects.toThrow('interrupted')
    await running.abandon(new Error('interrupted'))
    expect(stops).toBeGreaterThanOrEqual(2)
  })
})
