import { describe, expect, test } from 'vitest'
import type { Configuration } from '../../search/types.ts'
import type { FinishedTrial, InterruptedTrial } from '../../trials/types.ts'
import { batchProblem, fakeParts, heldAt, measurement } from '../testing/fakes.ts'
import { Ledger, type LedgerOptions } from './ledger.ts'

const trial = (number: number, rest: object = {}): FinishedTrial =>
  ({
    number,
    configuration: { batchSize: number },
    why: '',
    startedAt: '2026-01-01T00:00:00Z',
    seconds: 60,
    state: 'complete',
    measurement: measurement(100 * number),
    ...rest,
  }) as FinishedTrial
const failed = (number: number, rest: object = {}) =>
  trial(number, { state: 'failed', error: 'no port', ...rest })
const confirmation = (number: number) =>
  trial(number, { purpose: 'confirmation', measurement: heldAt(100 * number) })
const createLedger = (
  options: Partial<LedgerOptions> = {},
  pricePerHour: (configuration: Configuration) => number = () => 3.6,
) =>
  new Ledger({
    ...fakeParts(),
    problem: { ...batchProblem, pricePerHour },
    earlier: [],
    ...options,
  })

describe('the price of all trials', () => {
  test('excludes the time in which a pod waited for a node', () => {
    const ledger = createLedger()
    ledger.record(failed(1, { usage: { nodeWaitSeconds: 60 } }))
    expect(ledger.spentUsd).toBe(0)
    ledger.record(trial(2, { usage: { nodeWaitSeconds: 30 } }))
    expect(ledger.spentUsd).toBeCloseTo(0.03, 12)
  })

  test('includes failed trials and confirmations: a minute at $3.60 per hour costs six cents', () => {
    const ledger = createLedger()
    expect(ledger.spentUsd).toBe(0)
    ledger.record(trial(1))
    expect(ledger.spentUsd).toBeCloseTo(0.06, 12)
    ledger.record(failed(2))
    ledger.record(confirmation(3))
    expect(ledger.spentUsd).toBeCloseTo(0.18, 12)
  })

  test('takes each trial at the price of its configuration', () => {
    const ledger = createLedger({ earlier: [trial(2, { seconds: 1800 })] }, ({ batchSize }) =>
      Number(batchSize),
    )
    ledger.record(trial(8, { seconds: 900 }))
    expect(ledger.spentUsd).toBeCloseTo(1 + 2, 12)
  })
})

describe('trial numbers', () => {
  test('continue after the highest one of the trials or of the store', () => {
    const progress = { lastNumber: 9, endedAfter: 0, running: [] }
    expect(createLedger().allocateNumber()).toBe(1)
    expect(createLedger({ earlier: [trial(7), trial(3)] }).allocateNumber()).toBe(8)
    const ledger = createLedger({ earlier: [trial(3)], progress })
    expect([ledger.allocateNumber(), ledger.allocateNumber()]).toEqual([10, 11])
    expect(createLedger({ earlier: [trial(12)], progress }).allocateNumber()).toBe(13)
  })

  test('are released unless a later one is in use', () => {
    const ledger = createLedger()
    const [first, second] = [ledger.allocateNumber(), ledger.allocateNumber()]
    ledger.releaseNumber(first)
    expect(ledger.allocateNumber()).toBe(3)
    ledger.releaseNumber(3)
    ledger.releaseNumber(second)
    expect(ledger.allocateNumber()).toBe(2)
  })

  test('tell whether the experiment has started', () => {
    const ledger = createLedger()
    expect(ledger.isEmpty).toBe(true)
    ledger.allocateNumber()
    expect(ledger.isEmpty).toBe(false)
    expect(createLedger({ earlier: [trial(1)] }).isEmpty).toBe(false)
  })
})

describe('trials that count towards the maximum', () => {
  test('exclude failed trials and confirmations', () => {
    const infeasible = trial(4, { state: 'infeasible', reason: 'crashed', detail: '' })
    const ledger = createLedger({ earlier: [trial(1), failed(2), confirmation(3), infeasible] })
    expect(ledger.countedTrials).toBe(2)
    ledger.record(trial(5, { purpose: 'default' }))
    expect(ledger.countedTrials).toBe(3)
  })

  test('exclude disturbed trials', () => {
    const nothing = { ...measurement(0), bounds: 'none' as const }
    const ledger = createLedger()
    for (const outcome of ['host-interference', 'generator-limit', 'non-stationary'] as const)
      ledger.record(trial(ledger.allocateNumber(), { measurement: { ...nothing, outcome } }))
    expect(ledger.countedTrials).toBe(1)
  })
})

