/**
 * How true, how certain and how fast a capacity is: `npm run bench:profiler -- [seeds] [server] [method]`, the last two regular expressions.
 * Servers in virtual time (their true capacities from long simulation), the profiler's search beside bisection with 3 s and 10 s windows.
 */
import { efforts } from '../capacity/effort.ts'
import { type CapacityOptions, measureCapacity } from '../capacity/measure.ts'
import { heldOutCases } from '../testing/held-out-servers.ts'
import { developmentCases, simpleCases } from '../testing/simple-servers.ts'
import { type VirtualCase, virtualCases } from '../testing/virtual-servers.ts'
import { VirtualLoadGenerator } from '../virtual/virtual-generator.ts'
import { openBisection } from './open-bisection.bench.ts'
import { trueCapacities } from './truth.bench.ts'

interface Found {
  readonly capacityRps: number
  readonly capacityCi90Rps: readonly [number, number]
  readonly seconds: number
  readonly requests: number
}
type Method = (of: VirtualCase, seed: number) => Promise<Found>

const { signal } = new AbortController()
const generator = new VirtualLoadGenerator()
const open =
  (effort: CapacityOptions['effort']): Method =>
  (of, seed) =>
    measureCapacity({ target: { kind: 'virtual', server: of.server(seed * 7) }, slo: of.slo, signal, seed: seed * 1000, effort })
const bisection =
  (windowS: number): Method =>
  (of, seed) =>
    openBisection(generator, { kind: 'virtual', server: of.server(seed * 7) }, of.slo, windowS, seed * 1000)

const methods: Record<string, Method> = {
  standard: open('standard'),
  quick: open('quick'),
  'in 12 s': open({ ...efforts.standard, budgetS: 8 }),
  'bisection 3 s': bisection(3),
  'bisection 10 s': bisection(10),
}

const quantile = (values: number[], p: number) =>
  [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(p * values.length))]!
const mean = (values: number[]) => values.reduce((sum, v) => sum + v, 0) / values.length
const percent = (share: number) => `${(100 * share).toFixed(1)} %`.padStart(8)

/** Beyond those that the search was developed with. */
const firstSeed = 1000
const seeds = Number(process.argv[2] ?? 100)
const only = new RegExp(process.argv[3] ?? '.')
const onlyMethods = new RegExp(process.argv[4] ?? '.')
const truths = trueCapacities()
console.log(`${'server'.padEnd(37)}${'method'.padEnd(16)}  err med  err p90     bias   covers    ± half  seconds requests`)
const cases = [...simpleCases, ...developmentCases, ...virtualCases, ...heldOutCases].filter((c) =>
  process.argv[3] ? only.test(c.name) : !c.name.startsWith('dev'),
)
for (const of of cases) {
  const truth = truths[of.name]!
  for (const [name, method] of Object.entries(methods).filter(([method]) => onlyMethods.test(method))) {
    const found: Found[] = []
    for (let i = 1; i <= seeds; i++) found.push(await method(of, firstSeed + i))
    const errors = found.map((f) => f.capacityRps / truth - 1)
    const absolute = errors.map(Math.abs)
    const covers = mean(found.map(({ capacityCi90Rps: [low, high] }) => (low <= truth && truth <= high ? 1 : 0)))
    const half = mean(found.map(({ capacityCi90Rps: [low, high] }) => (high - low) / 2 / truth))
    const columns = [
      percent(quantile(absolute, 0.5)),
      percent(quantile(absolute, 0.9)),
      percent(quantile(errors, 0.5)),
      percent(covers),
      percent(half),
    ]
    const effort = [
      mean(found.map((f) => f.seconds))
        .toFixed(1)
        .padStart(8),
      mean(found.map((f) => f.requests))
        .toFixed(0)
        .padStart(8),
    ]
    console.log(`${of.name.padEnd(37)}${name.padEnd(16)} ${[...columns, ...effort].join(' ')}`)
  }
}
