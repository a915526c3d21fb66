import { memoise } from '../memoise.ts'
import type { Configuration, Parameter, SearchSpace } from '../types.ts'

/** Origin of a column of the design matrix. */
interface Column {
  readonly parameter: string
  /**
   * 'number': an ordered parameter scaled to [0, 1]. 'feature': a feature of a categorical. 'name':
   * a one-hot column.
   */
  readonly kind: 'number' | 'feature' | 'name'
  /** Columns of one group share a lengthscale. */
  readonly group: number
}

interface Encoder {
  /** d columns. */
  readonly columns: readonly Column[]
  /** Number of groups of columns; each group has one lengthscale. */
  readonly groups: number
  /** Row of d numbers. Do not write to it. */
  encode(configuration: Configuration): Float64Array
}

/**
 * Encodes configurations as rows of d numbers, memoised for each space and configuration object.
 *
 * An ordered parameter is its value or ln value, scaled to [0, 1]. A categorical is its features,
 * each scaled to [0, 1]. Without features it is one-hot with 1/√2, so that two names are at
 * distance 1 (the Hamming distance under one lengthscale). The parts of structured names such as
 * `c4.large` are encoded in the same way.
 */
export const createEncoder = memoise(buildEncoder)

function buildEncoder(space: SearchSpace): Encoder {
  const columns: Column[] = []
  const writers: ((configuration: Configuration, row: Float64Array) => void)[] = []
  let group = 0
  for (const parameter of space.parameters) {
    const { name } = parameter
    const at = columns.length
    if (parameter.kind !== 'categorical') {
      const [scale, low, high] = resolveAxis(parameter)
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
      for (const part of [...findNameParts(parameter.values), whole]) {
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
    encode: memoise((configuration: Configuration) => {
      const row = new Float64Array(columns.length)
      for (const write of writers) write(configuration, row)
      return row
    }),
  }
}

const partSeparator = /[-._/: ]+/

/**
 * Functions that extract the parts of structured names: c4.large, c4.xlarge and m4.large share
 * parts. Empty unless all names have the same number of parts and every part occurs in several
 * names.
 */
function findNameParts(names: readonly string[]): ((name: string) => string)[] {
  const split = names.map((name) => name.split(partSeparator))
  const count = split[0]!.length
  if (count < 2 || split.some((parts) => parts.length !== count)) return []
  const distinct = (i: number) => new Set(split.map((parts) => parts[i])).size
  const positions = Array.from({ length: count }, (_, i) => i)
  if (positions.some((i) => distinct(i) === names.length)) return []
  return positions
    .filter((i) => distinct(i) > 1)
    .map((i) => (name) => name.split(partSeparator)[i] ?? '')
}

/**
 * Scale of an ordered parameter and its two ends on that scale. A log axis that reaches zero or
 * below is linear.
 */
function resolveAxis(
  parameter: Exclude<Parameter, { kind: 'categorical' }>,
): [(value: number) => number, number, number] {
  const [min, max] =
    parameter.kind === 'ordinal'
      ? [Math.min(...parameter.values), Math.max(...parameter.values)]
      : [parameter.min, parameter.max]
  const scale = parameter.scale === 'log' && min > 0 ? Math.log : (value: number) => value
  return [scale, scale(min), scale(max)]
}
