import { remembered } from '../memoise.ts'
import type { Configuration, Parameter, SearchSpace } from '../types.ts'

/** How one column of the design matrix came about. */
interface Column {
  readonly parameter: string
  /**
   * 'number': an ordered parameter scaled to [0, 1]. 'feature': a known number of a categorical.
   * 'name': one of its one-hot columns.
   */
  readonly kind: 'number' | 'feature' | 'name'
  /** Columns of one group share a lengthscale. */
  readonly group: number
}

interface Encoder {
  /** d columns. */
  readonly columns: readonly Column[]
  /** Groups of columns, each with one lengthscale. */
  readonly groups: number
  /** Row of d numbers, not to be written to. */
  encode(configuration: Configuration): Float64Array
}

/**
 * Configurations as rows of numbers: ordered parameters as value or ln value scaled to [0, 1]; a
 * categorical by its features, each scaled to [0, 1], or without features one-hot with 1/√2, so
 * that two names are 1 apart (a Hamming distance under one shared lengthscale), and so are the
 * parts of which names are made (`c4.large`). Remembered for each space and configuration object.
 */
export const createEncoder = remembered(encoderOf)

function encoderOf(space: SearchSpace): Encoder {
  const columns: Column[] = []
  const writers: ((configuration: Configuration, row: Float64Array) => void)[] = []
  let group = 0
  for (const parameter of space.parameters) {
    const { name } = parameter
    const at = columns.length
    if (parameter.kind !== 'categorical') {
      const [scale, low, high] = axis(parameter)
      const span = high - low || 1
      columns.push({ parameter: name, kind: 'number', group: group++ })
      writers.push((configuration, row) => {
        row[at] = (scale(Number(configuration[name])) - low) / span
      })
    } else if (parameter.features) {
      const features = parameter.features
      const width = features[parameter.values[0]!]?.length ?? 0
      for (let k = 0; k < width; k++) {
        const all = parameter.values.map((value) => features[value]![k]!)
        const low = Math.min(...all)
        const span = Math.max(...all) - low || 1
        columns.push({ parameter: name, kind: 'feature', group: group++ })
        writers.push((configuration, row) => {
          row[at + k] = ((features[String(configuration[name])]?.[k] ?? low) - low) / span
        })
      }
    } else {
      const whole = (value: string) => value
      for (const part of [...partsOf(parameter.values), whole]) {
        const names = [...new Set(parameter.values.map(part))]
        const from = columns.length
        for (const _ of names) columns.push({ parameter: name, kind: 'name', group })
        group++
        writers.push((configuration, row) => {
          const which = names.indexOf(part(String(configuration[name])))
          if (which >= 0) row[from + which] = Math.SQRT1_2
        })
      }
    }
  }
  return {
    columns,
    groups: group,
    encode: remembered((configuration: Configuration) => {
      const row = new Float64Array(columns.length)
      for (const write of writers) write(configuration, row)
      return row
    }),
  }
}

const BETWEEN_PARTS = /[-._/: ]+/

/**
 * What names are made of where all have as many parts and share them, as c4.large, c4.xlarge,
 * m4.large do: names with a part in common are alike in it.
 */
function partsOf(names: readonly string[]): ((name: string) => string)[] {
  const split = names.map((name) => name.split(BETWEEN_PARTS))
  const count = split[0]!.length
  if (count < 2 || split.some((parts) => parts.length !== count)) return []
  const distinct = (i: number) => new Set(split.map((parts) => parts[i])).size
  const positions = Array.from({ length: count }, (_, i) => i)
  if (positions.some((i) => distinct(i) === names.length)) return []
  return positions
    .filter((i) => distinct(i) > 1)
    .map((i) => (name) => name.split(BETWEEN_PARTS)[i] ?? '')
}

/**
 * The parameter's axis: its scale, and the ends on that scale. A log axis that reaches zero or
 * below is linear.
 */
function axis(
  parameter: Exclude<Parameter, { kind: 'categorical' }>,
): [(value: number) => number, number, number] {
  const [min, max] =
    parameter.kind === 'ordinal'
      ? [Math.min(...parameter.values), Math.max(...parameter.values)]
      : [parameter.min, parameter.max]
  const scale = parameter.scale === 'log' && min > 0 ? Math.log : (value: number) => value
  return [scale, scale(min), scale(max)]
}
