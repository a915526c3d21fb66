/**
 * Fakes for the loop's parts: a launcher without processes, loads without requests, a
 * recommendation by price alone.
 */
import type { LoadPoint } from '../../profiler/model/load-point.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import type { Slo } from '../../profiler/model/slo.ts'
import { recommend } from '../../reports/recommendation/recommend.ts'
import type { Recommendation } from '../../reports/recommendation/types.ts'
import type { Configuration, Problem, Sampler } from '../../search/types.ts'
import type {
  ExperimentRecord,
  FinishedTrial,
  Launcher,
  Predictor,
  TrialStore,
} from '../../trials/types.ts'
import type { MeasureOptions } from '../backends/backend.ts'
import type { Experiment } from '../config/types.ts'
import type { LoopParts } from '../loop/parts.ts'

export const slo: Slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }

export function loadPoint(offeredRps: number, sloMs: number): LoadPoint {
  return {
    load: {
      kind: 'open',
      rateRps: offeredRps,
      arrivals: { kind: 'poisson' },
      durationS: 1,
      seed: 1,
    },
    offeredRps,
    achievedRps: offeredRps,
    goodputRps: offeredRps,
    requests: Math.round(offeredRps),
    errors: 0,
    errorKinds: {},
    meanMs: sloMs / 2,
    p50Ms: sloMs / 2,
    p90Ms: sloMs * 0.8,
    p95Ms: sloMs * 0.9,
    p99Ms: sloMs,
    maxMs: sloMs * 1.2,
    sloMs,
    sloCi95Ms: [sloMs * 0.95, sloMs * 1.05],
    generatorSaturated: false,
    latenessP99Ms: 0.5,
    seconds: 1,
  }
}

export function measurement(capacityRps: number): Measurement {
  const unloaded = { requests: 10, meanMs: 5, p50Ms: 5, p90Ms: 6, p95Ms: 6, p99Ms: 7, maxMs: 7 }
  return {
    outcome: capacityRps > 0 ? 'converged' : 'slo-unattainable',
    capacityRps,
    capacityCi90Rps: [capacityRps * 0.95, capacityRps * 1.05],
    bounds: 'both',
    slo,
    unloaded,
    saturationRps: capacityRps * 1.3,
    points: [loadPoint(capacityRps, 48)],
    requests: 100,
    seconds: 1,
    caveats: [],
  }
}

/** A confirmation that held where it was asked to, without a proof. */
export const heldAt = (rateRps: number): Measurement => ({
  ...measurement(rateRps),
  capacityCi90Rps: [0.95 * rateRps, Number.POSITIVE_INFINITY],
})

export const fakePredictor = (overrides: Partial<Predictor> = {}): Predictor => ({
  target: {
    kind: 'http',
    url: 'http://127.0.0.1:1',
    path: '/',
    headers: {},
    bodies: [],
    timeoutMs: 1000,
  },
  protocol: 'json',
  provenance: 'emulated',
  isolation: 'none',
  logTail: () => '',
  usage: async () => ({}),
  stop: async () => undefined,
  ...overrides,
})

export const fakeLauncher = (
  launch: (configuration: Configuration, number: number) => Promise<Predictor>,
): Launcher => ({
  name: 'fake',
  launch: async (configuration, number, signal) => {
    signal.throwIfAborted()
    return launch(configuration, number)
  },
  sweep: async () => undefined,
})

/** The real one, without an experiment behind it. */
export const fakeRecommend = (
  { objective, pricePerHour }: Problem,
  trials: readonly FinishedTrial[],
): Recommendation =>
  recommend({
    experimentId: 'fake-1',
    provenance: 'emulated',
    seed: 1,
    slo,
    objective,
    pricePerHour,
    label: JSON.stringify,
    trials,
  })

/** A store that remembers the order of calls. */
export function fakeStore(): TrialStore & {
  readonly appended: FinishedTrial[]
  finished?: ExperimentRecord['state']
} {
  const appended: FinishedTrial[] = []
  return {
    appended,
    create: async () => undefined,
    claim: async () => undefined,
    load: async () => undefined,
    list: async () => [],
    progress: async () => ({ lastNumber: 0, endedAfter: 0, running: [] }),
    start: async () => undefined,
    addWindow: async () => undefined,
    append: async (_id, trial) => void appended.push(trial),
    async finish(_id, state) {
      this.finished = state
    },
    close: async () => undefined,
  }
}

