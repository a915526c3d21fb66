/**
 * Integer programmes in CPLEX's LP format, solved by HiGHS (Huangfu and Hall 2018, its WebAssembly
 * build).
 */
import highs from 'highs'

/** The package's types describe another module system than the one it is loaded by. */
const loadHighs = highs as unknown as typeof highs.default
let loaded: ReturnType<typeof loadHighs> | undefined
/** One runtime for all programmes: each takes megabytes, and time to compile. */
const loadSolver = () => (loaded ??= loadHighs())

export type Term = readonly [factor: number, name: string]

/** One term a line: HiGHS's reader limits the length of a line. */
const formatSum = (terms: readonly Term[]): string =>
  terms.map(([factor, name]) => ` ${factor < 0 ? '-' : '+'} ${Math.abs(factor)} ${name}`).join('\n')

/** All variables are integers, and the cost names them all. */
export interface Programme {
  readonly cost: readonly Term[]
  /** Sums with their bounds. */
  readonly rows: readonly (readonly [terms: readonly Term[], limit: `${'<=' | '>='} ${number}`])[]
}

interface Solution {
  /**
   * Values of the variables, in the order in which the cost names them; integers to within the
   * solver's tolerance.
   */
  readonly values: readonly number[]
  /** No solution costs less. */
  readonly minCost: number
}

function formatProgramme({ cost, rows }: Programme): string {
  const constraints = rows
    .map(([terms, limit], i) => ` row${i}:\n${formatSum(terms)} ${limit}`)
    .join('\n')
  return `Minimize\n cost:\n${formatSum(cost)}\nSubject To\n${constraints}\nGeneral\n ${cost.map(([, name]) => name).join('\n ')}\nEnd\n`
}

/** Cost of a replica as a share of the cheapest GPU's price, so that idle replicas are left out. */
export const replicaCostShare = 1e-7

/** Relative gap between a solution and its bound at which the solver stops. */
const maxRelativeGap = 1e-6

/**
 * @param maxSeconds after which the best solution found so far is returned
 * @param start a feasible solution by variable name; missing names are 0
 * @returns values that may violate rows if the time ended before a solution: the caller checks them
 */
export async function solve(
  programme: Programme,
  maxSeconds: number,
  start?: ReadonlyMap<string, number>,
): Promise<Solution | 'infeasible'> {
  const { withModel, constants } = await loadSolver()
  return withModel({ format: 'lp', data: formatProgramme(programme) }, (model) => {
    model.options.set({ output_flag: false, mip_rel_gap: maxRelativeGap, time_limit: maxSeconds })
    if (start)
      model.setSolution({ colValue: programme.cost.map(([, name]) => start.get(name) ?? 0) })
    model.run()
    if (model.getModelStatus() === constants.modelStatus.infeasible) return 'infeasible' as const
    return {
      values: [...model.getSolution().colValue],
      minCost: Number(model.info.get('mip_dual_bound')),
    }
  })
}
