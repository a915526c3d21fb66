/**
 * How true, how certain and how fast a capacity is: `npm run bench:profiler -- [seeds] [server]
 * [method] [--http]`, the last two regular expressions. Servers in virtual time (their true
 * capacities from long simulation), the profiler's search beside bisection with 3 s and 10 s
 * windows. With `--http` the plain queues among them as processes, over real HTTP (5 seeds unless
 * said), on a machine that does nothing else: runs that were disturbed are counted and left out.
 */
import { efforts } from '../capacity/effort.ts'
import { type CapacityOptions, measureCapacity } from '../capacity/measure.ts'
import { VirtualLoadGenerator } from '../load/virtual-generator.ts'
import type { Phase } from '../model/load.ts'
import type { LoadPoint } from '../model/load-point.ts'
import type { CapacityOutcome } from '../model/measurement.ts'
import { judgeSloByInterval, meetsSlo } from '../model/slo.ts'
import { drawnCases } from '../testing/drawn-servers.ts'
import { furtherCases } from '../testing/further-servers.ts'
import { heldOutCases } from '../testing/held-out-servers.ts'
import { startTestServer } from '../testing/servers.ts'
import { developmentCases, simpleCases } from '../testing/simple-servers.ts'
import { slowTimesCases, smallModelCases } from '../testing/small-model-servers.ts'
import { type VirtualCase, virtualCases } from '../testing/virtual-servers.ts'
import { openBisection } from './open-bisection.bench.ts'
import { trueCapacities } from './truth.bench.ts'

interface Found {
  /** Of bisection absent. */
  readonly outcome?: CapacityOutcome
  readonly capacityRps: number
  readonly capacityCi90Rps: readonly [number, number]
  readonly seconds: number
  readonly requests: number
  /** Of open load, of the search alone; of bisection absent. */
  readonly loadS?: number
  /** Its interval contradicts its own windows; of bisection absent. */
  readonly contradicts?: boolean
}
type Method = (virtualCase: VirtualCase, seed: number) => Promise<Found>

const { signal } = new AbortController()
const generator = new VirtualLoadGenerator()

/**
 * A measurement with what its windows of open load say against it: an upper end below one that held
 * with room to spare, or a lower end where none held.
 */
async function measureAndWatch(options: CapacityOptions): Promise<Found> {
  const { slo } = options
  const points: LoadPoint[] = []
  const onStep = (point: LoadPoint, phase: Phase) => {
    if (phase === 'search' && point.load.kind === 'open') points.push(point)
  }
  const found = await measureCapacity({ ...options, onStep })
  const steady = points.filter(
    ({ load, cut }) => load.kind === 'open' && load.arrivals.kind !== 'sweep' && !cut,
  )
  const most = (of: LoadPoint[]) => of.reduce((rps, { offeredRps }) => Math.max(rps, offeredRps), 0)
  const [low, high] = found.capacityCi90Rps
  return {
    ...found,
    loadS: points.reduce((total, { seconds }) => total + seconds, 0),
    contradicts:
      low > 1.0001 * most(steady.filter((point) => meetsSlo(point, slo))) ||
      high < 0.9999 * most(steady.filter((point) => judgeSloByInterval(point, slo) === true)),
  }
}

const open =
  (effort: CapacityOptions['effort'], isDeclared = false): Method =>
  (virtualCase, seed) =>
    measureAndWatch({
      target: { kind: 'virtual', server: virtualCase.server(seed * 7) },
      slo: virtualCase.slo,
      signal,
      seed: seed * 1000,
      effort,
      discipline: isDeclared ? virtualCase.declared : undefined,
    })
const bisection =
  (windowS: number): Method =>
  (virtualCase, seed) =>
    openBisection(
      generator,
      { kind: 'virtual', server: virtualCase.server(seed * 7) },
      virtualCase.slo,
      windowS,
      seed * 1000,
    )

const overHttp =
  (effort: CapacityOptions['effort']): Method =>
  async (virtualCase, seed) => {
    const server = await startTestServer({
      time: { kind: 'known', name: virtualCase.name },
      seed: seed * 7,
    })
    try {
      return await measureAndWatch({
        target: server.target,
        slo: virtualCase.slo,
        signal,
        seed: seed * 1000,
        effort,
      })
    } finally {
      await server.stop()
    }
  }

