import type { TwinPlay } from './queue-model/posterior.ts'

/** How much time a measurement may take, and how finely it looks. */
export interface Effort {
  readonly warmUpS: number
  readonly idleS: number
  /** Length of one window of the search. */
  readonly windowS: number
  /** Open windows to aim for. */
  readonly windows: number
  /** Length of one closed loop of those that warm the server up and look for its saturation. */
  readonly saturationS: number
  /** Whether the idle latency is measured again at the end, to see a server that changed. */
  readonly checksSpeed: boolean
  /** How the twin is played for the last estimate. */
  readonly twin: TwinPlay
  /** Half width of the capacity's interval, as a share of it, that is narrow enough. */
  readonly precision: number
  /** Time under open load, once the server is warm. */
  readonly budgetS: number
}

/**
 * Quick: to rank trials, with wide intervals. Standard: for a figure to quote. Thorough: for a
 * figure to bet on.
 */
export const efforts = {
  quick: {
    warmUpS: 0.3,
    idleS: 0.25,
    saturationS: 0.25,
    windowS: 0.5,
    windows: 3,
    precision: 0.06,
    twin: { requests: 20_000, longest: 120_000, replicates: 8 },
    checksSpeed: false,
    budgetS: 3,
  },
  standard: {
    warmUpS: 0.8,
    idleS: 0.5,
    saturationS: 0.3,
    windowS: 1,
    windows: 4,
    precision: 0.025,
    twin: { requests: 30_000, longest: 150_000, replicates: 10 },
    checksSpeed: true,
    budgetS: 11.5,
  },
  thorough: {
    warmUpS: 3,
    idleS: 2,
    saturationS: 2,
    windowS: 5,
    windows: 6,
    precision: 0.02,
    twin: { requests: 60_000, longest: 250_000, replicates: 24 },
    checksSpeed: true,
    budgetS: 90,
  },
} as const satisfies Record<string, Effort>
