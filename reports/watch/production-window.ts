/** What production did in a stretch of time, whoever read it. */
export interface ProductionWindow {
  /** Its beginning, seconds since 1970. */
  readonly fromS: number
  readonly seconds: number
  /** All replicas together, requests per second. */
  readonly rateRps: number
  /** The SLO's percentile of answered requests, ms. */
  readonly sloMs?: number
  /** Share of the requests that failed. */
  readonly errorShare?: number
  /** Replicas that served. */
  readonly replicas?: number
  /** Share of the time that the GPU was busy. */
  readonly gpuShare?: number
  /** Paid for one replica, per hour. */
  readonly pricePerHour?: number
  /** Versions of the model that answered. */
  readonly versions?: readonly string[]
}

export const hourS = 3600

/** The beginning of the hour of a time, seconds since 1970. */
export const hourOf = (atS: number): number => Math.floor(atS / hourS) * hourS

export const untilS = ({ fromS, seconds }: Pick<ProductionWindow, 'fromS' | 'seconds'>): number =>
  fromS + seconds