/** Tries batch sizes in order. */
export const orderedSampler: Sampler = {
  name: 'ordered',
  suggest(problem, observations, pending) {
    const parameter = problem.space.parameters[0]
    if (parameter?.kind !== 'ordinal') return undefined
    const taken = new Set(
      [...observations.map((o) => o.configuration), ...pending].map((c) => c[parameter.name]),
    )
    const value = parameter.values.find((v) => !taken.has(v))
    return value === undefined
      ? undefined
      : { configuration: { [parameter.name]: value }, why: 'next in order' }
  },
}

export const batchProblem: Problem = {
  space: {
    parameters: [
      {
        kind: 'ordinal',
        name: 'batchSize',
        category: 'server',
        values: [1, 2, 4, 8, 16],
        scale: 'log',
      },
    ],
    constraints: [],
  },
  objective: { kind: 'price-per-request' },
  pricePerHour: () => 1,
  constraintLimit: slo.limitMs,
}

const rng = { next: () => 0.5, normal: () => 0, int: () => 0, fork: () => rng }

/** What a test puts in place of a part; `load` of what a trial measures. */
export interface FakeOverrides extends Partial<LoopParts> {
  readonly launcher?: Launcher
  readonly load?: (
    predictor: Predictor,
    options: MeasureOptions,
    signal: AbortSignal,
  ) => Promise<Measurement>
}

/** Parts whose predictors serve 100 req/s × batch size. */
export function fakeParts({
  launcher,
  load,
  ...overrides
}: FakeOverrides = {}): LoopParts & { readonly store: ReturnType<typeof fakeStore> } {
  let clock = Date.parse('2026-01-01T00:00:00Z')
  const problem = overrides.problem ?? batchProblem
  const store = fakeStore()
  return {
    experimentId: 'fake-1',
    provenance: 'emulated',
    problem,
    spaceSize: 5,
    sampler: orderedSampler,
    assessStop: () => ({ probabilityBetterExists: 1, tolerance: 0.05, stop: false }),
    rng,
    backend: {
      launcher:
        launcher ??
        fakeLauncher(async (configuration) =>
          fakePredictor({ isolation: String(configuration.batchSize) }),
        ),
      measure: async (predictor, task, options, signal) =>
        task.kind === 'trial'
          ? ((await load?.(predictor, options, signal)) ??
            measurement(100 * Number(predictor.isolation)))
          : heldAt(task.rateRps),
      close: async () => undefined,
    },
    recommend: (trials) => fakeRecommend(problem, trials),
    label: (configuration) => JSON.stringify(configuration),
    write: async () => ['recommendation.json'],
    notices: [],
    now: () => (clock += 250),
    ...overrides,
    store,
  }
}

/** The parts of an experiment that the loop reads. */
export function fakeExperiment(overrides: Partial<Experiment> = {}): Experiment {
  return {
    name: 'fake',
    model: { name: 'fake', architecture: 'fake' },
    slo,
    objective: { kind: 'price-per-request' },
    headroom: 0,
    backend: 'local',
    devices: 'emulated',
    space: batchProblem.space,
    pins: {},
    predictor: { kind: 'builtin', model: 'fake', engine: 'emulated' },
    own: { gpus: [], architectures: [] },
    load: {
      arrivals: { kind: 'poisson' },
      payload: { kind: 'generated', seed: 1, count: 1 },
      timeoutMs: 1000,
      trialSeconds: 1,
      confirmSeconds: 1,
    },
    budget: { maxTrials: 20 },
    stop: { tolerance: 0.05, certainty: 0.95 },
    parallel: 1,
    seed: 1,
    sampler: 'gp',
    dbPath: ':memory:',
    confirm: true,
    document: {},
    origins: {},
    ...overrides,
  } as Experiment
}
