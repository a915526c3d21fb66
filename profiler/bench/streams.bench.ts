/**
 * TTFT and TPOT of the load generator beside those of a plain client that shares no code with it
 * (plain-stream-client.mjs), and beside what the server was told to do: the second half
 * of `npm run bench:loopback`, about half a minute. Best on a machine that does nothing else. Both send the same requests at
 * once. Prints p50, p90 and p99, and exits with 1 where they are further apart than 5 % and 1 ms;
 * windows that the machine disturbed are marked, and say nothing.
 */

import { disturbedBy } from '../testing/undisturbed.ts'
import { type SeenStreams, type StreamCase, seenStreams } from './known-streams.ts'

const cases: Readonly<Record<string, StreamCase>> = {
  'slow, 20/s': { rateRps: 20, seconds: 4, firstMs: [300, 900], eachMs: [50, 150], tokens: 12 },
  'chat, 40/s': { rateRps: 40, seconds: 5, firstMs: [60, 200], eachMs: [8, 24], tokens: 64 },
  'fast, 100/s': { rateRps: 100, seconds: 5, firstMs: [20, 60], eachMs: [4, 12], tokens: 16 },
}
const allowed = { share: 0.05, ms: 1 }
const percentiles = ['p50Ms', 'p90Ms', 'p99Ms'] as const

const differs = (a: number, b: number) =>
  !(Math.abs(a - b) <= Math.max(allowed.ms, allowed.share * b))
const row = (name: string, by: string, seen: SeenStreams['ours']) => {
  const of = (what: 'ttft' | 'tpot') =>
    percentiles.map((p) => seen[what][p].toFixed(1).padStart(8)).join('')
  console.log(`${name.padEnd(14)}${by.padEnd(14)}${of('ttft')}   ${of('tpot')}`)
}

console.log(
  `${''.padEnd(28)}${'TTFT p50     p90     p99'.padStart(24)}   ${'TPOT p50     p90     p99'.padStart(24)}   (ms)`,
)
for (const [name, streams] of Object.entries(cases)) {
  const { truth, ours, plain, run } = await seenStreams(streams)
  row(name, 'the server', truth)
  row('', 'open loop', ours)
  row('', 'plain client', plain)
  const disturbed = disturbedBy(run)
  const off = (['ttft', 'tpot'] as const).flatMap((what) =>
    percentiles.filter((p) => differs(ours[what][p], plain[what][p])).map((p) => `${what} ${p}`),
  )
  const verdict =
    off.length === 0
      ? 'as the plain client says'
      : `other than the plain client says: ${off.join(', ')}`
  console.log(`${''.padEnd(14)}${disturbed ?? verdict}\n`)
  if (disturbed === undefined && off.length > 0) process.exitCode = 1
}
