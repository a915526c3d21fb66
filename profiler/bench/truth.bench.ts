/**
 * True capacities of the virtual servers, by long simulation: `node --import tsx profiler/bench/truth.bench.ts [case]` rewrites truth.json.
 * The share of requests over the limit is averaged over 24 runs of 150,000 requests at each of 9 rates, then interpolated in logarithms.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { heldOutCases } from '../testing/held-out-servers.ts'
import { developmentCases, simpleCases } from '../testing/simple-servers.ts'
import { type VirtualCase, virtualCases } from '../testing/virtual-servers.ts'

const file = new URL('./truth.json', import.meta.url)

/** Capacity in requests per second by the case's name. */
export const trueCapacities = (): Record<string, number> => JSON.parse(readFileSync(file, 'utf8'))

/** Shares of requests over the limit, and of failed ones, at a steady Poisson rate, the server long warm. */
function overAt(of: VirtualCase, rateRps: number, requests: number, seeds: number): { over: number; failed: number } {
  let over = 0
  let failed = 0
  let n = 0
  for (let seed = 1; seed <= seeds; seed++) {
    const server = of.server(seed)
    server.play({ kind: 'closed', connections: 2, durationS: 20 })
    const durationS = requests / rateRps
    const { latencyMs, sentMs } = server.play({ kind: 'open', rateRps, durationS, arrivals: { kind: 'poisson' }, seed: seed * 977 })
    for (let i = 0; i < latencyMs.length; i++) {
      if (sentMs[i]! < 30 * durationS) continue // the first 3 %: the queue fills
      n++
      if (!(latencyMs[i]! <= of.slo.limitMs)) over++
      if (Number.isNaN(latencyMs[i]!)) failed++
    }
  }
  return { over: over / n, failed: failed / n }
}

function trueCapacity(of: VirtualCase): number {
  /** The larger of both shares, each as a part of what is allowed. */
  const worst = ({ over, failed }: { over: number; failed: number }) =>
    Math.max(over / (1 - of.slo.percentile), failed / of.slo.maxErrorRate)
  let [low, high] = [1, 5000]
  for (let i = 0; i < 9; i++) {
    const middle = Math.sqrt(low * high)
    if (worst(overAt(of, middle, 60_000, 1)) <= 1) low = middle
    else high = middle
  }
  const rates = Array.from({ length: 9 }, (_, i) => low * Math.exp((i - 4) * 0.04))
  const logOver = rates.map((rate) => Math.log(worst(overAt(of, rate, 150_000, 24)) + 1e-6))
  const above = logOver.findIndex((over) => over > 0)
  if (above < 1) throw new Error(`${of.name}: the bracket missed the capacity`)
  const share = (0 - logOver[above - 1]!) / (logOver[above]! - logOver[above - 1]!)
  return rates[above - 1]! * (rates[above]! / rates[above - 1]!) ** share
}

if (process.argv[1]?.includes('truth.bench')) {
  const truths = trueCapacities()
  const only = new RegExp(process.argv[2] ?? '.')
  for (const of of [...simpleCases, ...developmentCases, ...virtualCases, ...heldOutCases].filter((c) => only.test(c.name))) {
    truths[of.name] = Number(trueCapacity(of).toPrecision(5))
    console.log(of.name, truths[of.name])
  }
  writeFileSync(file, `${JSON.stringify(truths, null, 2)}\n`)
}
