import type { Objective } from '../objective.ts'

/**
 * What a task may ask for, as the search knows it, and how many of a task's own costs (a price per
 * hour; $ per request and second) make one of the search's.
 */
export const taskObjectives = {
  price: { objective: { kind: 'price' }, perTaskCost: 1 },
  pricePerRequest: { objective: { kind: 'price-per-request' }, perTaskCost: 1e6 / 3600 },
} as const satisfies Readonly<
  Record<string, { readonly objective: Objective; readonly perTaskCost: number }>
>

/** A search task on a table of recorded measurements. */
export interface ReplayTask {
  readonly name: string
  readonly parameters: readonly ReplayParameter[]
  /** Column of the price per hour. */
  readonly price: string
  readonly objective: keyof typeof taskObjectives
  /** Column of the constrained metric, and its limit. */
  readonly constraint: { readonly metric: string; readonly max: number }
  /** Column that is 1 where a configuration could not serve. */
  readonly infeasibleColumn?: string | null
  /**
   * Column of the served rate per second where the objective needs one; 'throughputRps' unless
   * said.
   */
  readonly rate?: string
  /** Lognormal sigma of the noise to draw on every measurement; none unless said. */
  readonly relativeNoise?: number
  readonly source?: string
}
export type ReplayParameter =
  | {
      readonly name: string
      readonly kind: 'ordinal'
      readonly values: readonly number[]
      /** How many requests are served at once; by its name unless said. */
      readonly concurrency?: boolean
    }
  | {
      readonly name: string
      readonly kind: 'categorical'
      readonly values: readonly string[]
      readonly features?: Readonly<Record<string, readonly number[]>>
    }

/** A recorded row: column → text or number, an empty text where nothing was measured. */
export type ReplayRow = Readonly<Record<string, string | number>>
