/** Metric of the server that the user selects for observation. */
export interface ServerMetric {
  readonly name: string
  /** Labels that a series must have. */
  readonly labels?: Readonly<Record<string, string>>
  /** Upper limit: a configuration with a higher value is infeasible. */
  readonly max?: number
  /** A path on the server ('/metrics'), another port of it (':8002/metrics'), or a URL. */
  readonly from: string
}

/** Value of a metric during one window. */
export interface MetricReading extends Pick<ServerMetric, 'name' | 'labels' | 'max'> {
  /**
   * Mean of a gauge over the window, increase per second of a counter, or mean of the observations
   * of a histogram or summary. NaN where the server does not report it.
   */
  readonly value: number
}
