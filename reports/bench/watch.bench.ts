/**
 * How soon `tune watch` sees that an emulated predictor takes 15 % longer, and how often it says so
 * of one that does not: `npm run bench:watch`. Days in virtual time of every pattern and noise,
 * from servers, seeds and one kind of noise on which no constant was chosen; 10 times 200 quiet
 * days and 20 changes of each.
 */
import { demandPatterns } from '../plan/demand.ts'
import {
  limitMs,
  measured,
  type Noise,
  noises,
  Production,
  shapes,
} from '../watch/testing/production.ts'
import { createWatchState, evaluateWatch, recordWindow, type WatchTarget } from '../watch/watch.ts'

const [quietRuns, quietDays, changes] = [10, 200, 20]
const servers = ([71, 72] as const).flatMap((seed) =>
  Object.values(shapes).map((shape) => {
    const server = measured(seed, shape)
    return {
      watched: watchedOf(server),
      production: new Production(server, seed * 100_000, 12, shape),
    }
  }),
)
const at = (seed: number) => servers[seed % servers.length]!
type Pattern = (typeof demandPatterns)[number]

function watchedOf(server: WatchTarget['server']): WatchTarget {
  const slo = { percentile: 0.99, limitMs, maxErrorRate: 0.01 }
  const drift = { tolerance: 0.07, falseAlarmDays: 365 }
  return {
    server,
    slo,
    drift,
    headroom: 0.2,
    replicas: 1,
    pricePerHour: { stored: 1, today: 1 },
    ingressMs: 0,
  }
}

/** How often a drift begins to be told, and anything else. */
function alarms(
  pattern: Pattern,
  noise: Noise,
  seed: number,
): { readonly drifts: number; readonly others: number } {
  const { production, watched } = at(seed)
  let state = createWatchState(1)
  let told = new Set<string>()
  const count = { drifts: 0, others: 0 }
  for (const window of production.days(quietDays, { pattern, noise, seed })) {
    state = recordWindow(state, window, watched)
    const kinds = new Set<string>(evaluateWatch(state, watched).findings.map(({ kind }) => kind))
    for (const kind of kinds) if (!told.has(kind)) count[kind === 'drift' ? 'drifts' : 'others']++
    told = kinds
  }
  return count
}

/** Hours; negative: an alarm before the change. */
function delay(pattern: Pattern, noise: Noise, seed: number): number {
  const { production, watched } = at(seed)
  let state = createWatchState(1)
  for (const window of production.days(16, {
    pattern,
    noise,
    seed,
    slowness: 1.15,
    slowFromDay: 10,
  })) {
    state = recordWindow(state, window, watched)
    if (state.drift.established) return window.fromS / 3600 - 240
  }
  return Number.POSITIVE_INFINITY
}

process.stdout.write(`drifts told in each ${quietDays} days without one, ${quietRuns} times; other findings in all of them;
hours until 15 % is established, ${changes} times: median, 95 %, most\n`)
let [all, worst] = [0, 0]
for (const noise of noises)
  for (const pattern of demandPatterns) {
    const found = Array.from({ length: quietRuns }, (_, i) => alarms(pattern, noise, 10_000 + i))
    const counts = found.map(({ drifts }) => drifts)
    const others = found.reduce((sum, one) => sum + one.others, 0)
    const delays = Array.from({ length: changes }, (_, i) =>
      delay(pattern, noise, 20_000 + i),
    ).sort((a, b) => a - b)
    all += counts.reduce((sum, count) => sum + count, 0)
    worst = Math.max(worst, ...counts)
    const hours = [0.5, 0.95, 1].map((share) => delays[Math.ceil(share * changes) - 1]!.toFixed(0))
    process.stdout.write(
      `${noise.padEnd(15)}${pattern.padEnd(16)}${counts.join(' ')}${String(others).padStart(7)}    ${hours.join(', ')}\n`,
    )
  }
const days = noises.length * demandPatterns.length * quietRuns * quietDays
process.stdout.write(
  `${all} drifts told in ${days} days without one, at most ${worst} in ${quietDays} of them\n`,
)
