/** A metric of the server that a user requests. */
export interface ServerMetric {
  readonly name: string
  /** Labels that a series must have. */
  readonly labels?: Readonly<Record<string, string>>
  /** A higher value makes the configuration unusable. */
  readonly max?: number
  /** Path on the server, another of its ports with a path (`ownPort`), or a separate URL. */
  readonly from: string
}

export interface MetricReading extends Pick<ServerMetric, 'name' | 'labels' | 'max'> {
  /**
   * Mean of a gauge over the window, increase per second of a counter, or mean of the observations
   * of a histogram or summary. NaN where the server does not report it.
   */
  readonly value: number
}
