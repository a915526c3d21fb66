import { expect, test } from 'vitest'
import { skipIfDisturbed } from '../testing/undisturbed.ts'
import { type SeenStreams, seenStreams } from './known-streams.ts'

const percentiles = ['p50Ms', 'p90Ms', 'p99Ms'] as const
/** So far apart may two ways of measuring the same be: an error of 10 % of either is further. */
const allowed = 0.04
/**
 * Answers of hundreds of milliseconds are moved by no more than that when the server waited for a
 * core for this share of the window.
 */
const moved = 0.02

/** Largest share by which any of the six figures is off from those of the other. */
const apart = (ours: SeenStreams['ours'], other: SeenStreams['ours']): number =>
  Math.max(
    ...(['ttft', 'tpot'] as const).flatMap((what) =>
      percentiles.map((p) => Math.abs(ours[what][p] / other[what][p] - 1)),
    ),
  )

test('TTFT and TPOT are those that a client finds that shares no code with the generator, and those of the server', async ({
  skip,
}) => {
  const streams = {
    rateRps: 20,
    seconds: 3,
    firstMs: [300, 900],
    eachMs: [50, 150],
    tokens: 8,
  } as const
  const { truth, ours, plain, run } = await seenStreams(streams)
  expect([...run.latencyMs].some(Number.isNaN)).toBe(false)
  expect([...run.stream!.tokens].every((tokens) => tokens === 8)).toBe(true)
  skipIfDisturbed(run, skip, moved)
  expect(apart(ours, plain)).toBeLessThan(allowed)
  expect(apart(ours, truth)).toBeLessThan(allowed)
  for (const what of ['ttft', 'tpot'] as const)
    for (const p of percentiles) {
      const wrong = { ...ours, [what]: { ...ours[what], [p]: 1.1 * ours[what][p] } }
      expect(apart(wrong, plain)).toBeGreaterThan(allowed)
    }
})
