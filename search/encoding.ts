import type { Configuration, Parameter, SearchSpace } from './types.ts'

/** How one column of the design matrix came about. */
export interface Column {
  readonly parameter: string
  /** 'number': an ordered parameter scaled to [0, 1]. 'feature': a known number of a categorical. 'name': one of its one-hot columns. */
  readonly kind: 'number' | 'feature' | 'name'
  /** Columns of one group share a lengthscale. */
  readonly group: number
}

export interface Encoder {
  /** d columns. */
  readonly columns: readonly Column[]
  /** Groups of columns, each with one lengthscale. */
  readonly groups: number
  /** Row of d numbers. */
  encode(configuration: Configuration): Float64Array
}

/**
 * Configurations as rows of numbers: ordered parameters as value or ln value scaled to [0, 1]; a categorical by its features, each scaled to
 * [0, 1], or without features one-hot with 1/√2, so that two names are 1 apart (a Hamming distance under one shared lengthscale).
 */
export function createEncoder(space: SearchSpace): Encoder {
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
      for (const _ of parameter.values) columns.push({ parameter: name, kind: 'name', group })
      group++
      writers.push((configuration, row) => {
        const which = parameter.values.indexOf(String(configuration[name]))
        if (which >= 0) row[at + which] = Math.SQRT1_2
      })
    }
  }
  return {
    columns,
    groups: group,
    encode(configuration) {
      const row = new Float64Array(columns.length)
      for (const write of writers) write(configuration, row)
      return row
    },
  }
}

/** The parameter's axis: its scale, and the ends on that scale. A log axis that reaches zero or below is linear. */
function axis(parameter: Exclude<Parameter, { kind: 'categorical' }>): [(value: number) => number, number, number] {
  const [min, max] =
    parameter.kind === 'ordinal' ? [Math.min(...parameter.values), Math.max(...parameter.values)] : [parameter.min, parameter.max]
  const scale = parameter.scale === 'log' && min > 0 ? Math.log : (value: number) => value
  return [scale, scale(min), scale(max)]
}
