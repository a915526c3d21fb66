/**
 * The capacity around one configuration, by the Gaussian process of importance.ts: along each
 * parameter with all others held (a slice), and over two at once (a surface), medians and 90 %
 * intervals over functions drawn from its posterior, beside the trials that lie there. Pure.
 */
import { createRng } from '../../../search/rng.ts'
import type { Configuration, Parameter } from '../../../search/types.ts'
import {
  drawnOver,
  leastTrials,
  type Range,
  rangeOf,
  type ServedPoint,
  thinned,
  varyingOf,
} from './importance.ts'

type Value = number | string

/** A trial that differs from the centre in what is drawn alone. */
interface Tried {
  readonly trial: number
  readonly capacityRps: number
}
export interface Slice {
  readonly parameter: string
  readonly values: readonly (Range & { readonly value: Value; readonly tried: readonly Tried[] })[]
  /** The centre's value. */
  readonly at: Value | undefined
}
/** `cells[row][column]` for `up.values[row]` and `across.values[column]`. */
export interface Surface {
  readonly across: Axis
  readonly up: Axis
  readonly cells: readonly (readonly (Range & { readonly tried: readonly Tried[] })[])[]
}
interface Axis {
  readonly parameter: string
  readonly values: readonly Value[]
  readonly at: Value | undefined
}
export interface Around {
  readonly slices: readonly Slice[]
  /** Absent with one parameter alone. */
  readonly surface?: Surface
}

/**
 * @param pair names of the parameters of the surface; any that does not vary is replaced by one
 * that does Undefined with too few trials.
 */
export function aroundOf(
  parameters: readonly Parameter[],
  served: readonly ServedPoint[],
  centre: Configuration,
  pair: readonly string[],
  seed: number,
): Around | undefined {
  const axes = varyingOf(parameters).map(({ parameter, values }) =>
    axisOf(parameter.name, values, centre[parameter.name]),
  )
  if (served.length < leastTrials || axes.length === 0) return undefined
  const rng = createRng(`around ${seed}`)
  const [across, up] = chosen(axes, pair)
  const along = axes.flatMap(({ parameter, values }) =>
    values.map((value) => ({ ...centre, [parameter]: value })),
  )
  const over =
    across && up
      ? up.values.flatMap((v) =>
          across.values.map((u) => ({ ...centre, [across.parameter]: u, [up.parameter]: v })),
        )
      : []
  const design = [...along, ...over]
  const functions = drawnOver(
    design,
    parameters,
    thinned(served, rng.fork('thin').next),
    rng.fork('draws'),
  )
  if (functions.length === 0) return undefined
  const told = design.map((configuration, i) => ({
    ...rangeOf(functions.map((f) => Math.exp(f[i]!))),
    tried: served
      .filter((point) => isAt(point.configuration, configuration, parameters))
      .map(({ trial, capacityRps }) => ({ trial, capacityRps })),
  }))
  let from = 0
  const slices = axes.map(({ parameter, values, at }): Slice => {
    const own = told.slice(from, from + values.length)
    from += values.length
    return { parameter, at, values: own.map((one, i) => ({ ...one, value: values[i]! })) }
  })
  if (!across || !up) return { slices }
  const cells = up.values.map((_, row) =>
    told.slice(
      along.length + row * across.values.length,
      along.length + (row + 1) * across.values.length,
    ),
  )
  return { slices, surface: { across, up, cells } }
}

/** The centre's own value is always among them. */
function axisOf(parameter: string, values: readonly Value[], at: Value | undefined): Axis {
  const all = at === undefined || values.includes(at) ? values : [...values, at]
  const numbers = all.every((value) => typeof value === 'number')
  return {
    parameter,
    at,
    values: numbers ? [...(all as readonly number[])].sort((a, b) => a - b) : all,
  }
}

function chosen(axes: readonly Axis[], pair: readonly string[]): (Axis | undefined)[] {
  const asked = pair.flatMap((name) => axes.find(({ parameter }) => parameter === name) ?? [])
  return [...new Set([...asked, ...axes])].slice(0, 2)
}

const isAt = (
  one: Configuration,
  other: Configuration,
  parameters: readonly Parameter[],
): boolean => parameters.every(({ name }) => one[name] === other[name])
