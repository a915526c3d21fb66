/**
 * What a trial's few seconds say of a predictor just started, beside what long windows say of the
 * same predictor once warm: `npm run bench:trial -- [trials]`, about a quarter of an hour with
 * three trials each. Best on a machine that does nothing else. The long windows are a reference, no
 * truth: they are asked twice, before the trials and after them, of another process, and both are
 * shown. The GPUs are emulated; the processes, their CPU time and the load are real.
 */
import {
  HttpLoadGenerator,
  type Measurement,
  measureCapacity,
  protocolFor,
  type Slo,
  type Target,
} from '../../profiler/index.ts'
import { effortFor } from '../backends/load-work.ts'
import { withBuiltPredictor } from './built-predictor.ts'

interface Configuration {
  readonly gpu: string
  readonly memoryPercent: number
  readonly batchSize: number
  readonly cores: string
}

const configurations: readonly Configuration[] = [
  { gpu: 'T4', memoryPercent: 100, batchSize: 1, cores: '1' },
  { gpu: 'L4', memoryPercent: 25, batchSize: 32, cores: '1' },
  { gpu: 'L4', memoryPercent: 50, batchSize: 16, cores: '1' },
  { gpu: 'L4', memoryPercent: 100, batchSize: 32, cores: '1' },
  { gpu: 'L4', memoryPercent: 100, batchSize: 16, cores: '0,1' },
]
const trials = Number(process.argv[2] ?? 3)
const trialSeconds = 3
const longS = 16
const step = 1.03
const slo: Slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
const { signal } = new AbortController()
const protocol = protocolFor('oip-v2', {})
const generator = new HttpLoadGenerator()
const model = 'bert'

/** A predictor of this configuration, just started. */
function withPredictor<T>(
  { gpu, memoryPercent, batchSize, cores }: Configuration,
  work: (target: Target) => Promise<T>,
): Promise<T> {
  const settings = {
    model,
    engine: 'emulated',
    gpu,
    'gpu-memory-percent': memoryPercent,
    'batch-size': batchSize,
    precision: 'fp16',
    'cpu-cores': cores.split(',').length,
  }
  const flags = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)])
  const prepared = async (url: string) =>
    work(await protocol.prepare(url, model, { kind: 'generated', count: 64, seed: 1 }, signal))
  return withBuiltPredictor(flags, prepared, cores)
}

/**
 * Between the highest rate whose long window kept the SLO and the next. None has a second try,
 * which would pick the lucky ones.
 */
async function longCapacityRps(target: Target): Promise<number> {
  await generator.run(target, { kind: 'closed', connections: 64, durationS: 4 }, slo, signal)
  const { achievedRps } = await generator.run(
    target,
    { kind: 'closed', connections: 64, durationS: 2 },
    slo,
    signal,
  )
  const keeps = async (rateRps: number, seed: number) => {
    const cut = { overMs: slo.limitMs, requests: 0.05 * rateRps * longS }
    const point = await generator.run(
      target,
      { kind: 'open', rateRps, durationS: longS, arrivals: { kind: 'poisson' }, seed, cut },
      slo,
      signal,
    )
    return point.sloMs <= slo.limitMs
  }
  let rateRps = 0.85 * achievedRps
  for (let seed = 1; await keeps(rateRps, seed); seed++) rateRps *= step
  return rateRps / Math.sqrt(step)
}

const percent = (share: number) => `${(100 * share).toFixed(1)} %`.padStart(8)
console.log(
  'configuration'.padEnd(34),
  'long, req/s  ',
  ' trials of 3 s: error, and whether the 90 % interval holds it',
)
const errors: number[] = []
let held = 0
for (const configuration of configurations) {
  const { gpu, memoryPercent, batchSize, cores } = configuration
  const long = [await withPredictor(configuration, longCapacityRps)]
  const measured: Measurement[] = []
  for (let seed = 1; seed <= trials; seed++) {
    const trial = (target: Target) =>
      measureCapacity({ target, slo, signal, effort: effortFor(trialSeconds), generator, seed })
    measured.push(await withPredictor(configuration, trial))
  }
  long.push(await withPredictor(configuration, longCapacityRps))
  const longRps = Math.sqrt(long[0]! * long[1]!)
  const shown = measured.map(({ capacityRps, capacityCi90Rps, seconds }) => {
    const error = capacityRps / longRps - 1
    const holds = capacityCi90Rps[0] <= longRps && longRps <= capacityCi90Rps[1]
    errors.push(Math.abs(error))
    if (holds) held++
    const halfWidth = Math.sqrt(capacityCi90Rps[1] / capacityCi90Rps[0]) - 1
    return `${percent(error)} ±${percent(halfWidth).trim()} ${holds ? 'holds' : '     '} (${seconds.toFixed(1)} s)`
  })
  const name = `${gpu} ${memoryPercent} %, batch ${batchSize}, core ${cores}`
  console.log(
    name.padEnd(34),
    long.map((rps) => rps.toFixed(0).padStart(6)).join(' '),
    shown.join('  '),
  )
}
await generator.close()
errors.sort((a, b) => a - b)
const at = (p: number) =>
  percent(errors[Math.min(errors.length - 1, Math.floor(p * errors.length))]!)
console.log(
  `median error ${at(0.5)}, p90 ${at(0.9)}, intervals that hold ${percent(held / errors.length)}`,
)
