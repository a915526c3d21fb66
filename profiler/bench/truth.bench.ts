/**
 * True capacities of the virtual servers, by long simulation: `node --import tsx
 * profiler/bench/truth.bench.ts [case]` rewrites truth.json. The share of requests over the limit
 * is averaged over 24 runs of 150,000 requests (6 of 100,000 of the further servers, small models,
 * slow ones and those drawn at random), of fast servers over fewer runs of 200 s (a queue near its
 * saturation takes that long to show that it grows), at rates halfway between one that holds and
 * one that does not, until they are 0.4 % apart, then interpolated in logarithms.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { drawnCases } from '../testing/drawn-servers.ts'
import { furtherCases } from '../testing/further-servers.ts'
import { heldOutCases } from '../testing/held-out-servers.ts'
import { developmentCases, simpleCases } from '../testing/simple-servers.ts'
import { slowCases } from '../testing/slow-servers.ts'
import { slowTimesCases, smallModelCases } from '../testing/small-model-servers.ts'
import { type VirtualCase, virtualCases } from '../testing/virtual-servers.ts'

const file = new URL('./truth.json', import.meta.url)

/** Capacity in requests per second by the case's name. */
export const trueCapacities = (): Record<string, number> => JSON.parse(readFileSync(file, 'utf8'))

/**
 * Shares of requests over the limit, and of failed ones, at a steady Poisson rate, the server long
 * warm.
 */
function overAt(
  of: VirtualCase,
  rateRps: number,
  requests: number,
  seeds: number,
): { over: number; failed: number } {
  let over = 0
  let failed = 0
  let n = 0
  for (let seed = 1; seed <= seeds; seed++) {
    const server = of.server(seed)
    server.play({ kind: 'closed', connections: 2, durationS: 20 })
    const durationS = requests / rateRps
    const { latencyMs, sentMs } = server.play({
      kind: 'open',
      rateRps,
      durationS,
      arrivals: { kind: 'poisson' },
      seed: seed * 977,
    })
    for (let i = 0; i < latencyMs.length; i++) {
      if (sentMs[i]! < 30 * durationS) continue // the first 3 %: the queue fills
      n++
      if (!(latencyMs[i]! <= of.slo.limitMs)) over++
      if (Number.isNaN(latencyMs[i]!)) failed++
    }
  }
  return { over: over / n, failed: failed / n }
}

/** Runs of so many requests at each rate: of further and drawn servers, which are many, fewer. */
const long = { minRunS: 200, bracketRequests: 60_000, maxBracket: 1.004 }
const exactly = { runs: 24, requests: 150_000, ...long }
const nearly = { runs: 6, requests: 100_000, ...long }
const fewestRuns = 3

/** How long the servers are played, for how exact a capacity. */
interface TruthEffort {
  /** At each rate that is tried, of as many requests. */
  readonly runs: number
  readonly requests: number
  /** Of a run, as far as three runs are left. */
  readonly minRunS: number
  /** Of the one run at each rate while the capacity is looked for. */
  readonly bracketRequests: number
  /** Ratio of the two rates, one that holds and one that does not, between which it is interpolated. */
  readonly maxBracket: number
}

/** Requests per second. @throws Error where one run at each rate led astray */
export function trueCapacity(
  of: VirtualCase,
  { runs, requests, minRunS, bracketRequests, maxBracket }: TruthEffort,
): number {
  /** The larger of both shares, each as a part of what is allowed. */
  const worst = ({ over, failed }: { over: number; failed: number }) =>
    Math.max(over / (1 - of.slo.percentile), failed / of.slo.maxErrorRate)
  let [low, high] = [1, 10_000]
  for (let i = 0; i < 9; i++) {
    const middle = Math.sqrt(low * high)
    if (worst(overAt(of, middle, bracketRequests, 1)) <= 1) low = middle
    else high = middle
  }
  const each = Math.max(requests, Math.round(minRunS * low))
  const several = Math.max(fewestRuns, Math.min(runs, Math.round((runs * requests) / each)))
  const logOver = (rateRps: number) => Math.log(worst(overAt(of, rateRps, each, several)) + 1e-6)
  let below = { rateRps: 0.88 * low, over: logOver(0.88 * low) }
  let above = { rateRps: 1.1 * low, over: logOver(1.1 * low) }
  if (below.over > 0 || above.over <= 0)
    throw new Error(`${of.name}: the bracket missed the capacity`)
  // The share over the limit of a server that has next to no variance is a cliff: no line from far
  // off meets its edge.
  while (above.rateRps / below.rateRps > maxBracket) {
    const rateRps = Math.sqrt(above.rateRps * below.rateRps)
    const between = { rateRps, over: logOver(rateRps) }
    if (between.over > 0) above = between
    else below = between
  }
  return (
    below.rateRps * (above.rateRps / below.rateRps) ** (-below.over / (above.over - below.over))
  )
}

if (process.argv[1]?.includes('truth.bench')) {
  const truths = trueCapacities()
  const only = new RegExp(process.argv[2] ?? '.')
  const known = [...simpleCases, ...developmentCases, ...virtualCases, ...heldOutCases].map(
    (of) => ({ of, play: exactly }),
  )
  const others = [
    ...furtherCases,
    ...drawnCases,
    ...smallModelCases,
    ...slowTimesCases,
    ...slowCases,
  ].map((of) => ({ of, play: nearly }))
  for (const { of, play } of [...known, ...others].filter((c) => only.test(c.of.name))) {
    truths[of.name] = Number(trueCapacity(of, play).toPrecision(5))
    console.log(of.name, truths[of.name])
    writeFileSync(file, `${JSON.stringify(truths, null, 2)}\n`)
  }
}
