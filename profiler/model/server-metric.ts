/** A metric that is asked for. */
export interface AskedMetric {
  readonly name: string
  /** Series that have all of these. */
  readonly labels?: Readonly<Record<string, string>>
  /** Above this the configuration is no use. */
  readonly max?: number
  /** Path on the server, another of its ports with a path (`ownPort`), or a URL of its own. */
  readonly from: string
}

export interface MetricReading extends Pick<AskedMetric, 'name' | 'labels' | 'max'> {
  /**
   * A gauge's mean over the window, a counter's increase per second, a histogram's or summary's
   * mean of what was observed in it. NaN: the server's page does not say.
   */
  readonly value: number
}
