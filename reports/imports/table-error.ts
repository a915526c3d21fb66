/**
 * What is wrong with a file that holds recorded measurements: the whole of it, each with its place.
 */
export interface Problem {
  /** 'runs.csv:12'. */
  readonly where: string
  readonly what: string
  readonly hint?: string
}

/** Most problems that are shown; what is wrong with one row is often wrong with all. */
const SHOWN = 20

export class TableError extends Error {
  readonly problems: readonly Problem[]

  constructor(all: readonly Problem[]) {
    const left = all.length - SHOWN
    const [{ where }] = all as readonly [Problem]
    const rest = { where: where.replace(/:\d+$/, ''), what: `${left} more like these` }
    const problems = left > 0 ? [...all.slice(0, SHOWN), rest] : all
    super(problems.map((p) => `${p.where}: ${p.what}`).join('\n'))
    this.name = 'TableError'
    this.problems = problems
  }
}
