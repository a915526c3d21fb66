/**
 * Integer programmes in CPLEX's LP format, solved by HiGHS (Huangfu and Hall 2018, its WebAssembly
 * build).
 */
import highs from 'highs'

/** Its types are written for another module system than it is loaded by. */
const loadHighs = highs as unknown as typeof highs.default
let loaded: ReturnType<typeof loadHighs> | undefined
/**
 * One runtime for all programmes: each would take its own megabytes, and the time to compile them.
 */
const solver = () => (loaded ??= loadHighs())

export type Term = readonly [factor: number, name: string]

/** A term a line, for the reader takes lines of some hundred letters. */
const sumOf = (terms: readonly Term[]): string =>
  terms.map(([factor, name]) => ` ${factor < 0 ? '-' : '+'} ${Math.abs(factor)} ${name}`).join('\n')

export interface Programme {
  readonly cost: readonly Term[]
  /** Sums, and what they are to be. */
  readonly rows: readonly (readonly [
    terms: readonly Term[],
    limit: `${'<=' | '>=' | '='} ${number}`,
  ])[]
  readonly integers: readonly string[]
  readonly binaries?: readonly string[]
}

interface Solution {
  /**
   * Of the variables, in the order in which the cost names them; integers to within the solver's
   * tolerance.
   */
  readonly values: readonly number[]
  /** No cost is below it. */
  readonly bound: number
}

/**
 * What a cheaper programme would have to find: a row's price is what the cost rises by where its
 * limit does.
 */
interface Relaxed {
  readonly cost: number
  readonly rowPrices: readonly number[]
}

/** The same with parts of everything; undefined where nothing keeps the rows. */
export async function solveRelaxed(
  programme: Pick<Programme, 'cost' | 'rows'>,
): Promise<Relaxed | undefined> {
  const { withModel, constants } = await solver()
  return withModel({ format: 'lp', data: written({ ...programme, integers: [] }) }, (model) => {
    model.options.set({ output_flag: false })
    model.run()
    if (model.getModelStatus() !== constants.modelStatus.optimal) return undefined
    return {
      cost: Number(model.info.get('objective_function_value')),
      rowPrices: [...model.getSolution().rowDual],
    }
  })
}

function written({ cost, rows, integers, binaries = [] }: Programme): string {
  const listed = (heading: string, names: readonly string[]) =>
    names.length === 0 ? '' : `${heading}\n ${names.join('\n ')}\n`
  const constraints = rows
    .map(([terms, limit], i) => ` row${i}:\n${sumOf(terms)} ${limit}`)
    .join('\n')
  return `Minimize\n cost:\n${sumOf(cost)}\nSubject To\n${constraints}\n${listed('General', integers)}${listed('Binary', binaries)}End\n`
}

/** Of the cheapest GPU's price: what a replica that nobody needs costs. */
export const idleReplica = 1e-7

/** Of the cost, as a share: what its ends may lie apart. */
const gap = 1e-6

/**
 * @param seconds after which the best that is known is taken
 * @param start values of all variables that keep the rows, by name; those that are not named are 0
 * @returns values that may keep no row where the time was up before any were found: the caller
 * checks them
 */
export async function solve(
  programme: Programme,
  seconds: number,
  start?: ReadonlyMap<string, number>,
): Promise<Solution | 'infeasible'> {
  const { withModel, constants } = await solver()
  return withModel({ format: 'lp', data: written(programme) }, (model) => {
    model.options.set({ output_flag: false, mip_rel_gap: gap, time_limit: seconds })
    if (start)
      model.setSolution({ colValue: programme.cost.map(([, name]) => start.get(name) ?? 0) })
    model.run()
    if (model.getModelStatus() === constants.modelStatus.infeasible) return 'infeasible' as const
    return {
      values: [...model.getSolution().colValue],
      bound: Number(model.info.get('mip_dual_bound')),
    }
  })
}
