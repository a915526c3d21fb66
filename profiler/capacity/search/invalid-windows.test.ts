/**
 * What becomes of a search, of which the machine spoils windows of open load; of its closed loops
 * in spoilt-loops.test.ts.
 */
import { describe, expect, test } from 'vitest'
import type { LoadRun } from '../../model/load-run.ts'
import {
  missing,
  type Open,
  posterior,
  rates,
  searched,
  ten,
  windowOf,
} from '../../testing/scripted-search.ts'

describe('a window', () => {
  const waited = { machineWait: { server: 0.5 } }

  test('that is invalid is repeated three times, outside the budget', async () => {
    const { asked, found } = await searched({
      window: (load, i) => (i >= 1 && i <= 3 ? missing(load, waited) : windowOf(load)),
    })
    expect(rates(asked)).toEqual([775, 600, 600, 600, 600, 600])
    expect(asked.map(({ seed }) => seed)).toEqual([7, 8, 9, 10, 11, 12])
    expect(found.outcome).toBe('converged')
  })

  test('that stays invalid ends the search without a capacity', async () => {
    const { asked, found } = await searched({
      window: (load, i) => (i >= 1 ? missing(load, waited) : windowOf(load)),
    })
    expect(asked).toHaveLength(5)
    expect(found).toMatchObject({
      outcome: 'host-interference',
      bounds: 'none',
      capacityRps: 0,
      capacityCi90Rps: [0, Number.POSITIVE_INFINITY],
    })
    expect(found.detail).toMatch(/^other work on this machine disturbed every window/)
  })

  test('that stays invalid keeps an earlier estimate', async () => {
    const { asked, found } = await searched({
      effort: ten,
      window: (load, i) => (i >= 4 ? missing(load, waited) : windowOf(load)),
      estimate: () => ({ ...posterior(600), capacityCi90Rps: [400, 700] }),
    })
    expect(asked).toHaveLength(8)
    expect(found).toMatchObject({
      outcome: 'budget',
      bounds: 'both',
      capacityRps: 600,
      capacityCi90Rps: [400, 700],
    })
  })

  test('that stays invalid like most windows leaves no estimate unless one violated the SLO', async () => {
    const outcome = async (first: (load: Open) => LoadRun) =>
      (
        await searched({
          effort: ten,
          window: (load, i) =>
            i >= 3 ? missing(load, waited) : i === 1 ? first(load) : windowOf(load),
          estimate: () => ({ ...posterior(600), capacityCi90Rps: [400, 700] }),
        })
      ).found.outcome
    expect(await outcome(windowOf)).toBe('host-interference')
    expect(await outcome(missing)).toBe('budget')
  })

  test('that met the SLO in spite of interference is not repeated', async () => {
    const { asked, found } = await searched({
      window: (load, i) => windowOf(load, 5, i >= 1 ? waited : {}),
    })
    expect(rates(asked)).toEqual([775, 600, 600])
    expect(found).toMatchObject({ outcome: 'converged', bounds: 'both', capacityRps: 600 })
    expect(found.capacityCi90Rps[0]).toBeLessThanOrEqual(600)
  })
})
