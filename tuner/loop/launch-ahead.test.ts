import { expect, test } from 'vitest'
import type { Configuration } from '../../search/types.ts'
import { InfeasibleError, LaunchError, type Launcher, type Predictor } from '../../trials/types.ts'
import {
  type FakeOverrides,
  fakeExperiment,
  fakeLauncher,
  fakeParts,
  fakePredictor,
  loadPoint,
  measurement,
  orderedSampler,
} from '../testing/fakes.ts'
import type { TuneEvent } from './events.ts'
import { LaunchAhead } from './launch-ahead.ts'
import { runLoop } from './loop.ts'

const never = new AbortController().signal
const request = { number: 7, configuration: { batchSize: 2 }, why: 'next', attempt: 1 }

/**
 * Records launches, measurements and stops in order. A measurement yields once, so that a launch
 * can begin beside it.
 */
function traced(
  overrides: Partial<FakeOverrides> & {
    beside?: boolean
    fail?: (batch: number, tries: number) => Error | undefined
  } = {},
) {
  const log: string[] = []
  const tries = new Map<number, number>()
  const { beside = true, fail, ...rest } = overrides
  const launcher = fakeLauncher(async ({ batchSize }) => {
    const batch = Number(batchSize)
    log.push(`launch ${batch}`)
    tries.set(batch, (tries.get(batch) ?? 0) + 1)
    const error = fail?.(batch, tries.get(batch)!)
    if (error) throw error
    return fakePredictor({
      isolation: String(batch),
      stop: async () => void log.push(`stop ${batch}`),
    })
  })
  const load: FakeOverrides['load'] = async ({ isolation }, { onStep }) => {
    log.push(`measure ${isolation}`)
    onStep(loadPoint(1, 1), 'warm-up')
    await new Promise((resolve) => setImmediate(resolve))
    log.push(`measured ${isolation}`)
    return measurement(100 * Number(isolation))
  }
  const parts = fakeParts({ launcher, load, ...rest })
  const backend = { ...parts.backend, ...(beside && { canLaunchAlongside: () => true }) }
  const events: TuneEvent[] = []
  const run = (maxTrials: number, signal = never) =>
    runLoop(
      fakeExperiment({ confirm: false, budget: { maxTrials } }),
      { ...parts, backend },
      [],
      (event) => events.push(event),
      signal,
    )
  return { log, events, run, trials: () => parts.store.appended }
}

test('the next predictor is launched during a measurement, and measured after it; none is left running', async () => {
  const { log, trials, events, run } = traced()
  await run(3)
  const [first, second] = trials().map(({ configuration }) => configuration.batchSize)
  expect(log.indexOf(`launch ${second}`)).toBeLessThan(log.indexOf(`measured ${first}`))
  expect(log.indexOf(`measure ${second}`)).toBeGreaterThan(log.indexOf(`stop ${first}`))
  expect(trials().map(({ number }) => number)).toEqual([1, 2, 3])
  expect(log.filter((what) => what.startsWith('launch')).length).toBe(3)
  expect(
    events.flatMap((event) => (event.type === 'predictor-ready' ? [event.ahead] : [])),
  ).toEqual([undefined, true, true])
})

test('nothing is launched ahead where the backend does not support it', async () => {
  const { log, events, run } = traced({ beside: false })
  await run(3)
  const actions = log.filter((what) => !what.startsWith('measured'))
  expect(actions.map((what) => what.split(' ')[0])).toEqual(
    Array(3).fill(['launch', 'measure', 'stop', 'stop']).flat(),
  )
  expect(events.some((event) => event.type === 'predictor-ready' && event.ahead)).toBe(false)
})

test('a predictor whose trial is not needed any more is stopped without a measurement', async () => {
  const assessments = [false, false, true]
  const { log, trials, run } = traced({
    assessStop: () => ({
      probabilityBetterExists: 0,
      tolerance: 0.05,
      stop: assessments.shift() ?? true,
    }),
  })
  await run(20)
  expect(trials().length).toBe(3)
  const launched = log.filter((what) => what.startsWith('launch')).map((what) => what.split(' ')[1])
  expect(launched.length).toBe(4)
  expect(log.filter((what) => what.startsWith('measure ')).length).toBe(3)
  expect(log.at(-1)).toBe(`stop ${launched.at(-1)}`)
  expect(trials().map(({ number }) => number)).toEqual([1, 2, 3])
})

test('a failed launch is repeated by its trial; an infeasible one is not', async () => {
  const { trials, log, run } = traced({
    fail: (batch, tries) =>
      batch === 2 && tries === 1
        ? new LaunchError('no place')
        : batch === 4
          ? new InfeasibleError('out-of-memory', 'too large')
          : undefined,
  })
  await run(5)
  const states = new Map(trials().map((trial) => [trial.configuration.batchSize, trial.state]))
  expect([states.get(2), states.get(4)]).toEqual(['complete', 'infeasible'])
  expect(log.filter((what) => what === 'launch 2').length).toBe(2)
  expect(log.filter((what) => what === 'launch 4').length).toBe(1)
})

test('an interrupt stops the predictor that was launched ahead', async () => {
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
  expect((await ended).reason).toBe('interrupted')
  expect(interrupted.log.filter((what) => what.startsWith('launch')).length).toBe(2)
  expect(new Set(interrupted.log.filter((what) => what.startsWith('stop'))).size).toBe(2)
})

test('an error of the sampler while launching ahead ends the run without failing the running trial', async () => {
  let calls = 0
  const broken = {
    ...orderedSampler,
    suggest: (...given: Parameters<typeof orderedSampler.suggest>) => {
      if (++calls === 2) throw new Error('no kernel')
      return orderedSampler.suggest(...given)
    },
  }
  const { trials, run } = traced({ sampler: broken })
  await expect(run(5)).rejects.toThrow('no kernel')
  expect(trials().filter(({ state }) => state === 'failed')).toEqual([])
})

/** A launcher that serves on demand, with its launches. */
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

test('cancelling ends a launch that is under way, and stops a predictor that serves', async () => {
  const starting = slow()
  await new LaunchAhead(starting.launcher, request, never).cancel()
  expect(starting.launches[0]!.signal.aborted).toBe(true)

  const serving = slow()
  const ahead = new LaunchAhead(serving.launcher, request, never)
  serving.serve()
  await ahead.cancel()
  expect(serving.stopped).toEqual(['it'])
})

test('a launch that would wait for a node is given up, and repeated by its trial', async () => {
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
