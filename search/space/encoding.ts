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
  /** Columns of the design matrix, d. */
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
  const groups = space.parameters.flatMap((parameter) =>
    createColumnGroups(parameter).map((group) => ({ ...group, parameter: parameter.name })),
  )
  const columns = groups.flatMap(({ parameter, kind, width }, group) =>
    Array.from({ length: width }, (): Column => ({ parameter, kind, group })),
  )
  return {
    columns,
    groups: groups.length,
    encode: memoise((configuration: Configuration) => {
      const row = new Float64Array(columns.length)
      let first = 0
      for (const { parameter, width, write } of groups) {
        write(configuration[parameter]!, row.subarray(first, first + width))
        first += width
      }
      return row
    }),
  }
}

/** Columns of one parameter that share a lengthscale. */
interface ColumnGroup {
  readonly kind: Column['kind']
  /** Number of columns. */
  readonly width: number
  /** Writes a value to its columns, which hold zeros. */
  readonly write: (value: number | string, columns: Float64Array) => void
}

function createColumnGroups(parameter: Parameter): ColumnGroup[] {
  if (parameter.kind !== 'categorical') {
    const [scale, low, high] = resolveAxis(parameter)
    return [createScaledColumn('number', (value) => scale(Number(value)), low, high)]
  }
  const { values, features } = parameter
  if (features)
    return (features[values[0]!] ?? []).map((_, k) => {
      const all = values.map((value) => features[value]![k]!)
      const low = Math.min(...all)
      const readFeature = (value: number | string) => features[String(value)]?.[k] ?? low
      return createScaledColumn('feature', readFeature, low, Math.max(...all))
    })
  const readWhole = (value: string) => value
  return [...findNameParts(values), readWhole].map((readPart) =>
    createOneHotColumns([...new Set(values.map(readPart))], readPart),
  )
}

/** Creates a column with a number that is read from the value, scaled to [0, 1]. */
function createScaledColumn(
  kind: 'number' | 'feature',
  readNumber: (value: number | string) => number,
  low: number,
  high: number,
): ColumnGroup {
  // A constant value becomes 0.
  const span = high - low || 1
  return {
    kind,
    width: 1,
    write(value, columns) {
      columns[0] = (readNumber(value) - low) / span
    },
  }
}

const createOneHotColumns = (
  names: readonly string[],
  readName: (value: string) => string,
): ColumnGroup => ({
  kind: 'name',
  width: names.length,
  write(value, columns) {
    const i = names.indexOf(readName(String(value)))
    if (i >= 0) columns[i] = Math.SQRT1_2
  },
})

const partSeparator = /[-._/: ]+/

/**
 * Creates functions that extract the parts of structured names: c4.large, c4.xlarge and m4.large
 * share parts. Empty unless all names have the same number of parts and every part occurs in
 * several names.
 */
function findNameParts(names: readonly string[]): ((name: string) => string)[] {
  const partsByName = names.map((name) => name.split(partSeparator))
  const partCount = partsByName[0]!.length
  if (partCount < 2 || partsByName.some((parts) => parts.length !== partCount)) return []
  const countDistinct = (i: number) => new Set(partsByName.map((parts) => parts[i])).size
  const positions = Array.from({ length: partCount }, (_, i) => i)
  if (positions.some((i) => countDistinct(i) === names.length)) return []
  return positions
    .filter((i) => countDistinct(i) > 1)
    .map((i) => (name) => name.split(partSeparator)[i] ?? '')
}

/**
 * Resolves the scale of an ordered parameter and its two ends on that scale. A log axis that
 * reaches zero or below is linear.
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
