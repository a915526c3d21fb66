import { expect, test } from 'vitest'
import type { Configuration } from '../../search/types.ts'
import { InfeasibleError, LaunchError, type Launcher, type Predictor } from '../../trials/types.ts'
import {
  batchProblem,
  type FakeOverrides,
  fakeExperiment,
  fakeLauncher,
  fakeParts,
  fakePredictor,
  loadPoint,
  measurement,
  orderedSampler,
} from '../testing/fakes.ts'
import type { EventBody } from './events.ts'
import { LaunchAhead } from './launch-ahead.ts'
import { Search } from './search-phase.ts'
import { TrialLog } from './trial-log.ts'

const never = new AbortController().signal
const request = { number: 7, configuration: { batchSize: 2 }, why: 'next', attempt: 1 }

/**
 * What happens in the order in which it does. A measurement lets whatever can begin beside it
 * begin.
 */
function traced(
  overrides: Partial<FakeOverrides> & {
    beside?: boolean
    fail?: (batch: number, tries: number) => Error | undefined
  } = {},
) {
  const said: string[] = []
  const tries = new Map<number, number>()
  const { beside = true, fail, ...rest } = overrides
  const launcher = fakeLauncher(async ({ batchSize }) => {
    const batch = Number(batchSize)
    said.push(`launch ${batch}`)
    tries.set(batch, (tries.get(batch) ?? 0) + 1)
    const error = fail?.(batch, tries.get(batch)!)
    if (error) throw error
    return fakePredictor({
      isolation: String(batch),
      stop: async () => void said.push(`stop ${batch}`),
    })
  })
  const load: FakeOverrides['load'] = async ({ isolation }, { onStep }) => {
    said.push(`measure ${isolation}`)
    onStep(loadPoint(1, 1), 'warm-up')
    await new Promise((resolve) => setImmediate(resolve))
    said.push(`measured ${isolation}`)
    return measurement(100 * Number(isolation))
  }
  const parts = fakeParts({ launcher, load, ...rest })
  const backend = { ...parts.backend, ...(beside && { launchesBeside: () => true }) }
  const log = new TrialLog({
    objective: batchProblem.objective,
    pricePerHour: () => 1,
    earlier: [],
    withheld: () => new Set(),
  })
  const events: EventBody[] = []
  /** As the loop runs it: what breaks it off leaves nothing behind. */
  const run = (maxTrials: number, signal = never) => {
    const search = new Search(
      fakeExperiment({ budget: { maxTrials } }),
      { ...parts, backend },
      log,
      (event) => events.push(event),
      signal,
    )
    return search.run().catch(async (error: unknown) => {
      await search.abandon(error)
      throw error
    })
  }
  return { said, log, events, run }
}

test('the next server starts while one is measured, and is measured in its turn; none is left at the end', async () => {
  const { said, log, events, run } = traced()
  await run(3)
  const [first, second] = log.trials.map(({ configuration }) => configuration.batchSize)
  expect(said.indexOf(`launch ${second}`)).toBeLessThan(said.indexOf(`measured ${first}`))
  expect(said.indexOf(`measure ${second}`)).toBeGreaterThan(said.indexOf(`stop ${first}`))
  expect(log.trials.map(({ number }) => number)).toEqual([1, 2, 3])
  expect(said.filter((what) => what.startsWith('launch')).length).toBe(3)
  expect(
    events.flatMap((event) => (event.type === 'predictor-ready' ? [event.ahead] : [])),
  ).toEqual([undefined, true, true])
})

test('not where the backend has no room beside what is measured', async () => {
  const { said, events, run } = traced({ beside: false })
  await run(3)
  const turns = said.filter((what) => !what.startsWith('measured'))
  expect(turns.map((what) => what.split(' ')[0])).toEqual(
    Array(3).fill(['launch', 'measure', 'stop', 'stop']).flat(),
  )
  expect(events.some((event) => event.type === 'predictor-ready' && event.ahead)).toBe(false)
})

