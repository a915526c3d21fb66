import type { SimulationBudget } from './queue-model/posterior.ts'

/** Time and precision of a measurement. */
export interface Effort {
  /** Length of one window of the warm-up. */
  readonly warmUpS: number
  /** Length of one measurement of the unloaded latency. */
  readonly unloadedS: number
  /** Length of one window of the search. */
  readonly windowS: number
  /** Number of open-loop windows that the time budget is sized for. */
  readonly windows: number
  /** Length of one closed loop of the saturation. */
  readonly saturationS: number
  /** Whether the unloaded latency is measured again at the end, to detect a server that changed. */
  readonly checksSpeed: boolean
  /** Simulations of the queue model for the final estimate. */
  readonly simulation: SimulationBudget
  /**
   * Half width of the interval, relative to the capacity, that ends a search. Results up to twice
   * as wide count as converged.
   */
  readonly precision: number
  /** Time under open load, after the warm-up. */
  readonly budgetS: number
}

/**
 * Quick gives wide intervals, enough to rank trials. Standard gives a capacity to quote, thorough
 * one with a narrow interval. The times are assumed; docs/research/capacity.md shows the error of
 * each effort on known servers.
 */
export const efforts = {
  quick: {
    warmUpS: 0.3,
    unloadedS: 0.25,
    saturationS: 0.25,
    windowS: 0.5,
    windows: 3,
    precision: 0.06,
    simulation: { requests: 20_000, maxRequests: 120_000, replicates: 8 },
    checksSpeed: false,
    budgetS: 3,
  },
  standard: {
    warmUpS: 0.8,
    unloadedS: 0.5,
    saturationS: 0.3,
    windowS: 1,
    windows: 4,
    precision: 0.025,
    simulation: { requests: 30_000, maxRequests: 150_000, replicates: 10 },
    checksSpeed: true,
    budgetS: 11.5,
  },
  thorough: {
    warmUpS: 3,
    unloadedS: 2,
    saturationS: 2,
    windowS: 5,
    windows: 6,
    precision: 0.02,
    simulation: { requests: 60_000, maxRequests: 250_000, replicates: 24 },
    checksSpeed: true,
    budgetS: 90,
  },
} as const satisfies Record<string, Effort>
