import { expect, test } from 'vitest'
import { UserError } from '../../exit-codes.ts'
import { applyContext, type Looked } from './applying.ts'
import type { WatchFlags } from './watch-flags.ts'

/** Of a p99 of 50 ms. */
const settings = (flags: Partial<WatchFlags>, capacityRps: number) => {
  const looked = {
    flags: {
      db: 'x',
      log: 'a.log',
      path: [],
      field: [],
      canaryTime: '10m',
      risk: '5%',
      takeOver: [],
      ...flags,
    },
    name: 'bert',
    windowS: 60,
    reopened: { experiment: {} },
    deployed: {
      slo: { percentile: 0.99, limitMs: 50, maxErrorRate: 0.01 },
      replicas: 1,
      detourMs: 0,
    },
    untilS: undefined,
    place: undefined,
    nowS: () => 1000,
  } as unknown as Looked
  return applyContext(looked, capacityRps, 8000).settings
}

function refusal(flags: Partial<WatchFlags>, capacityRps: number): UserError {
  try {
    settings(flags, capacityRps)
  } catch (error) {
    if (error instanceof UserError) return error
    throw error
  }
  throw new Error('it was not refused')
}

test('few probes beside what a replica can, and ten a second at most; or as many as are asked for', () => {
  expect(settings({}, 60).probeRps).toBe(3)
  expect(settings({}, 5000).probeRps).toBe(10)
  expect(settings({ probeRate: '25rps' }, 60)).toMatchObject({
    probeRps: 25,
    question: { risk: 0.05, leastS: 600, mostS: 1800 },
  })
})

test('a time in which nothing could be sure is refused, with one that is enough', () => {
  const { message, hint } = refusal({ canaryTime: '1m' }, 20)
  expect(message).toMatch(/^1 probes\/s for 180 s are too few to be sure: of 359 none/)
  const minutes = Number(/--canary-time (\d+)m/.exec(hint!)![1])
  expect(
    settings({ canaryTime: `${minutes}m` }, 20).probeRps * 60 * minutes,
  ).toBeGreaterThanOrEqual(359)
  expect(settings({ canaryTime: '2m' }, 20).question.mostS).toBe(360)
  expect(refusal({ risk: '50%' }, 20).message).toContain('--risk 50%')
  expect(refusal({ risk: '0' }, 20).message).toContain('--risk 0')
  expect(refusal({ canaryTime: '500ms' }, 20).message).toContain('--canary-time 500ms')
})
