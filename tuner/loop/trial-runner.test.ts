import { describe, expect, test } from 'vitest'
import type { Measurement } from '../../profiler/model/measurement.ts'
import {
  InfeasibleError,
  LaunchError,
  type Predictor,
  type PredictorDeath,
} from '../../trials/types.ts'
import { fakeLauncher, fakePredictor, loadPoint, measurement } from '../testing/fakes.ts'
import { runTrial, type TrialRequest } from './trial-runner.ts'

interface Staged {
  readonly predictor?: Partial<Predictor>
  readonly launch?: () => Promise<Predictor>
  readonly measure?: (predictor: Predictor, signal: AbortSignal) => Promise<Measurement>
  readonly request?: Partial<TrialRequest>
  readonly signal?: AbortSignal
  readonly now?: () => number
}

/** A trial on a clock that advances by 1.5 s each time it is read, with what it reported. */
async function run({
  predictor,
  launch,
  measure = async () => measurement(100),
  request,
  signal,
  now,
}: Staged = {}) {
  let nowMs = Date.parse('2026-01-01T00:00:00Z')
  const reported: unknown[] = []
  let stopped = 0
  const given = fakePredictor({
    logPath: '/logs/1',
    usage: async () => ({ cpuCores: 1.5 }),
    stop: async () => void stopped++,
    ...predictor,
  })
  const trial = await runTrial(
    {
      launcher: fakeLauncher(launch ?? (async () => given)),
      measure: async (of, task, { number, onStep }, until) => {
        reported.push([task.kind, number])
        onStep?.(loadPoint(100, 48), 'search')
        return measure(of, until)
      },
    },
    { kind: 'trial' },
    { number: 7, configuration: { batchSize: 4 }, why: 'next', attempt: 1, ...request },
    {
      now:
        now ??
        (() => {
          nowMs += 1500
          return nowMs - 1500
        }),
      onReady: ({ isolation, seconds }) => reported.push([isolation, seconds]),
      onStep: ({ offeredRps }, phase) => reported.push([offeredRps, phase]),
    },
    signal ?? new AbortController().signal,
  )
  return { trial, reported, stopped }
}

test('a configuration whose energy per request exceeds its bound, or is unknown, is infeasible', async () => {
  const bounded = async (usage: object, maxJoulesPerRequest?: number) =>
    (await run({ predictor: { usage: async () => usage }, request: { maxJoulesPerRequest } })).trial
  const watts = { gpuWatts: 60, cpuWatts: 20 }
  expect(await bounded(watts, 0.8)).toMatchObject({ state: 'complete', usage: watts })
  expect(await bounded(watts, 0.79)).toMatchObject({
    state: 'infeasible',
    reason: 'over-bound',
    detail: '0.8 J per request at 100 req/s, over its bound of 0.79 J',
    served: true,
  })
  expect(await bounded({}, 0.79)).toMatchObject({
    state: 'infeasible',
    detail: expect.stringContaining('neither nvidia-smi nor RAPL reports power'),
  })
  expect(await bounded({})).toMatchObject({ state: 'complete' })
})

/** A predictor that dies on demand. */
function mortal() {
  let die = (_: PredictorDeath) => {}
  const died = new Promise<PredictorDeath>((resolve) => {
    die = resolve
  })
  return { died, die: (outOfMemory = false) => die({ what: 'exit code 9', outOfMemory }) }
}
/** Load that ends when it is reported to. */
const untilAborted = (signal: AbortSignal) =>
  new Promise<Measurement>((_, reject) =>
    signal.addEventListener('abort', () => reject(signal.reason)),
  )

