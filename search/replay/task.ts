import type { Objective } from '../objective.ts'

/**
 * The objectives of a task. `costFactor` converts a task's cost, $ per hour or $ per hour for one
 * request per second, to the search's, $ per hour or $ per million requests.
 */
export const taskObjectives = {
  price: { objective: { kind: 'price' }, costFactor: 1 },
  pricePerRequest: { objective: { kind: 'price-per-request' }, costFactor: 1e6 / 3600 },
} as const satisfies Readonly<
  Record<string, { readonly objective: Objective; readonly costFactor: number }>
>

/** A search task on a table of recorded measurements. */
export interface ReplayTask {
  readonly name: string
  readonly parameters: readonly ReplayParameter[]
  /** Column of the price, $ per hour. */
  readonly price: string
  readonly objective: keyof typeof taskObjectives
  /** Column of the constrained metric, with its limit. */
  readonly constraint: { readonly metric: string; readonly max: number }
  /** Column that is 1 for a configuration that could not serve. Absent: all served. */
  readonly infeasibleColumn?: string | null
  /**
   * Column of the served rate per second, where the objective needs one. Default: 'throughputRps'.
   */
  readonly rate?: string
  /** Standard deviation of ln(measurement) for simulated noise. Default: none. */
  readonly relativeNoise?: number
  /** Origin of the recorded measurements, for the reader. */
  readonly source?: string
}
export type ReplayParameter =
  | {
      readonly name: string
      readonly kind: 'ordinal'
      readonly values: readonly number[]
      /** The parameter is a number of concurrent requests. Default: decided from its name. */
      readonly concurrency?: boolean
    }
  | {
      readonly name: string
      readonly kind: 'categorical'
      readonly values: readonly string[]
      /** Numeric features of each value, which give distances between values. */
      readonly features?: Readonly<Record<string, readonly number[]>>
    }

/** A recorded row: column → text or number. An empty text means not measured. */
export type ReplayRow = Readonly<Record<string, string | number>>