test('what was started for a trial that is not needed any more is stopped, and its number given to the next', async () => {
  const assessments = [false, false, true]
  const { said, log, run } = traced({
    assessStop: () => ({
      probabilityBetterExists: 0,
      tolerance: 0.05,
      stop: assessments.shift() ?? true,
    }),
  })
  await run(20)
  expect(log.trials.length).toBe(3)
  const launched = said
    .filter((what) => what.startsWith('launch'))
    .map((what) => what.split(' ')[1])
  expect(launched.length).toBe(4)
  expect(said.filter((what) => what.startsWith('measure ')).length).toBe(3)
  expect(said.at(-1)).toBe(`stop ${launched.at(-1)}`)
  expect(log.nextNumber()).toBe(4)
})

test('one that found no place beside another is started in its turn; one that cannot serve is not tried again', async () => {
  const { log, said, run } = traced({
    fail: (batch, tries) =>
      batch === 2 && tries === 1
        ? new LaunchError('no place')
        : batch === 4
          ? new InfeasibleError('out-of-memory', 'too large')
          : undefined,
  })
  await run(5)
  const states = new Map(log.trials.map((trial) => [trial.configuration.batchSize, trial.state]))
  expect([states.get(2), states.get(4)]).toEqual(['complete', 'infeasible'])
  expect(said.filter((what) => what === 'launch 2').length).toBe(2)
  expect(said.filter((what) => what === 'launch 4').length).toBe(1)
})

test('an interrupt stops it too, and a sampler that breaks is no fault of the trial that runs', async () => {
  const interrupt = new AbortController()
  const hanging: FakeOverrides['load'] = (_predictor, { onStep }, signal) => {
    onStep(loadPoint(1, 1), 'warm-up')
    return new Promise((_, reject) =>
      signal.addEventListener('abort', () => reject(signal.reason), { once: true }),
    )
  }
  const interrupted = traced({ load: hanging })
  const ended = interrupted.run(9, interrupt.signal)
  await new Promise((resolve) => setImmediate(resolve))
  interrupt.abort(new Error('interrupted'))
  await expect(ended).rejects.toThrow('interrupted')
  expect(interrupted.said.filter((what) => what.startsWith('launch')).length).toBe(2)
  expect(new Set(interrupted.said.filter((what) => what.startsWith('stop'))).size).toBe(2)

  let asked = 0
  const broken = {
    ...orderedSampler,
    suggest: (...given: Parameters<typeof orderedSampler.suggest>) => {
      if (++asked === 2) throw new Error('no kernel')
      return orderedSampler.suggest(...given)
    },
  }
  const { log, run } = traced({ sampler: broken })
  await expect(run(5)).rejects.toThrow('no kernel')
  expect(log.trials.filter(({ state }) => state === 'failed')).toEqual([])
})

/** A launcher that serves when told to, and what became of its signal. */
function slow() {
  let serve: (predictor: Predictor) => void = () => undefined
  const stopped: string[] = []
  const launches: {
    readonly configuration: Configuration
    readonly signal: AbortSignal
    readonly waits?: (what: string) => void
  }[] = []
  const launch: Launcher['launch'] = (configuration, _number, signal, waits) => {
    launches.push({ configuration, signal, ...(waits && { waits }) })
    return new Promise((resolve, reject) => {
      serve = resolve
      signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    })
  }
  return {
    launcher: { launch },
    launches,
    stopped,
    serve: () => serve(fakePredictor({ stop: async () => void stopped.push('it') })),
  }
}

test('dropped, it ends whether it serves or not', async () => {
  const starting = slow()
  await new LaunchAhead(starting.launcher, request, never).drop()
  expect(starting.launches[0]!.signal.aborted).toBe(true)

  const serving = slow()
  const ahead = new LaunchAhead(serving.launcher, request, never)
  serving.serve()
  await ahead.drop()
  expect(serving.stopped).toEqual(['it'])
})

test('one that would wait for a place that must be made first gives it up, until its turn', async () => {
  const { launcher, launches, serve } = slow()
  const ahead = new LaunchAhead(launcher, request, never)
  launches[0]!.waits!('a node')
  expect(launches[0]!.signal.aborted).toBe(true)
  const taken = ahead.launcher.launch(request.configuration, request.number, never)
  await new Promise((resolve) => setImmediate(resolve))
  expect(launches.length).toBe(2)
  serve()
  expect((await taken).protocol).toBe('json')
})