describe('a complete trial', () => {
  test('has its measurement, usage and duration', async () => {
    const predicted = { rate: 90, low: 80, high: 110, feasible: 1 }
    const { trial, reported, stopped } = await run({ request: { predicted, purpose: 'default' } })
    expect(trial).toEqual({
      number: 7,
      configuration: { batchSize: 4 },
      why: 'next',
      purpose: 'default',
      predicted,
      startedAt: '2026-01-01T00:00:00.000Z',
      state: 'complete',
      measurement: measurement(100),
      usage: { cpuCores: 1.5 },
      logPath: '/logs/1',
      seconds: 3,
    })
    expect(reported).toEqual([
      ['none', 1.5],
      ['trial', 7],
      [100, 'search'],
    ])
    expect(stopped).toBeGreaterThan(0)
  })

  test('has no control characters in texts of its server', async () => {
    const said = {
      ...measurement(100),
      detail: 'status 500: \x1b[31mon fire\x1b[0m',
      caveats: ['\x1b[2Jcleared'],
    }
    const { trial } = await run({ measure: async () => said })
    expect(trial).toMatchObject({
      measurement: {
        detail: expect.stringContaining('on fire'),
        caveats: [expect.stringContaining('cleared')],
      },
    })
    expect(JSON.stringify(trial)).not.toContain('\\u001b')
  })

  test('lasts as long as launch, load and stop together', async () => {
    let seconds = 0
    const after = async (more: number) => {
      seconds += more
    }
    const { trial } = await run({
      now: () => 1000 * seconds,
      launch: async () => {
        await after(3)
        return fakePredictor({ stop: () => after(seconds < 20 ? 5 : 0) })
      },
      measure: async () => {
        await after(10)
        return measurement(100)
      },
    })
    expect(trial.seconds).toBe(18)
  })

  test('reports the usage before the predictor was stopped', async () => {
    let runs = true
    const stop = async () => {
      runs = false
    }
    const { trial } = await run({
      predictor: { stop, usage: async () => ({ gpuUtilization: runs ? 1 : 0 }) },
    })
    expect(trial).toMatchObject({ state: 'complete', usage: { gpuUtilization: 1 } })
    expect(runs).toBe(false)
  })

  test('has no purpose or prediction unless the request has them', async () => {
    const { trial } = await run()
    expect(trial).not.toHaveProperty('purpose')
    expect(trial).not.toHaveProperty('predicted')
  })
})

describe('a trial is infeasible', () => {
  test('where the launcher reports it', async () => {
    const { trial } = await run({
      launch: async () => {
        throw new InfeasibleError('out-of-memory', 'needs 9 GiB', '/logs/2')
      },
    })
    expect(trial).toMatchObject({
      state: 'infeasible',
      reason: 'out-of-memory',
      detail: 'needs 9 GiB',
      logPath: '/logs/2',
      seconds: 1.5,
    })
    expect(trial).not.toHaveProperty('served')
  })

  test('where it runs out of memory under load', async () => {
    const { died, die } = mortal()
    const { trial, stopped } = await run({
      predictor: { died },
      measure: (_, signal) => {
        die(true)
        return untilAborted(signal)
      },
    })
    expect(trial).toMatchObject({
      state: 'infeasible',
      reason: 'out-of-memory',
      detail: 'under load: exit code 9',
      logPath: '/logs/1',
    })
    expect(stopped).toBe(1)
  })

  test.each([
    [1, { state: 'failed', error: 'exit code 9' }],
    [2, { state: 'infeasible', reason: 'crashed', detail: 'died under load 2 times: exit code 9' }],
    [3, { state: 'infeasible', reason: 'crashed', detail: 'died under load 3 times: exit code 9' }],
  ])(
    'where the predictor dies under load in two attempts: attempt %d',
    async (attempt, expected) => {
      const { died, die } = mortal()
      const { trial } = await run({
        predictor: { died },
        request: { attempt },
        measure: (_, signal) => {
          die()
          return untilAborted(signal)
        },
      })
      expect(trial).toMatchObject(expected)
    },
  )

  const refusals =
    'its requests fail under load: 600 of 800 requests failed (status 503 × 600); from 3 per second on'
  test.each([
    [1, { state: 'failed', error: refusals, served: true }],
    [
      2,
      {
        state: 'infeasible',
        reason: 'requests-fail',
        detail: `in 2 trials: ${refusals}`,
        served: true,
      },
    ],
  ])(
    'where all requests fail under load in two attempts: attempt %d',
    async (attempt, expected) => {
      const idle = loadPoint(100, 48)
      const refused = { ...idle, requests: 300, errors: 300, errorKinds: { 'status 503': 300 } }
      const points = [{ ...idle, requests: 200, errors: 0 }, refused, refused]
      const { trial } = await run({
        request: { attempt },
        measure: async () => ({
          ...measurement(0),
          outcome: 'errors',
          detail: 'from 3 per second on',
          points,
        }),
      })
      expect(trial).toMatchObject(expected)
      expect(trial).not.toHaveProperty('measurement')
    },
  )

  test.each([
    [1, { state: 'failed', error: 'it no longer listens: 9 of 9 requests failed', served: true }],
    [
      2,
      {
        state: 'infeasible',
        reason: 'crashed',
        detail: 'died under load 2 times: it no longer listens: 9 of 9 requests failed',
        served: true,
      },
    ],
  ])(
    'where nothing listens on its port although its process lives, in two attempts: attempt %d',
    async (attempt, expected) => {
      const detail = 'it no longer listens: 9 of 9 requests failed'
      const { trial } = await run({
        request: { attempt },
        predictor: { died: Promise.race([]) },
        measure: async () => ({ ...measurement(0), outcome: 'server-died', detail }),
      })
      expect(trial).toMatchObject(expected)
      expect(trial).not.toHaveProperty('measurement')
    },
  )

  test('with the cause of death of the launcher, even where the load generator notices the death first', async () => {
    const { died, die } = mortal()
    const { trial } = await run({
      predictor: { died },
      measure: async () => {
        setImmediate(die)
        return { ...measurement(0), outcome: 'server-died' }
      },
    })
    expect(trial).toMatchObject({ state: 'failed', error: 'exit code 9' })
  })
})

