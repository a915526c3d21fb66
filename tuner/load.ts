/** How a trial's load is applied: generators kept warm between trials, one for each trial that runs at once. */
import { HttpLoadGenerator, type Load, type LoadGenerator, type LoadPoint, type Measurement, type Target } from '../profiler/index.ts'
import type { Experiment } from './experiment/types.ts'

/** Generators given out one at a time; a returned one is used again. */
export class GeneratorPool {
  private readonly idle: LoadGenerator[] = []
  private readonly all: LoadGenerator[] = []

  constructor(private readonly create: () => LoadGenerator = () => new HttpLoadGenerator()) {}

  async use<T>(work: (generator: LoadGenerator) => Promise<T>): Promise<T> {
    const generator = this.idle.pop() ?? this.make()
    try {
      return await work(generator)
    } finally {
      this.idle.push(generator)
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.all.map((generator) => generator.close()))
  }

  private make(): LoadGenerator {
    const generator = this.create()
    this.all.push(generator)
    return generator
  }
}

/** Rates tried when the SLO does not hold, as shares of the first. */
const lowerRates = [1, 0.93, 0.85]

/**
 * Measures whether the SLO holds at a rate for a long open-loop window, and at lower rates if it does not.
 * The measurement's capacity is the highest rate that held, 0 when none did.
 */
export async function confirmAtRate(
  experiment: Experiment,
  generator: LoadGenerator,
  target: Target,
  options: { readonly rateRps: number; readonly number: number; readonly onStep: (point: LoadPoint, phase: string) => void },
  signal: AbortSignal,
): Promise<Measurement> {
  const { slo, load, seed } = experiment
  const points: LoadPoint[] = []
  let held: LoadPoint | undefined
  const warmUp: Load = { kind: 'open', rateRps: options.rateRps, arrivals: load.arrivals, durationS: 1, seed }
  await generator.run(target, warmUp, slo, signal)
  for (const share of lowerRates) {
    const rateRps = options.rateRps * share
    const point = await generator.run(
      target,
      { kind: 'open', rateRps, arrivals: load.arrivals, durationS: load.confirmSeconds, seed: seed + options.number },
      slo,
      signal,
    )
    points.push(point)
    options.onStep(point, 'confirm')
    if (point.generatorSaturated) break
    if (point.sloMs <= slo.limitMs && point.errors / Math.max(1, point.requests) <= slo.maxErrorRate) {
      held = point
      break
    }
  }
  const last = points.at(-1)!
  return {
    outcome: held ? 'converged' : last.generatorSaturated ? 'generator-limit' : 'budget',
    capacityRps: held?.offeredRps ?? 0,
    capacityCi90Rps: held ? [held.offeredRps, held.offeredRps / 0.93] : [0, last.offeredRps],
    slo,
    idle: points[0]!,
    saturationRps: last.achievedRps,
    points,
    requests: points.reduce((sum, p) => sum + p.requests, 0),
    seconds: points.reduce((sum, p) => sum + p.seconds, 0),
    caveats: [],
  }
}
