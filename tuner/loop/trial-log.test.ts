import { describe, expect, test } from 'vitest'
import type { FinishedTrial, InterruptedTrial } from '../../trials/types.ts'
import { heldAt, measurement } from '../testing/fakes.ts'
import { TrialLog, type TrialLogOptions } from './trial-log.ts'

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
const failed = (number: number) => trial(number, { state: 'failed', error: 'no port' })
const confirmation = (number: number) =>
  trial(number, { purpose: 'confirmation', measurement: heldAt(100 * number) })
const logOf = (options: Partial<TrialLogOptions> = {}) =>
  new TrialLog({
    objective: { kind: 'price-per-request' },
    pricePerHour: () => 3.6,
    earlier: [],
    withheld: () => new Set(),
    ...options,
  })

test('what a metric teaches stays as it was, the same object too, whatever is read after it', () => {
  const log = logOf({ objective: { kind: 'min-metric', metric: 'depth' } })
  const read = (number: number, ...metrics: { name: string; value: number }[]) =>
    trial(number, { measurement: { ...measurement(100), metrics } })
  for (const [i, value] of [0, -20, 4000].entries()) log.add(read(i + 1, { name: 'depth', value }))
  const first = log.observations()
  log.add(read(4, { name: 'depth', value: -1e6 }))
  log.add(read(5))
  const all = log.observations()
  expect(all.slice(0, 3).every((one, i) => one === first[i])).toBe(true)
  const rates = all.map((one) => (one.state === 'complete' ? one.rate?.value : undefined))
  // Less is better: -1e6, then -20, 0, 4000; the one without a value teaches only that it serves.
  expect(rates[4]).toBeUndefined()
  expect([
    rates[3]! > rates[1]!,
    rates[1]! > rates[0]!,
    rates[0] === 1,
    rates[0]! > rates[2]!,
    rates[2]! > 0,
  ]).toEqual(Array(5).fill(true))
  // What a capacity was unsure by says nothing of a metric.
  expect(all[0]).toMatchObject({ rate: { logSd: undefined } })
})

describe('money', () => {
  test('what had no place on a node costs nothing, in part or as a whole', () => {
    const log = logOf()
    log.add(trial(1, { state: 'failed', error: 'no node', usage: { nodeWaitSeconds: 60 } }))
    expect(log.spent).toBe(0)
    log.add(trial(2, { usage: { nodeWaitSeconds: 30 } }))
    expect(log.spent).toBeCloseTo(0.03, 12)
  })

  test('$3.60 an hour for a minute is six cents, of every trial, failed ones and confirmations too', () => {
    const log = logOf()
    expect(log.spent).toBe(0)
    log.add(trial(1))
    expect(log.spent).toBeCloseTo(0.06, 12)
    log.add(failed(2))
    log.add(confirmation(3))
    expect(log.spent).toBeCloseTo(0.18, 12)
  })

  test('each trial at the price of its own configuration', () => {
    const log = logOf({
      pricePerHour: ({ batchSize }) => Number(batchSize),
      earlier: [trial(2, { seconds: 1800 })],
    })
    log.add(trial(8, { seconds: 900 }))
    expect(log.spent).toBeCloseTo(1 + 2, 12)
  })
})

describe('numbers', () => {
  test('go on after the highest, of earlier trials or of the store', () => {
    expect([logOf().nextNumber(), logOf({ earlier: [trial(7), trial(3)] }).nextNumber()]).toEqual([
      1, 8,
    ])
    const log = logOf({
      earlier: [trial(3)],
      progress: { lastNumber: 9, endedAfter: 0, running: [] },
    })
    expect([log.nextNumber(), log.nextNumber()]).toEqual([10, 11])
    expect(
      logOf({
        earlier: [trial(12)],
        progress: { lastNumber: 9, endedAfter: 0, running: [] },
      }).nextNumber(),
    ).toBe(13)
  })

  test('it is empty until a number was given', () => {
    const log = logOf()
    expect(log.isEmpty).toBe(true)
    log.nextNumber()
    expect(log.isEmpty).toBe(false)
    expect(logOf({ earlier: [trial(1)] }).isEmpty).toBe(false)
  })
})

test('what counts towards the most trials: not what failed, and no confirmation', () => {
  const log = logOf({
    earlier: [
      trial(1),
      failed(2),
      confirmation(3),
      trial(4, { state: 'infeasible', reason: 'crashed', detail: '' }),
    ],
  })
  expect(log.counted).toBe(2)
  log.add(trial(5, { purpose: 'default' }))
  expect(log.counted).toBe(3)
})

test('what the machine disturbed does not count either', () => {
  const nothing = { ...measurement(0), bounds: 'none' as const }
  const log = logOf()
  for (const outcome of ['host-interference', 'generator-limit', 'non-stationary'] as const)
    log.add(trial(log.nextNumber(), { measurement: { ...nothing, outcome } }))
  expect(log.counted).toBe(1)
})

test('a run goes on from before its interruption, and not from before an end', () => {
  const running = { ...trial(5), state: 'running', windows: [] } as unknown as InterruptedTrial
  const earlier = [1, 2, 3, 4].map((number) => trial(number))
  const log = logOf({ earlier, progress: { lastNumber: 4, endedAfter: 2, running: [running] } })
  log.add(trial(6))
  expect(log.ofRun.map(({ number }) => number)).toEqual([3, 4, 6])
  expect(log.earlierSeconds).toBe(120)
  expect(log.nextNumber()).toBe(6)
  log.before(2, () => {
    expect([log.trials.length, log.interrupted.length]).toEqual([3, 0])
  })
  expect([log.trials.length, log.interrupted]).toEqual([5, [running]])
  expect(log.takeInterrupted(() => true)).toBe(running)
  expect(log.takeInterrupted(() => true)).toBeUndefined()
})

test('fresh trials are those of this process alone', () => {
  const earlier = [failed(1), failed(2), failed(3)]
  const log = logOf({ earlier })
  expect(log.fresh).toEqual([])
  const own = trial(4)
  log.add(own)
  expect(log.fresh).toEqual([own])
  expect(log.trials).toEqual([...earlier, own])
  expect(earlier).toHaveLength(3)
})

describe('what the search learns from', () => {
  test('neither failures nor confirmations that held, which it would count twice', () => {
    const log = logOf({ earlier: [trial(1), failed(2), confirmation(1), trial(4)] })
    expect(log.observations().map((o) => o.configuration.batchSize)).toEqual([1, 4])
  })

  test('nor what is withheld, for as long as it is', () => {
    const doubted = trial(2)
    let withheld = new Set([doubted])
    const log = logOf({ earlier: [trial(1), doubted], withheld: () => withheld })
    expect(log.observations().map((o) => o.configuration.batchSize)).toEqual([1])
    withheld = new Set()
    expect(log.observations().map((o) => o.configuration.batchSize)).toEqual([1, 2])
  })

  test('the same object for a trial each time', () => {
    const log = logOf({ earlier: [trial(1)] })
    const [first] = log.observations()
    log.add(trial(2))
    expect(log.observations()[0]).toBe(first)
  })
})