describe('a trial fails', () => {
  test.each([1, 2, 3])(
    'where something else ended the predictor, in attempt %d too',
    async (attempt) => {
      const what = 'node n is cordoned and drained'
      const { trial } = await run({
        predictor: { died: Promise.resolve({ what, outOfMemory: false, external: true as const }) },
        request: { attempt },
        measure: (_, signal) => untilAborted(signal),
      })
      expect(trial).toMatchObject({ state: 'failed', error: what })
    },
  )

  test('without cost where no node had room for it', async () => {
    const launch = () =>
      Promise.reject(new LaunchError('no node has cpu 64', undefined, undefined, 'run', true))
    const { trial } = await run({ launch })
    expect(trial).toMatchObject({ state: 'failed', final: 'run' })
    expect(trial.usage?.nodeWaitSeconds).toBeGreaterThanOrEqual(trial.seconds)
  })

  const failing = (error: unknown, predictor: Partial<Predictor> = {}) =>
    run({
      predictor,
      measure: async () => {
        throw error
      },
    }).then(({ trial }) => trial)

  test('with the fields of its request', async () => {
    const trial = await failing(new Error('no'))
    expect(trial).toMatchObject({
      number: 7,
      configuration: { batchSize: 4 },
      why: 'next',
      startedAt: '2026-01-01T00:00:00.000Z',
      state: 'failed',
      logPath: '/logs/1',
    })
  })

  test('with the error, its hint and the last three log lines', async () => {
    const logTail = () => 'one\ntwo\nthree\nfour\n'
    const error = Object.assign(new Error('status 500'), { hint: 'look at the log' })
    expect(await failing(error, { logTail })).toMatchObject({
      state: 'failed',
      error: 'status 500 (look at the log); last log lines: two | three | four',
      logPath: '/logs/1',
      seconds: 3,
    })
    expect(await failing(error)).toMatchObject({ error: 'status 500 (look at the log)' })
    expect(await failing(Object.assign(new Error('status 500'), { hint: 5 }))).toMatchObject({
      error: 'status 500',
    })
    expect(await failing('a text')).toMatchObject({ error: 'a text' })
  })

  test.each<[string, unknown, string | undefined]>([
    ['of a launch error', new LaunchError('no port'), undefined],
    [
      'of a launch error of the experiment',
      new LaunchError('no command', undefined, undefined, 'experiment'),
      'experiment',
    ],
    [
      'of a launch error of the configuration',
      new LaunchError('a shape', undefined, undefined, 'configuration'),
      'configuration',
    ],
    [
      'of an invalid payload',
      Object.assign(new Error('not an image'), { name: 'PayloadError' }),
      'experiment',
    ],
    ['of a refused request', Object.assign(new Error('400'), { why: 'refused' }), 'configuration'],
    [
      'of another protocol',
      Object.assign(new Error('grpc'), { why: 'other-protocol' }),
      'experiment',
    ],
    ['of any other error', new Error('reset'), undefined],
    ['of a thrown text', 'a text', undefined],
  ])('with the finality %s', async (_, error, final) => {
    const trial = await failing(error)
    expect(trial.state).toBe('failed')
    expect('final' in trial ? trial.final : undefined).toBe(final)
    expect('final' in trial).toBe(final !== undefined)
  })

  test('after its predictor was stopped', async () => {
    expect((await run({ measure: () => Promise.reject(new Error('reset')) })).stopped).toBe(1)
  })
})

describe('an interrupt', () => {
  test('ends the load, stops the predictor and is thrown', async () => {
    const controller = new AbortController()
    let stopped = 0
    const running = run({
      signal: controller.signal,
      predictor: { stop: async () => void stopped++ },
      measure: (_, signal) => {
        controller.abort(new Error('Ctrl-C'))
        return signal.aborted
          ? Promise.reject(new Error('the load was cut off'))
          : untilAborted(signal)
      },
    })
    await expect(running).rejects.toThrow('Ctrl-C')
    expect(stopped).toBe(1)
  })
})