const args = process.argv.slice(2).filter((arg) => arg !== '--http')
const http = args.length < process.argv.length - 2
const methods: Record<string, Method> = http
  ? { quick: overHttp('quick'), standard: overHttp('standard') }
  : {
      standard: open('standard'),
      quick: open('quick'),
      'quick, declared': open('quick', true),
      thorough: open('thorough'),
      'in 12 s': open({ ...efforts.standard, budgetS: 8 }),
      'bisection 3 s': bisection(3),
      'bisection 10 s': bisection(10),
    }

const quantile = (values: number[], p: number) =>
  [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(p * values.length))]!
const mean = (values: number[]) => values.reduce((sum, v) => sum + v, 0) / values.length
const formatPercent = (share: number) => `${(100 * share).toFixed(1)} %`.padStart(8)

/** Beyond those that the search was developed with. */
const firstSeed = 1000
const [seedsAsked, onlyServers = '.', methodsAsked = '^(?!thorough)'] = args
const seeds = Number(seedsAsked ?? (http ? 5 : 100))
const only = new RegExp(onlyServers)
const onlyMethods = new RegExp(methodsAsked)
const truths = trueCapacities()
console.log(
  `${'server'.padEnd(37)}${'method'.padEnd(16)}  err med  err p90     bias   covers    ± half     sure  wrong+sure  against  seconds  of load requests`,
)
const all = http
  ? [...simpleCases, ...developmentCases]
  : [
      ...simpleCases,
      ...developmentCases,
      ...virtualCases,
      ...heldOutCases,
      ...furtherCases,
      ...drawnCases,
      ...smallModelCases,
      ...slowTimesCases,
    ]
const cases = all.filter((c) =>
  onlyServers === '.' ? !/^(dev|drawn)/.test(c.name) : only.test(c.name),
)
for (const virtualCase of cases) {
  const truth = truths[virtualCase.name]!
  for (const [name, method] of Object.entries(methods).filter(([method]) =>
    onlyMethods.test(method),
  )) {
    const runs: Found[] = []
    for (let i = 1; i <= seeds; i++) runs.push(await method(virtualCase, firstSeed + i))
    const found = runs.filter(({ outcome }) => outcome !== 'host-interference')
    const disturbed = runs.length > found.length ? `  ${runs.length - found.length} disturbed` : ''
    if (found.length === 0) {
      console.log(`${virtualCase.name.padEnd(37)}${name.padEnd(16)}${disturbed}`)
      continue
    }
    const errors = found.map((f) => f.capacityRps / truth - 1)
    const absolute = errors.map(Math.abs)
    const wrong = (f: Found) => !(f.capacityCi90Rps[0] <= truth && truth <= f.capacityCi90Rps[1])
    const covers = mean(found.map((f) => (wrong(f) ? 0 : 1)))
    const sure = found.filter(({ outcome }) => outcome === 'converged')
    const half = mean(found.map(({ capacityCi90Rps: [low, high] }) => (high - low) / 2 / truth))
    const columns = [
      formatPercent(quantile(absolute, 0.5)),
      formatPercent(quantile(absolute, 0.9)),
      formatPercent(quantile(errors, 0.5)),
      formatPercent(covers),
      formatPercent(half),
      formatPercent(sure.length / found.length),
      formatPercent(sure.filter(wrong).length / found.length),
      formatPercent(found.filter(({ contradicts }) => contradicts).length / found.length),
    ]
    const effort = [
      mean(found.map((f) => f.seconds))
        .toFixed(1)
        .padStart(8),
      mean(found.map((f) => f.loadS ?? f.seconds))
        .toFixed(1)
        .padStart(8),
      mean(found.map((f) => f.requests))
        .toFixed(0)
        .padStart(8),
    ]
    console.log(
      `${virtualCase.name.padEnd(37)}${name.padEnd(16)} ${[...columns, ...effort].join(' ')}${disturbed}`,
    )
  }
}