test('a run includes its trials before an interruption, but none of a run that ended', () => {
  const running = { ...trial(5), state: 'running', windows: [] } as unknown as InterruptedTrial
  const earlier = [1, 2, 3, 4].map((number) => trial(number))
  const progress = { lastNumber: 4, endedAfter: 2, running: [running] }
  const ledger = createLedger({ earlier, progress })
  ledger.record(trial(6))
  expect(ledger.trialsOfRun.map(({ number }) => number)).toEqual([3, 4, 6])
  expect(ledger.secondsBeforeResume).toBe(120)
  expect(ledger.allocateNumber()).toBe(6)
  ledger.evaluateBefore(2, () => {
    expect([ledger.trials.length, ledger.interrupted.length]).toEqual([3, 0])
  })
  expect([ledger.trials.length, ledger.interrupted]).toEqual([5, [running]])
  expect(ledger.takeInterrupted(() => true)).toBe(running)
  expect(ledger.takeInterrupted(() => true)).toBeUndefined()
})

test('trials of the process exclude earlier ones', () => {
  const earlier = [failed(1), failed(2), failed(3)]
  const ledger = createLedger({ earlier })
  expect(ledger.trialsOfProcess).toEqual([])
  const own = trial(4)
  ledger.record(own)
  expect(ledger.trialsOfProcess).toEqual([own])
  expect(ledger.trials).toEqual([...earlier, own])
  expect(earlier).toHaveLength(3)
})

describe('the best candidate', () => {
  test('is the one that the report recommends', () => {
    const ledger = createLedger({ earlier: [trial(1), trial(4), trial(2)] })
    expect(ledger.best).toMatchObject({ trial: 4 })
    ledger.record(trial(8))
    expect(ledger.best).toMatchObject({ trial: 8 })
    expect(ledger.evaluateBefore(1, () => ledger.best)).toMatchObject({ trial: 4 })
  })

  test('is unknown before a trial is complete', () => {
    expect(createLedger({ earlier: [failed(1)] }).best).toBeUndefined()
  })
})

describe('retries', () => {
  const final = { final: 'run' } as const

  test('exclude configurations that run', () => {
    const ledger = createLedger({ earlier: [failed(1), failed(2)] })
    const next = (running: Configuration[]) =>
      ledger.planRetries(running).next.map(({ configuration }) => configuration.batchSize)
    expect(next([])).toEqual([1, 2])
    expect(next([{ batchSize: 1 }])).toEqual([2])
    expect(ledger.countNextAttempt({ batchSize: 1 })).toBe(2)
    expect(ledger.countNextAttempt({ batchSize: 4 })).toBe(1)
  })

  test('do not count unplaced attempts before a resumption', () => {
    const ledger = createLedger({ earlier: [failed(1, final)] })
    expect(ledger.countNextAttempt({ batchSize: 1 })).toBe(1)
    expect(ledger.planRetries([]).givenUp).toEqual([])
    ledger.record(failed(2, final))
    expect(ledger.planRetries([]).givenUp).toEqual([{ batchSize: 2 }])
  })
})

describe('observations', () => {
  test('exclude failures, and confirmations that met the SLO', () => {
    const ledger = createLedger({ earlier: [trial(1), failed(2), confirmation(1), trial(4)] })
    expect(ledger.collectObservations().map((o) => o.configuration.batchSize)).toEqual([1, 4])
  })

  test('exclude a measurement that a confirmation refuted', () => {
    const ledger = createLedger({ earlier: [trial(1), trial(2)] })
    const refuted = { ...measurement(90), capacityCi90Rps: [90, 110] }
    ledger.record(
      trial(3, { configuration: { batchSize: 2 }, purpose: 'confirmation', measurement: refuted }),
    )
    const rates = ledger
      .collectObservations()
      .map((o) => (o.state === 'complete' ? o.rate?.value : undefined))
    expect(rates).toEqual([100, expect.closeTo(Math.sqrt(90 * 110), 9)])
    expect(ledger.refutations).toBe(1)
  })

  test('are the same object for a trial each time', () => {
    const ledger = createLedger({ earlier: [trial(1)] })
    const [first] = ledger.collectObservations()
    ledger.record(trial(2))
    expect(ledger.collectObservations()[0]).toBe(first)
  })

  test('of a metric keep their scale whatever is measured later', () => {
    const objective = { kind: 'min-metric', metric: 'depth' } as const
    const ledger = createLedger({ problem: { ...batchProblem, objective } })
    const measured = (number: number, ...metrics: { name: string; value: number }[]) =>
      trial(number, { measurement: { ...measurement(100), metrics } })
    for (const [i, value] of [0, -20, 4000].entries())
      ledger.record(measured(i + 1, { name: 'depth', value }))
    const first = ledger.collectObservations()
    ledger.record(measured(4, { name: 'depth', value: -1e6 }))
    ledger.record(measured(5))
    const all = ledger.collectObservations()
    expect(all.slice(0, 3).every((one, i) => one === first[i])).toBe(true)
    const rates = all.map((one) => (one.state === 'complete' ? one.rate?.value : undefined))
    // Lower is better: -1e6, then -20, 0, 4000. A trial without a value only shows that it serves.
    expect(rates[4]).toBeUndefined()
    expect([
      rates[3]! > rates[1]!,
      rates[1]! > rates[0]!,
      rates[0] === 1,
      rates[0]! > rates[2]!,
      rates[2]! > 0,
    ]).toEqual(Array(5).fill(true))
    // The interval of the capacity says nothing about a metric.
    expect(all[0]).toMatchObject({ rate: { logSd: undefined } })
  })
})
