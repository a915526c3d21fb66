/** Production metrics of a stretch of time, whatever their source. */
export interface ProductionWindow {
  /** Start, seconds since 1970. */
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
  /** Price of one replica per hour. */
  readonly pricePerHour?: number
  /** Versions of the model that answered. */
  readonly versions?: readonly string[]
}

/** Seconds in an hour. */
export const hourS = 3600

/** Start of the hour that a time lies in, seconds since 1970. */
export const getHourStartS = (atS: number): number => Math.floor(atS / hourS) * hourS

export const getWindowEndS = ({
  fromS,
  seconds,
}: Pick<ProductionWindow, 'fromS' | 'seconds'>): number => fromS + seconds
