/** Data that the page receives: an experiment, and its trials in a compact lossless form. Pure. */

import type { Arrivals, Load } from '../../../profiler/model/load.ts'
import type { LoadPoint } from '../../../profiler/model/load-point.ts'
import type { Slo } from '../../../profiler/model/slo.ts'
import type { Objective, Parameter } from '../../../search/types.ts'
import type { Annotation } from '../../../trials/annotation.ts'
import type { Gpu } from '../../../trials/devices/catalogue.ts'
import type { Stage } from '../../../trials/pipeline/pipeline.ts'
import type { PriceBook } from '../../../trials/prices/book.ts'
import { decode, encode } from '../../../trials/store/infinity-json.ts'
import type { ExperimentRecord, FinishedTrial, Provenance } from '../../../trials/types.ts'
import type { StopPosterior } from '../../recommendation/types.ts'

/** Everything that the page needs besides the trials, as JSON. */
export interface DashboardExperiment {
  readonly id: string
  readonly name: string
  readonly createdAt: string
  readonly state: ExperimentRecord['state']
  readonly provenance: Provenance
  readonly seed: number
  readonly model: string
  /** Stages of a pipeline with their calls, callers first. */
  readonly stages?: readonly Stage[]
  /** 'GPUs T4, L4 (emulated)' */
  readonly hardware: string
  /** 'Poisson arrivals, up to 10 s of load a trial' */
  readonly load: string
  readonly sampler: string
  readonly maxTrials: number
  readonly slo: Slo
  readonly objective: Objective
  readonly headroom: number
  readonly prices: PriceBook
  /** The user's own GPUs. */
  readonly ownGpus?: readonly Gpu[]
  /** The space without its conditions, which are functions. */
  readonly parameters: readonly Parameter[]
  /** Model variant → quality; absent without variants. */
  readonly qualities?: Readonly<Record<string, number>>
  readonly minQuality?: number
  readonly notices: readonly string[]
  /** Whether the winner is to be confirmed. */
  readonly confirm?: boolean
  /** Last assessment of the stop rule, once the experiment has ended. */
  readonly stop?: StopPosterior
  /** The effective experiment as YAML. */
  readonly specification: string
  /** Spec targets that the dashboard server can render. */
  readonly specTargets?: readonly string[]
}

/** An experiment in the list. */
export interface ExperimentEntry {
  readonly id: string
  readonly name: string
  readonly createdAt: string
  readonly state: ExperimentRecord['state']
  readonly provenance: Provenance
  readonly trials: number
  readonly annotation?: Annotation
}

/** Outcome of an experiment as text, for the list. */
export interface ExperimentOutcome {
  readonly id: string
  /** '' if unknown. */
  readonly slo: string
  readonly text: string
}

/** Annotations of the experiment (trial 0) and its trials. */
export type SentAnnotations = readonly (readonly [trial: number, Annotation])[]

/** Columns of a packed load point, between `load` and the rare fields. */
const packedColumns = [
  'offeredRps',
  'achievedRps',
  'goodputRps',
  'errors',
  'sloMs',
  'latenessP99Ms',
  'seconds',
  'requests',
  'meanMs',
  'p50Ms',
  'p90Ms',
  'p95Ms',
  'p99Ms',
  'maxMs',
] as const

interface RareFields {
  readonly errorKinds?: Readonly<Record<string, number>>
  readonly generatorSaturated?: true
  readonly cut?: true
  readonly stream?: LoadPoint['stream']
  readonly joint?: LoadPoint['joint']
  readonly latencies?: LoadPoint['latencies']
  readonly invalid?: true
}
type PackedPoint = readonly [
  load: Load,
  figures: readonly number[],
  interval: readonly [number, number],
  rest?: RareFields,
]

/** Encodes a trial as JSON with its load points as rows. Times of an arrival trace are left out. */
export function packTrial(trial: FinishedTrial): string {
  if (trial.state !== 'complete') return encode(trial)
  const { points, ...measurement } = trial.measurement
  return encode({ ...trial, measurement, points: points.map(packPoint) })
}

/**
 * Inverse of `packTrial`.
 * @throws SyntaxError for invalid JSON
 */
export function unpackTrial(text: string): FinishedTrial {
  const packed = decode(text) as FinishedTrial & { points?: readonly PackedPoint[] }
  if (packed.state !== 'complete') return packed
  const { points = [], ...trial } = packed
  return { ...trial, measurement: { ...trial.measurement, points: points.map(unpackPoint) } }
}

function packPoint(point: LoadPoint): PackedPoint {
  const rest: RareFields = {
    ...(Object.keys(point.errorKinds).length > 0 ? { errorKinds: point.errorKinds } : {}),
    ...(point.generatorSaturated ? { generatorSaturated: true } : {}),
    ...(point.cut ? { cut: true } : {}),
    ...(point.stream ? { stream: point.stream } : {}),
    ...(point.joint ? { joint: point.joint } : {}),
    ...(point.latencies ? { latencies: point.latencies } : {}),
    ...(point.invalid ? { invalid: true } : {}),
  }
  const row = [
    dropTrace(point.load),
    packedColumns.map((name) => point[name]),
    point.sloCi95Ms,
  ] as const
  return Object.keys(rest).length > 0 ? [...row, rest] : row
}

function dropTrace(load: Load): Load {
  if (load.kind !== 'open' || load.arrivals.kind !== 'trace') return load
  const arrivals: Arrivals = { kind: 'trace', atMs: [] }
  return { ...load, arrivals }
}

/**
 * Unpacks field by field, which is much faster than Object.fromEntries for half a million points.
 */
function unpackPoint([load, figures, sloCi95Ms, rest]: PackedPoint): LoadPoint {
  const at = (i: number) => figures[i]!
  return {
    load,
    offeredRps: at(0),
    achievedRps: at(1),
    goodputRps: at(2),
    errors: at(3),
    sloMs: at(4),
    latenessP99Ms: at(5),
    seconds: at(6),
    requests: at(7),
    meanMs: at(8),
    p50Ms: at(9),
    p90Ms: at(10),
    p95Ms: at(11),
    p99Ms: at(12),
    maxMs: at(13),
    sloCi95Ms,
    errorKinds: rest?.errorKinds ?? {},
    generatorSaturated: rest?.generatorSaturated ?? false,
    ...(rest?.cut ? { cut: true } : {}),
    ...(rest?.stream ? { stream: rest.stream } : {}),
    ...(rest?.joint ? { joint: rest.joint } : {}),
    ...(rest?.latencies ? { latencies: rest.latencies } : {}),
    ...(rest?.invalid ? { invalid: true } : {}),
  }
}

/** Data of a page without a server: the experiment and its packed trials. */
export interface Snapshot {
  readonly experiment: DashboardExperiment
  readonly trials: readonly string[]
  readonly annotations: SentAnnotations
}
