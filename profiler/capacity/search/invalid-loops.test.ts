import { describe, expect, test } from 'vitest'
import { busyMachine, type IsBusy } from '../../testing/busy-machine.ts'
import { QueueServer } from '../../testing/queue-server.ts'
import { targetAt } from '../../testing/servers.ts'
import { measureCapacity } from '../measure.ts'

const signal = new AbortController().signal
const slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
/** A GPU that serves batches of up to 64. */
const batches = (times: number) =>
  new QueueServer({
    seed: 1,
    servers: 1,
    maxBatch: 64,
    serviceMs: (size) => times * (4 + 0.06 * size),
  })

/** On a machine that is taken away in some loads: it answers so many times as slowly then. */
const measured = (
  isBusy: IsBusy,
  { capacityToBeatRps, times = 10 }: { capacityToBeatRps?: number; times?: number } = {},
) =>
  measureCapacity({
    ...{
      target: targetAt('http://127.0.0.1:1'),
      slo,
      signal,
      seed: 3,
      effort: 'quick',
      capacityToBeatRps,
    },
    generator: busyMachine((busy) => batches(busy ? times : 1), isBusy),
  })

/** Until three windows of open load were spoilt, and played again. */
const atFirst: IsBusy = (_, before) => before.filter(({ kind }) => kind === 'open').length < 3
const inLoops: IsBusy = ({ kind }) => kind === 'closed'
/** What it serves when it is left alone. */
const calmRps = 8110

describe('a server whose closed loops were disturbed', () => {
  test('is searched again once windows exceed the loops', async () => {
    expect((await measured(() => false)).capacityRps / calmRps).toBeCloseTo(1, 2)
    const found = await measured(atFirst)
    // Without: 143 a second, [125, 187].
    expect(found.capacityRps / calmRps).toBeCloseTo(1, 1)
    expect(found.capacityCi90Rps[0]).toBeLessThan(calmRps)
    expect(found.capacityCi90Rps[1]).toBeGreaterThan(calmRps)
  })

  test('is not pruned by its loops', async () => {
    const found = await measured(atFirst, { capacityToBeatRps: 4000 })
    expect(found.outcome).not.toBe('pruned')
    expect(found.capacityRps / calmRps).toBeCloseTo(1, 1)
  })

  test('has a capacity if windows reach a violation after a second disturbance', async () => {
    const found = await measured(inLoops, { times: 1.3 })
    expect(found.capacityRps / calmRps).toBeCloseTo(1, 1)
    expect(found.bounds).toBe('both')
  })

  test('has no capacity if no window violates the SLO after a second disturbance', async () => {
    const found = await measured(inLoops)
    expect(found).toMatchObject({
      outcome: 'host-interference',
      bounds: 'none',
      capacityRps: 0,
      capacityCi90Rps: [0, Number.POSITIVE_INFINITY],
    })
    expect(found.detail).toMatch(
      /^other work on this machine disturbed the closed loops, which reached [\d.]+ req\/s, and no window violated the SLO/,
    )
  })
})
