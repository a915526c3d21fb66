/**
 * `npm run bench:simulated [-- --trials N --seed S --cv C]`: simulated trials a second of CPU time,
 * and how far their capacities lie from those that bisection over windows of 60,000 requests finds,
 * over configurations drawn from BERT on five GPUs; C is the coefficient of variation of the time
 * between requests. Then what a trial of a real server would take, its search played in virtual
 * time: seconds under load with nothing known beforehand, and with the capacity expected right and
 * wrong, beside the figures.
 */
import { parseArgs } from 'node:util'
import { measureCapacity, measureSimulatedCapacity } from '../../profiler/index.ts'
import { createRng } from '../../search/index.ts'
import type { Configuration } from '../../search/types.ts'
import { architectureOf } from '../../trials/devices/architecture.ts'
import { createSimulatedLauncher } from '../../trials/launchers/simulated/simulated-launcher.ts'
import { InfeasibleError } from '../../trials/types.ts'
import { effortFor } from '../backends/load-work.ts'
import { table } from '../render/columns.ts'

const { values: options } = parseArgs({
  options: {
    trials: { type: 'string', default: '300' },
    seed: { type: 'string', default: '1' },
    cv: { type: 'string', default: '1' },
  },
})
const rng = createRng(Number(options.seed))
const one = <T>(values: readonly T[]): T => values[rng.int(values.length)]!
const arrivals =
  options.cv === '1'
    ? ({ kind: 'poisson' } as const)
    : ({ kind: 'gamma', cv: Number(options.cv) } as const)
const slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
const launcher = createSimulatedLauncher({
  architecture: architectureOf('bert'),
  seed: 1,
})
const configurations = Array.from(
  { length: Number(options.trials) },
  (): Configuration => ({
    gpu: one(['T4', 'L4', 'A10G', 'V100', 'H100']),
    cpuCores: one([1, 2, 4, 8]),
    gpuMemoryPercent: one([20, 40, 100]),
    batchSize: one([1, 4, 8, 16, 32, 64]),
    maxDelayMs: one([1, 5]),
  }),
)

async function measured() {
  const { signal } = new AbortController()
  const capacities: {
    readonly configuration: Configuration
    readonly capacityRps: number
    readonly interval: readonly [number, number]
  }[] = []
  const before = process.cpuUsage()
  for (const [i, configuration] of configurations.entries()) {
    try {
      const { target } = await launcher.launch(configuration, i, signal)
      if (target.kind !== 'virtual') throw new Error('not virtual')
      const measurement = await measureSimulatedCapacity({ target, slo, seed: 1, signal, arrivals })
      capacities.push({
        configuration,
        capacityRps: measurement.capacityRps,
        interval: measurement.capacityCi90Rps,
      })
    } catch (error) {
      if (!(error instanceof InfeasibleError)) throw error
    }
  }
  const { user, system } = process.cpuUsage(before)
  return { capacities, seconds: (user + system) / 1e6 }
}

/**
 * The highest rate at which no more of 60,000 requests are over the limit than the percentile
 * allows.
 */
async function longBisection(configuration: Configuration, near: number): Promise<number> {
  const { target } = await launcher.launch(configuration, 1, new AbortController().signal)
  if (target.kind !== 'virtual' || !target.server.countOver)
    throw new Error('not a server that counts')
  const requests = 60_000
  const most = requests - Math.ceil(slo.percentile * requests)
  let [low, high] = [0.5 * near, 1.5 * near]
  while (high / low > 1.002) {
    const rateRps = Math.sqrt(low * high)
    const load = {
      kind: 'open',
      rateRps,
      arrivals,
      durationS: requests / rateRps,
      seed: 77,
    } as const
    if (target.server.countOver(load, slo.limitMs, most).over <= most) low = rateRps
    else high = rateRps
  }
  return low
}

await measured()
const { capacities, seconds } = await measured()
console.log(
  `${capacities.length} trials: ${Math.round(capacities.length / seconds)} a second of CPU time, ${((1000 * seconds) / capacities.length).toFixed(2)} ms each`,
)
const errors: number[] = []
let within = 0
for (const { configuration, capacityRps, interval } of capacities
  .filter((c) => c.capacityRps > 0)
  .slice(0, 60)) {
  const exact = await longBisection(configuration, capacityRps)
  errors.push(Math.abs(capacityRps / exact - 1))
  if (exact >= interval[0] && exact <= interval[1]) within++
}
errors.sort((a, b) => a - b)
const at = (share: number) =>
  `${(100 * errors[Math.min(errors.length - 1, Math.floor(share * errors.length))]!).toFixed(1)} %`
console.log(
  `capacities against long windows of other arrivals, ${errors.length} of them: off by ${at(0.5)} in the median, p90 ${at(0.9)}, at most ${at(1)}; ${within} within their 90 % intervals`,
)

/**
 * Seconds under load, and capacity over that of long windows, of a search that expects `part` of
 * it.
 */
async function searched(
  configuration: Configuration,
  truthRps: number,
  part: number | undefined,
  seed: number,
) {
  const { signal } = new AbortController()
  const { target } = await launcher.launch(configuration, seed, signal)
  const expectedRps = part === undefined ? undefined : part * truthRps
  const found = await measureCapacity({
    target,
    slo,
    signal,
    effort: effortFor(3),
    seed: 1000 * seed,
    expectedRps,
  })
  return { seconds: found.seconds, ofTruth: found.capacityRps / truthRps }
}

const trialSeeds = [1, 2]
const some = capacities.filter((c) => c.capacityRps > 20).slice(0, 6)
const rows = [
  ['expected, of the truth', 'seconds under load, mean', 'most', 'capacity off by, median', 'most'],
]
for (const part of [undefined, 0.1, 0.5, 0.9, 1, 1.1, 2, 8]) {
  const found = []
  for (const { configuration, capacityRps } of some)
    for (const seed of trialSeeds)
      found.push(await searched(configuration, capacityRps, part, seed))
  const took = found.map((f) => f.seconds).sort((a, b) => a - b)
  const off = found.map((f) => Math.abs(f.ofTruth - 1)).sort((a, b) => a - b)
  const mean = took.reduce((sum, each) => sum + each, 0) / took.length
  const shares = [off[Math.floor(off.length / 2)]!, off.at(-1)!].map(
    (share) => `${(100 * share).toFixed(1)} %`,
  )
  rows.push([
    part === undefined ? 'nothing' : `${part}`,
    mean.toFixed(1),
    took.at(-1)!.toFixed(1),
    ...shares,
  ])
}
console.log(
  `\nthe search of a real trial, in virtual time, ${some.length} configurations\n${table(rows).join('\n')}`,
)
