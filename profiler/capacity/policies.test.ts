/**
 * Capacities of servers whose policies the search once took for something else: converged and
 * wrong, or none at all.
 */
import { describe, expect, test } from 'vitest'
import { trueCapacities } from '../bench/truth.bench.ts'
import { furtherCases } from '../testing/further-servers.ts'
import { simpleCases } from '../testing/simple-servers.ts'
import { measureCapacity } from './measure.ts'

const truths = trueCapacities()
const { signal } = new AbortController()

async function measured(name: RegExp, seeds: readonly number[]) {
  const of = [...furtherCases, ...simpleCases].find((known) => name.test(known.name))!
  const truth = truths[of.name]!
  const found = await Promise.all(
    seeds.map((seed) =>
      measureCapacity({
        target: { kind: 'virtual', server: of.server(7 * seed) },
        slo: of.slo,
        signal,
        seed: 1000 * seed,
        effort: 'quick',
      }),
    ),
  )
  const errors = found
    .map(({ capacityRps }) => Math.abs(capacityRps / truth - 1))
    .sort((a, b) => a - b)
  return {
    found,
    truth,
    medianError: errors[errors.length >> 1]!,
    covers: found.filter(({ capacityCi90Rps: [low, high] }) => low <= truth && truth <= high)
      .length,
    outcomes: found.map(({ outcome }) => outcome),
  }
}
const three = [1, 2, 3]

describe('a server that refuses', () => {
  test('whom it let wait for too long: as a queue that is full with about so many', async () => {
    const { medianError, covers } = await measured(/requests that waited 80 ms/, three)
    expect(medianError).toBeLessThan(0.05)
    expect(covers).toBeGreaterThanOrEqual(2)
  })

  test('by a limit that adapts: from which rate on is said not to be known, and the interval reaches down', async () => {
    const { found, covers } = await measured(/a limit that adapts/, three)
    const open = found.filter(
      ({ outcome, detail }) =>
        outcome === 'budget' && detail?.startsWith('requests are refused under overload'),
    )
    expect(open.length).toBeGreaterThanOrEqual(2)
    expect(covers).toBeGreaterThanOrEqual(2)
    // Of which seeds nothing else is told: refusals only while it was busy are no bucket's.
    const others = await measured(/a limit that adapts/, [1005, 1009])
    expect(others.covers).toBe(2)
  })

  test('by a large bucket, which loops have emptied: windows begin below what flows in it', async () => {
    const { medianError, covers, outcomes } = await measured(/60\/s and 300 more/, three)
    expect(outcomes).not.toContain('errors')
    expect(medianError).toBeLessThan(0.03)
    expect(covers).toBeGreaterThanOrEqual(2)
  })
})

describe('workers that are not all there for all', () => {
  const wrongly = ({ found, truth }: Awaited<ReturnType<typeof measured>>) =>
    found.filter(
      ({ outcome, capacityCi90Rps: [low, high] }) =>
        outcome === 'converged' && !(low <= truth && truth <= high),
    ).length

  test('started anew now and then: what closed loops got and open windows did not is in the interval', async () => {
    const of = await measured(/started anew after 100 requests/, [1002, 1003, 1008])
    expect(of.covers).toBeGreaterThanOrEqual(2)
    expect(wrongly(of)).toBeLessThanOrEqual(1)
    expect(
      of.found.some(({ caveats }) =>
        caveats.some((caveat) => caveat.includes('some of its workers are away')),
      ),
    ).toBe(true)
  })

  test('each with a queue of its own: no cores shared by all, whose work would vary with who is there', async () => {
    const of = await measured(/each with a queue of its own/, [1002, 1005, 1007])
    expect(of.covers).toBeGreaterThanOrEqual(2)
    // Of twenty seeds two are.
    expect(wrongly(of)).toBeLessThanOrEqual(1)
  })
})

test('workers of which two often end at once are no cores beside batches that take no time', async () => {
  const { covers, medianError } = await measured(/^two workers, 10 ms, within 1 s/, [1027, 1038])
  expect(covers).toBe(2)
  expect(medianError).toBeLessThan(0.012)
})

test('a server that works on all in iterations does not slow down for being fuller', async () => {
  const { outcomes, medianError } = await measured(/continuous batches/, three)
  expect(outcomes.filter((outcome) => outcome === 'non-stationary').length).toBeLessThanOrEqual(1)
  expect(medianError).toBeLessThan(0.05)
})
