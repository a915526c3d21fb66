/**
 * How soon `tune watch` sees that an emulated predictor takes 15 % longer, and how often it says so of one that does not: `npm run bench:watch`. Days in virtual time of
 * every pattern and noise, from servers, seeds and one kind of noise on which no constant was chosen; 10 times 200 quiet days and 20 changes of each.
 */
import { demandPatterns } from '../plan/demand.ts'
import { type DriftState, driftAfter, noDrift } from './drift.ts'
import { measured, type Noise, noises, Production, shapes } from './testing/production.ts'

const question = { tolerance: 0.07, quietDays: 365 }
const [quietRuns, quietDays, changes] = [10, 200, 20]
const servers = ([71, 72] as const).flatMap((seed) =>
  Object.values(shapes).map((shape) => {
    const server = measured(seed, shape)
    return { server, production: new Production(server, seed * 100_000, 12, shape) }
  }),
)
const at = (seed: number) => servers[seed % servers.length]!
type Pattern = (typeof demandPatterns)[number]

function alarms(pattern: Pattern, noise: Noise, seed: number): number {
  let state: DriftState = noDrift
  let [count, before] = [0, false]
  for (const window of at(seed).production.days(quietDays, { pattern, noise, seed })) {
    state = driftAfter(state, window, at(seed).server, 1, question)
    const now = state.established !== undefined
    if (now && !before) count++
    before = now
  }
  return count
}

/** Hours; negative: an alarm before the change. */
function delay(pattern: Pattern, noise: Noise, seed: number): number {
  let state: DriftState = noDrift
  for (const window of at(seed).production.days(16, { pattern, noise, seed, slowness: 1.15, slowFromDay: 10 })) {
    state = driftAfter(state, window, at(seed).server, 1, question)
    if (state.established) return window.fromS / 3600 - 240
  }
  return Number.POSITIVE_INFINITY
}

process.stdout.write(
  `alarms in each ${quietDays} quiet days (${quietRuns} times); hours until 15 % is established (${changes} times): median, 95 %, most\n`,
)
let [all, worst] = [0, 0]
for (const noise of noises)
  for (const pattern of demandPatterns) {
    const counts = Array.from({ length: quietRuns }, (_, i) => alarms(pattern, noise, 10_000 + i))
    const delays = Array.from({ length: changes }, (_, i) => delay(pattern, noise, 20_000 + i)).sort((a, b) => a - b)
    all += counts.reduce((sum, count) => sum + count, 0)
    worst = Math.max(worst, ...counts)
    const hours = [0.5, 0.95, 1].map((share) => delays[Math.ceil(share * changes) - 1]!.toFixed(0))
    process.stdout.write(`${noise.padEnd(15)}${pattern.padEnd(16)}${counts.join(' ')}    ${hours.join(', ')}\n`)
  }
const days = noises.length * demandPatterns.length * quietRuns * quietDays
process.stdout.write(`${all} alarms in ${days} quiet days, at most ${worst} in ${quietDays} of them\n`)
