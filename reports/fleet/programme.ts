/** Integer programmes in CPLEX's LP format, solved by HiGHS (Huangfu and Hall 2018, its WebAssembly build). */
import highs from 'highs'

/** Its types are written for another module system than it is loaded by. */
const loadHighs = highs as unknown as typeof highs.default
let loaded: ReturnType<typeof loadHighs> | undefined
/** One runtime for all programmes: each would take its own megabytes, and the time to compile them. */
const solver = () => (loaded ??= loadHighs())

export type Term = readonly [factor: number, name: string]

/** A term a line, for the reader takes lines of some hundred letters. */
const sumOf = (terms: readonly Term[]): string =>
  terms.map(([factor, name]) => ` ${factor < 0 ? '-' : '+'} ${Math.abs(factor)} ${name}`).join('\n')

export interface Programme {
  readonly cost: readonly Term[]
  /** Sums, and what they are to be. */
  readonly rows: readonly (readonly [terms: readonly Term[], limit: `${'<=' | '>=' | '='} ${number}`])[]
  readonly integers: readonly string[]
  readonly binaries?: readonly string[]
}

interface Solution {
  /** Of the variables, in the order in which the cost names them; integers to within the solver's tolerance. */
  readonly values: readonly number[]
  /** No cost is below it. */
  readonly bound: number
}

/** Of the cheapest GPU's price: what a replica that nobody needs costs. */
export const idleReplica = 1e-7

/** Of the cost, as a share: what its ends may lie apart. */
const gap = 1e-6

/**
 * @param seconds after which the best that is known is taken
 * @returns values that may keep no row where the time was up before any were found: the caller checks them
 */
export async function solve({ cost, rows, integers, binaries = [] }: Programme, seconds: number): Promise<Solution | 'infeasible'> {
  const listed = (heading: string, names: readonly string[]) => (names.length === 0 ? '' : `${heading}\n ${names.join('\n ')}\n`)
  const constraints = rows.map(([terms, limit], i) => ` row${i}:\n${sumOf(terms)} ${limit}`).join('\n')
  const data = `Minimize\n cost:\n${sumOf(cost)}\nSubject To\n${constraints}\n${listed('General', integers)}${listed('Binary', binaries)}End\n`
  const { withModel, constants } = await solver()
  return withModel({ format: 'lp', data }, (model) => {
    model.options.set({ output_flag: false, mip_rel_gap: gap, time_limit: seconds })
    model.run()
    if (model.getModelStatus() === constants.modelStatus.infeasible) return 'infeasible' as const
    return { values: [...model.getSolution().colValue], bound: Number(model.info.get('mip_dual_bound')) }
  })
}
