/**
 * Predicted capacity in the neighbourhood of one configuration, by the Gaussian process of
 * importance.ts: along each parameter with all others fixed (slice), and over two parameters
 * (surface). Medians and 90 % intervals of posterior samples, with the trials measured there. Pure.
 */
import { createRng } from '../../../search/rng.ts'
import type { Configuration, Parameter } from '../../../search/types.ts'
import {
  computeRange,
  type FeasiblePoint,
  listVarying,
  minTrials,
  type Range,
  sampleFunctions,
  thinTrials,
} from './importance.ts'

type Value = number | string

/** A trial at a shown point. */
interface MeasuredPoint {
  readonly trial: number
  readonly capacityRps: number
}
export interface Slice {
  readonly parameter: string
  readonly values: readonly (Range & {
    readonly value: Value
    readonly tried: readonly MeasuredPoint[]
  })[]
  /** Value of the centre. */
  readonly centreValue: Value | undefined
}
/** `cells[row][column]` for `up.values[row]` and `across.values[column]`. */
export interface Surface {
  readonly across: Axis
  readonly up: Axis
  readonly cells: readonly (readonly (Range & { readonly tried: readonly MeasuredPoint[] })[])[]
}
interface Axis {
  readonly parameter: string
  readonly values: readonly Value[]
  readonly centreValue: Value | undefined
}
export interface Neighbourhood {
  readonly slices: readonly Slice[]
  /** Absent with a single parameter. */
  readonly surface?: Surface
}

/**
 * Undefined with too few trials.
 * @param pair parameters of the surface; one that does not vary is replaced by one that does
 */
export function computeNeighbourhood(
  parameters: readonly Parameter[],
  served: readonly FeasiblePoint[],
  centre: Configuration,
  pair: readonly string[],
  seed: number,
): Neighbourhood | undefined {
  const axes = listVarying(parameters).map(({ parameter, values }) =>
    createAxis(parameter.name, values, centre[parameter.name]),
  )
  if (served.length < minTrials || axes.length === 0) return undefined
  const rng = createRng(`around ${seed}`)
  const [across, up] = chooseAxes(axes, pair)
  const slicePoints = axes.flatMap(({ parameter, values }) =>
    values.map((value) => ({ ...centre, [parameter]: value })),
  )
  const surfacePoints =
    across && up
      ? up.values.flatMap((v) =>
          across.values.map((u) => ({ ...centre, [across.parameter]: u, [up.parameter]: v })),
        )
      : []
  const design = [...slicePoints, ...surfacePoints]
  const posteriorSamples = sampleFunctions(
    design,
    parameters,
    thinTrials(served, rng.fork('thin').next),
    rng.fork('draws'),
  )
  if (posteriorSamples.length === 0) return undefined
  const predictions = design.map((configuration, i) => ({
    // The process models ln(capacity).
    ...computeRange(posteriorSamples.map((f) => Math.exp(f[i]!))),
    tried: served
      .filter((point) => isSameConfiguration(point.configuration, configuration, parameters))
      .map(({ trial, capacityRps }) => ({ trial, capacityRps })),
  }))
  let from = 0
  const slices = axes.map(({ parameter, values, centreValue: at }): Slice => {
    const slicePredictions = predictions.slice(from, from + values.length)
    from += values.length
    return {
      parameter,
      centreValue: at,
      values: slicePredictions.map((one, i) => ({ ...one, value: values[i]! })),
    }
  })
  if (!across || !up) return { slices }
  const cells = up.values.map((_, row) =>
    predictions.slice(
      slicePoints.length + row * across.values.length,
      slicePoints.length + (row + 1) * across.values.length,
    ),
  )
  return { slices, surface: { across, up, cells } }
}

/** The values of an axis, always including that of the centre. */
function createAxis(
  parameter: string,
  values: readonly Value[],
  centreValue: Value | undefined,
): Axis {
  const all =
    centreValue === undefined || values.includes(centreValue) ? values : [...values, centreValue]
  const numbers = all.every((value) => typeof value === 'number')
  return {
    parameter,
    centreValue: centreValue,
    values: numbers ? [...(all as readonly number[])].sort((a, b) => a - b) : all,
  }
}

function chooseAxes(axes: readonly Axis[], pair: readonly string[]): (Axis | undefined)[] {
  const requested = pair.flatMap((name) => axes.find(({ parameter }) => parameter === name) ?? [])
  return [...new Set([...requested, ...axes])].slice(0, 2)
}

const isSameConfiguration = (
  one: Configuration,
  other: Configuration,
  parameters: readonly Parameter[],
): boolean => parameters.every(({ name }) => one[name] === other[name])
